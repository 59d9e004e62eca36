"""The documents say what the code does."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click
import pytest
from click.testing import CliRunner
from dlt.common.configuration.providers import CustomLoaderDocProvider

from document import BLOCKS, DOCS, FILES, ROOT, block_pattern
from letters_source.cli.main import cli
from letters_source.config.resolve import resolve_settings
from letters_source.config.settings import FILTERS, SECRETS, SETTINGS, Overrides, Settings
from letters_source.transform.privacy import Policy, Privacy
from private_ca import Authority

README = (ROOT / "README.md").read_text()
PAGES = {path.name: path.read_text() for path in (ROOT / DOCS).glob("*.md")}
FOLDERS = (".", "letters_source", DOCS, "pipelines", "tests/benchmarks")
DOCUMENTS = [path for folder in FOLDERS for path in (ROOT / folder).glob("*.md")]
SUITE = "uv run --all-extras pytest -n auto --dist loadfile"


def example(name: str) -> dict[str, Any]:
    """The section of our settings in an example file, with what is commented out there."""
    text = re.sub(r"^# (?=\[|\w+ = )", "", (ROOT / ".dlt" / name).read_text(), flags=re.MULTILINE)
    section: dict[str, Any] = tomllib.loads(text)["sources"]["letters"]
    return section


@pytest.mark.parametrize(("name", "marker"), BLOCKS)
def test_blocks_written_from_the_code_are_current(name: str, marker: str) -> None:
    """Each generated block of a document is what `python tests/document.py` would write."""
    found = block_pattern(marker).search((ROOT / name).read_text())
    assert found
    assert found.group() == BLOCKS[name, marker]() + "\n"


@pytest.mark.parametrize("name", FILES)
def test_files_written_from_the_code_are_current(name: str) -> None:
    """Each generated file is what `python tests/document.py` would write."""
    assert (ROOT / name).read_text() == FILES[name]()


def test_arguments_are_settings() -> None:
    """Every setting can be given as an argument of the same type, and lists may be of any kind."""
    arguments = {key.name: key for key in fields(Settings) if key.name != "privacy"}
    hints = get_type_hints(Overrides, localns={"Policy": Policy})
    assert list(hints) == [*arguments, "pii"]
    different = {name for name, key in arguments.items() if without_annotation(key.type) != hints[name]}
    assert different == {"known_fields", "last_mailed_statuses"}


def without_annotation(hint: Any) -> Any:
    """The type of a declared setting."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def test_every_setting_has_a_meaning_and_every_open_default_an_example(tmp_path: Path) -> None:
    """The commented config.toml has every setting, and is valid when its comments are removed."""
    found, secrets = example("config.toml"), example("example.secrets.toml")
    sections = {name: found.pop(name) for name in (*FILTERS, "pii", "production")}
    assert set(secrets.pop("production")) == {"access_token", "refresh_token"}
    assert list(secrets) == SECRETS
    assert list(found) == [name for name in SETTINGS if name not in secrets]
    assert {name: list(sections[name]) for name in FILTERS} == {name: list(keys) for name, keys in FILTERS.items()}
    client = str(Authority(tmp_path).issue("client"))
    usable = {**dict.fromkeys(secrets, "s" * 16), "proxy": "http://host:3128"}
    usable |= dict.fromkeys(("ca_bundle", "client_cert", "client_key"), client)
    values = {"sources": {"letters": {**found, **usable, **sections}}}
    settings = resolve_settings({}, [CustomLoaderDocProvider("example", lambda: values, supports_secrets=True)])
    unset = [key.name for keys in (SETTINGS, *FILTERS.values()) for key in keys.values() if not key.about.description]
    assert unset == []
    assert all(getattr(settings, name) is not None for name in SETTINGS)
    assert all(getattr(settings.contact_filters, name) != key.default for name, key in FILTERS["contacts"].items())
    assert all(getattr(settings.template_filters, name) != key.default for name, key in FILTERS["templates"].items())
    assert settings.privacy != Privacy()


def test_every_command_and_option_is_documented() -> None:
    """The page about the command line has all commands and options, but those of filters, which have their page."""
    page = PAGES["command-line.md"] + PAGES["filters.md"]
    for name, command in cli.commands.items():
        assert f"| `letters {name}" in page
        for option in (one for one in command.params if isinstance(one, click.Option)):
            assert all(f"`{text}" in page for text in (*option.opts[:1], *option.secondary_opts)), option.name


def test_help_names_every_command() -> None:
    """`letters --help` lists every command with a whole line."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "..." not in result.output.split("Commands:")[1]
    assert all(f"\n  {name} " in result.output for name in cli.commands)


def test_the_map_names_every_room_and_every_module_next_to_them() -> None:
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
    """README links to each page of the reference, and has no more than 150 lines."""
    assert all(f"]({DOCS}/{name})" in README for name in PAGES)
    assert len(README.splitlines()) <= 150


def test_ci_runs_the_suite_by_the_line_in_readme() -> None:
    """README has one line that installs what the tests need and runs them all, and CI takes it from there."""
    [line] = [line for line in README.splitlines() if line.startswith("apt-get ")]
    assert line.endswith(f" && {SUITE}")
    assert "grep '^apt-get ' README.md" in (ROOT / ".ci" / "run").read_text()
