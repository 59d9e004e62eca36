"""The documents say what the code does."""

import re
import tomllib
from dataclasses import fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner
from dlt.common.configuration.providers import CustomLoaderDocProvider

import letters_source
from document import BLOCKS, FILES, ROOT, block_pattern
from letters_source.cli.main import cli
from letters_source.config.resolve import resolve_settings
from letters_source.config.settings import FILTERS, SECRETS, SETTINGS, Overrides, Settings
from letters_source.errors import LettersError
from letters_source.transform.privacy import Policy, Privacy

README = (ROOT / "README.md").read_text()


def example(name: str) -> dict[str, Any]:
    """The section of our settings in an example file, with what is commented out there."""
    text = re.sub(r"^# (?=\[|\w+ = )", "", (ROOT / ".dlt" / name).read_text(), flags=re.MULTILINE)
    section: dict[str, Any] = tomllib.loads(text)["sources"]["letters"]
    return section


@pytest.mark.parametrize(("name", "marker"), BLOCKS)
def test_blocks_written_from_the_code_are_current(name: str, marker: str) -> None:
    """A change of the schema shows in the documents; `python tests/document.py` writes them."""
    found = block_pattern(marker).search((ROOT / name).read_text())
    assert found
    assert found.group() == BLOCKS[name, marker]() + "\n"


@pytest.mark.parametrize("name", FILES)
def test_files_written_from_the_code_are_current(name: str) -> None:
    """A change of a setting shows in them; `python tests/document.py` writes them."""
    assert (ROOT / name).read_text() == FILES[name]()


def test_arguments_are_settings() -> None:
    """What can be given as an argument is what can be configured, with the same types; lists may be of any kind."""
    arguments = {key.name: key for key in fields(Settings) if key.name != "privacy"}
    hints = get_type_hints(Overrides, localns={"Policy": Policy})
    assert list(hints) == [*arguments, "pii"]
    different = {name for name, key in arguments.items() if without_annotation(key.type) != hints[name]}
    assert different == {"last_mailed_statuses"}


def without_annotation(hint: Any) -> Any:
    """The type of a declared setting."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def test_every_setting_has_a_meaning_and_every_open_default_an_example() -> None:
    """The commented config.toml, uncommented, has all of them, and is valid."""
    found, secrets = example("config.toml"), example("example.secrets.toml")
    sections = {name: found.pop(name) for name in (*FILTERS, "pii", "production")}
    assert set(secrets.pop("production")) == {"access_token", "refresh_token"}
    assert list(secrets) == SECRETS
    assert list(found) == [name for name in SETTINGS if name not in secrets]
    assert {name: list(sections[name]) for name in FILTERS} == {name: list(keys) for name, keys in FILTERS.items()}
    values = {"sources": {"letters": {**found, **dict.fromkeys(secrets, "s" * 16), **sections}}}
    settings = resolve_settings({}, [CustomLoaderDocProvider("example", lambda: values, supports_secrets=True)])
    unset = [key.name for keys in (SETTINGS, *FILTERS.values()) for key in keys.values() if not key.about.description]
    assert unset == []
    assert all(getattr(settings, name) is not None for name in SETTINGS)
    assert all(getattr(settings.contact_filters, name) != key.default for name, key in FILTERS["contacts"].items())
    assert all(getattr(settings.template_filters, name) != key.default for name, key in FILTERS["templates"].items())
    assert settings.privacy != Privacy()


def test_the_exit_codes_are_those_of_the_errors() -> None:
    """README's table gives each error its exit code."""
    rows = re.findall(r"^\| (\d+) \| (`.*?`) \|", README, re.MULTILINE)
    documented = {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)}
    errors = {name: getattr(letters_source, name) for name in letters_source.__all__}
    concrete = {
        name: error.exit_code
        for name, error in errors.items()
        if isinstance(error, type) and issubclass(error, LettersError) and error is not LettersError
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


def test_every_module_is_in_the_tables_of_modules() -> None:
    """Each answers a question, in the table of its folder; but for the packages' own files."""
    package = ROOT / "letters_source"
    tables = re.findall(
        r"^\| (?:module|in `(\w+)/`) \|.*\n((?:\|.*\n)+)", (package / "README.md").read_text(), re.MULTILINE
    )
    named = [package / folder / name for folder, table in tables for name in re.findall(r"`(\w+\.py)`", table)]
    assert sorted(named) == sorted(package.rglob("[!_]*.py"))


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link of a document is a file of the repository."""
    for document in ROOT.glob("**/README.md"):
        if ".venv" in document.parts:
            continue
        for link in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document}: {link}"
