"""The documents say what the code does."""

import re
from dataclasses import MISSING, fields

import pytest
from click.testing import CliRunner

import letters_source
from document import BLOCKS, ROOT, block_pattern
from letters_source.cli import cli
from letters_source.errors import LettersError
from letters_source.listing import TemplateFilters
from letters_source.settings import Overrides, Settings

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(("name", "marker"), BLOCKS)
def test_blocks_written_from_the_code_are_current(name: str, marker: str) -> None:
    """A change of the schema shows in the documents; `python tests/document.py` writes them."""
    found = block_pattern(marker).search((ROOT / name).read_text())
    assert found
    assert found.group() == BLOCKS[name, marker]() + "\n"


def test_the_configuration_reference_lists_every_setting_with_its_default() -> None:
    """README's table has the keys of `Settings`, in their order, and their defaults."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| ", README, re.MULTILINE)
    defaults = {key: default.strip("`") for key, default in rows if key in Settings.__dataclass_fields__}
    expected = {
        key.name: "needed"
        if key.default is MISSING
        else "none"
        if key.default is None
        else f"{key.default}".removesuffix(".0")
        for key in fields(Settings)
    }
    assert defaults == expected
    assert list(defaults) == list(expected)


def test_arguments_are_settings() -> None:
    """What can be given as an argument is what can be configured, with the same types."""
    assert Overrides.__annotations__ == Settings.__annotations__


def test_every_template_parameter_is_named() -> None:
    """README and the example configuration name all of them."""
    example = (ROOT / ".dlt" / "config.toml").read_text()
    for key in TemplateFilters.__dataclass_fields__:
        assert f"`{key}`" in README
        assert f"# {key} = " in example


def test_the_exit_codes_are_those_of_the_errors() -> None:
    """README's table gives each error its exit code."""
    rows = re.findall(r"^\| (\d+) \| (`.*?`) \|", README, re.MULTILINE)
    documented = {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)}
    errors = {name: getattr(letters_source, name) for name in letters_source.__all__}
    concrete = {
        name: error.exit_code
        for name, error in errors.items()
        if isinstance(error, type) and issubclass(error, LettersError) and name not in {"LettersError", "ServiceError"}
    }
    assert documented == concrete


def test_every_command_and_option_is_in_the_readme() -> None:
    """The command's help and README name the same."""
    for name, command in cli.commands.items():
        assert f"`letters {name}" in README
        for option in command.params:
            assert option.opts[0] in README, f"{name} {option.opts[0]}"


def test_help_names_every_command() -> None:
    """`letters --help` lists them with a line each, none cut off."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "..." not in result.output.split("Commands:")[1]
    assert all(f"\n  {name} " in result.output for name in cli.commands)


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link of a document is a file of the repository."""
    for document in ROOT.glob("**/README.md"):
        if ".venv" in document.parts:
            continue
        for link in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document}: {link}"
