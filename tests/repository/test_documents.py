"""The documents say what the code does."""

import re
import tomllib
from dataclasses import MISSING, Field, fields
from datetime import date
from typing import Any, get_type_hints

import pytest
from click.testing import CliRunner
from dlt.common.configuration.providers import CustomLoaderDocProvider

import letters_source
from document import BLOCKS, ROOT, block_pattern
from letters_source.cli.main import cli
from letters_source.config.providers import SECRETS
from letters_source.config.resolve import NESTED, resolve_settings
from letters_source.config.settings import Overrides, Settings
from letters_source.errors import LettersError
from letters_source.service.listings import ContactFilters, TemplateFilters
from letters_source.transform.privacy import Privacy

README = (ROOT / "README.md").read_text()
KEYS = [key for key in fields(Settings) if key.name not in NESTED]
FILTERS: dict[str, type[ContactFilters | TemplateFilters]] = {"contacts": ContactFilters, "templates": TemplateFilters}


def default_of(key: "Field[Any]") -> str:
    """A setting's default as README writes it."""
    if key.default is MISSING:
        return "needed"
    if key.default is None or isinstance(key.default, bool):
        return str(key.default).lower()
    return ", ".join(key.default) if isinstance(key.default, tuple) else f"{key.default}".removesuffix(".0")


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


def test_the_configuration_reference_lists_every_setting_with_its_default() -> None:
    """README's table has the keys of `Settings`, in their order, and their defaults."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| ", README, re.MULTILINE)
    defaults = {key: default.strip("`") for key, default in rows if key in Settings.__dataclass_fields__}
    expected = {key.name: default_of(key) for key in KEYS}
    assert defaults == expected
    assert list(defaults) == list(expected)


def test_arguments_are_settings() -> None:
    """What can be given as an argument is what can be configured, with the same types; lists may be of any kind."""
    arguments, settings = get_type_hints(Overrides), get_type_hints(Settings)
    assert arguments.keys() - settings.keys() == {"pii", "pii_key"}
    assert settings.keys() - arguments.keys() == {"privacy"}
    assert {key for key in arguments.keys() & settings.keys() if arguments[key] != settings[key]} == {
        "last_mailed_statuses"
    }


def test_every_filter_is_named() -> None:
    """README has a table for each listing: an option for each key, if there is one, and the key."""
    for listing, kind in FILTERS.items():
        [table] = re.findall(rf"^\| option \| key \| {listing} \|\n((?:\|.*\n)+)", README, re.MULTILINE)
        keys = [
            key
            for cell in re.findall(r"^\|[^|]+\|([^|]+)\|", table, re.MULTILINE)
            for key in re.findall(r"`(\w+)`", cell)
        ]
        assert [*keys, "account_id"] == [key.name for key in fields(kind)]


def test_the_example_configuration_has_every_setting() -> None:
    """In the order of the code, with its default where it has one."""
    found, secrets = example("config.toml"), example("example.secrets.toml")
    sections = {name: found.pop(name) for name in (*FILTERS, "pii", "production")}
    assert set(secrets.pop("production")) == {"access_token", "refresh_token"}
    assert list(secrets) == list(SECRETS)
    assert list(found) == [key.name for key in KEYS if key.name not in secrets]
    assert {name: list(sections[name]) for name in FILTERS} == {
        name: [key.name for key in fields(kind)] for name, kind in FILTERS.items()
    }
    assert set(sections["production"]) < set(found)
    values = {"sources": {"letters": {**found, **secrets, **sections}}}
    settings = resolve_settings({}, [CustomLoaderDocProvider("example", lambda: values, supports_secrets=True)])
    assert settings == Settings(
        base_url="https://...",
        access_token="<ACCESS_TOKEN>",
        refresh_token="<REFRESH_TOKEN>",
        environment="demo",
        account_id="...",
        requests_per_second=20,
        mailings_since=date(2024, 1, 31),
        contact_filters=settings.contact_filters,
        template_filters=settings.template_filters,
        privacy=settings.privacy,
    )
    assert all(getattr(settings.contact_filters, key.name) != key.default for key in fields(ContactFilters))
    assert all(getattr(settings.template_filters, key.name) != key.default for key in fields(TemplateFilters))
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
