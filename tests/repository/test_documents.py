"""The documents say what the code does."""

import re
import tomllib
from dataclasses import MISSING, Field, fields
from datetime import date
from typing import Any, get_type_hints

import pytest
from click.testing import CliRunner
from dlt.common.configuration.providers import CustomLoaderDocProvider

from document import BLOCKS, DOCS, ROOT, block_pattern
from letters_source.cli.main import cli
from letters_source.config.providers import SECRETS
from letters_source.config.resolve import NESTED, resolve_settings
from letters_source.config.settings import Overrides, Settings
from letters_source.service.listings import ContactFilters, TemplateFilters
from letters_source.transform.privacy import Privacy

README = (ROOT / "README.md").read_text()
PAGES = {path.name: path.read_text() for path in (ROOT / DOCS).glob("*.md")}
FOLDERS = (".", "letters_source", DOCS, "pipelines", "tests/benchmarks")
DOCUMENTS = [path for folder in FOLDERS for path in (ROOT / folder).glob("*.md")]
SUITE = "pip install uv && uv run --all-extras pytest -n auto --dist loadfile"
KEYS = [key for key in fields(Settings) if key.name not in NESTED]
FILTERS: dict[str, type[ContactFilters | TemplateFilters]] = {"contacts": ContactFilters, "templates": TemplateFilters}


def default_of(key: "Field[Any]") -> str:
    """Return a setting's default as the table of settings shows it."""
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
    """The table has the keys of `Settings`, in their order, and their defaults."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| ", PAGES["settings.md"], re.MULTILINE)
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
    """The page has a table for each listing: an option for each key, if there is one, and the key."""
    for listing, kind in FILTERS.items():
        [table] = re.findall(rf"^\| option \| key \| {listing} \|\n((?:\|.*\n)+)", PAGES["filters.md"], re.MULTILINE)
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


def test_every_command_and_option_is_documented() -> None:
    """The page about the command line has all commands and options, but those of filters, which have their page."""
    page = PAGES["command-line.md"] + PAGES["filters.md"]
    for name, command in cli.commands.items():
        assert f"| `letters {name}" in page
        for option in command.params:
            assert all(f"`{text}" in page for text in (*option.opts[:1], *option.secondary_opts)), option.name


def test_help_names_every_command() -> None:
    """`letters --help` lists them with a line each, none cut off."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "..." not in result.output.split("Commands:")[1]
    assert all(f"\n  {name} " in result.output for name in cli.commands)


def test_the_map_names_every_room_and_every_module_beside_them() -> None:
    """The developers' map has a row for each folder and each module of the package's root, and no others."""
    package = ROOT / "letters_source"
    rows = re.findall(r"^\| (`.*?) \|", (package / "README.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+(?:/|\.py))`", row)]
    rooms = [f"{path.parent.name}/" for path in package.glob("*/__init__.py")]
    assert sorted(named) == sorted([*rooms, *(path.name for path in package.glob("[!_]*.py"))])


def test_modules_named_in_the_map_exist() -> None:
    """Each path that the developers' map gives is a file of the package."""
    package = ROOT / "letters_source"
    named = re.findall(r"`([\w/]+\.py)`", (package / "README.md").read_text())
    assert named
    assert [name for name in named if not (package / name).is_file()] == []


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link is a file of the repository, and its anchor one of that file's headings."""
    for document in DOCUMENTS:
        for link, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", document.read_text()):
            target = document.parent / link if link else document
            assert target.exists(), f"{document}: {link}"
            assert not anchor or anchor in anchors(target.read_text()), f"{document}: {link}#{anchor}"


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_of_the_reference_is_in_the_index() -> None:
    """README links to each, and stays short enough to be read."""
    assert all(f"]({DOCS}/{name})" in README for name in PAGES)
    assert len(README.splitlines()) <= 150


def test_readme_says_how_to_run_the_suite() -> None:
    """In the one line that CI runs."""
    assert f"\n{SUITE}\n" in README
    assert SUITE in (ROOT / ".ci" / "run").read_text()
