"""Does a `defs.yaml` give the same as the definitions in Python, and are invalid settings in it refused?"""

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import dagster as dg
import pytest
from click.testing import CliRunner
from dagster.components.core.package_entry import DG_PLUGIN_ENTRY_POINT_GROUP, discover_package_objects
from dagster.components.testing import create_defs_folder_sandbox
from dagster_dg_cli.cli import cli
from dagster_runs import FILE, OWN, checked, failures, load_definitions, materialize, materialized, reach, requested
from holdings import LISTED, held_tables, query, read_tables
from row_changes import set_traits
from worlds import ACCESS, REFRESH, Begin, World

from letters_source.config.messages import where_to_set
from letters_source.dagster import LettersComponent
from letters_source.errors import SettingsError
from letters_source.tables import TABLES
from programmable_emulator import Emulator

# what Dagster 1.13 itself uses when it reads YAML
pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.* is currently in beta"),
]

TYPE = "letters_source.dagster.LettersComponent"
RECIPE = FILE.with_suffix(".yaml").read_text()
ACCOUNT_STEP = "letters_accounts_tables"
DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
"""As `create-dagster project` writes it."""


@contextmanager
def loaded(text: str) -> Iterator[dg.Definitions]:
    """The definitions of a project with this `defs.yaml`."""
    with create_defs_folder_sandbox() as project:
        file = project.defs_folder_path / "letters/defs.yaml"
        file.parent.mkdir()
        file.write_text(text)
        with project.build_all_defs() as defs:
            yield defs


def yaml_of(**attributes: Any) -> str:
    """A `defs.yaml`; JSON is YAML."""
    return json.dumps({"type": TYPE, "attributes": attributes})


def shown(defs: dg.Definitions) -> dict[str, Any]:
    """Return what Dagster shows of each asset, except where it is defined."""
    graph = defs.resolve_asset_graph()
    return {
        key.to_user_string(): {
            "group": graph.get(key).group_name,
            "kinds": graph.get(key).kinds,
            "owners": list(graph.get(key).owners),
            "description": graph.get(key).description,
            "parents": {parent.to_user_string() for parent in graph.get(key).parent_keys},
            "partitions": getattr(graph.get(key).partitions_def, "name", None),
            "table": graph.get(key).metadata.get("dagster/table_name"),
            "columns": graph.get(key).metadata.get("dagster/column_schema"),
            "pools": graph.get(key).pools if graph.get(key).is_materializable else None,
        }
        for key in graph.get_all_asset_keys()
    }


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """12 contacts and 4 templates."""
    return reach(begin(Emulator(12, 4)), monkeypatch)


def test_assets_are_those_of_the_python_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The component's assets are those of the Python file, with a service asset for accounts; nothing is written."""
    monkeypatch.chdir(tmp_path)
    expected = shown(load_definitions())
    with loaded(RECIPE) as defs:
        found = shown(defs)
    assert list(tmp_path.iterdir()) == []
    service = found.pop("letters_accounts_service")
    assert service == expected["letters_service"]
    for facts in found.values():
        facts["parents"] = {name.replace("letters_accounts_service", "letters_service") for name in facts["parents"]}
    assert found == expected


def test_checks_are_those_of_the_python_file() -> None:
    """The component's checks are those of the Python file, with the same severity."""
    written = load_definitions().resolve_asset_graph()
    with loaded(RECIPE) as defs:
        graph = defs.resolve_asset_graph()
    assert {key: graph.get(key).blocking for key in graph.asset_check_keys} == {
        key: written.get(key).blocking for key in written.asset_check_keys
    }


def test_schedules_are_given_or_left_out() -> None:
    """The schedules are daily by default, and `schedule: null` leaves them out."""
    with loaded(RECIPE) as defs:
        found = {name: defs.resolve_schedule_def(f"{name}_schedule") for name in ("letters", "letters_accounts")}
    assert {name: schedule.cron_schedule for name, schedule in found.items()} == {
        "letters": "0 5 * * *",
        "letters_accounts": "0 6 * * *",
    }
    with loaded(yaml_of(schedule=None)) as defs:
        assert list(defs.schedules or ()) == []


def test_the_schedule_of_accounts_requests_a_run_for_each() -> None:
    """The schedule of accounts requests a run for each account that Dagster knows."""
    with loaded(RECIPE) as defs:
        assert requested(defs, "letters_accounts_schedule", ["A", "B"]) == {"A": "A", "B": "B"}


def test_tables_are_loaded_and_checked(world: World) -> None:
    """The recipe loads the service's rows into the project's own folder, and every check passes."""
    with loaded(RECIPE) as defs:
        result = materialize(defs, OWN)
        assert result.success
        letters: Any = (defs.resources or {})["letters"]
        tables = read_tables(Path(letters.to))
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    assert {name: facts["dagster/row_count"] for name, facts in materialized(result).items()} == {
        name: len(rows) for name, rows in tables.items()
    }
    assert len(result.get_asset_check_evaluations()) == 12
    assert checked(result) == {}


def test_settings_are_those_of_run(world: World) -> None:
    """Settings are those of `run()`; facets and mailings add assets, which are loaded where they are selected."""
    settings = {
        "page_size": 5,
        "max_workers": 2,
        "facets": True,
        "mailings": True,
        "mailings_since": "2026-11-20",
        "contact_filters": {"address_status": ["Verified"]},
    }
    with loaded(yaml_of(dataset="spring", to="mail.duckdb", group="mail", settings=settings)) as defs:
        graph = defs.resolve_asset_graph()
        tables = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).group_name == "mail"}
        result = materialize(defs, "mail_tables", "contacts")
    assert tables == {f"spring/{table.name}" for table in TABLES}
    assert set(materialized(result)) == {"contacts", "contacts__contact_labels", "rejected_rows", "listing_audit"}
    assert {hit.path for hit in world.emulator.hits} == {"/api/v1/contacts"}
    queries = [dict(parse_qsl(hit.query)) for hit in world.emulator.hits]
    # the request for one row counts the rows without the filter
    assert {(query["pageSize"], query.get("addressStatus")) for query in queries} == {
        ("5", '["Verified"]'),
        ("1", None),
    }


def test_accounts_are_partitions(world: World) -> None:
    """Each account is a partition that is loaded into a dataset of its own."""
    for listing in (world.emulator.contacts, world.emulator.templates):
        for number, row_id in enumerate(listing.ids()):
            set_traits(listing, row_id, account_id="AB"[number % 2])
    with loaded(RECIPE.replace("{{ context.project_root }}/", "")) as defs, dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("letters_accounts", ["A", "B"])
        result = materialize(defs, ACCOUNT_STEP, instance=instance, partition_key="A")
        assert result.success
    assert checked(result) == {}
    assert query(world.place, "select count(*) from letters_data_a.contacts") == [(6,)]


def test_a_failure_has_its_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed run has its reason in one line, which names what to set."""
    monkeypatch.delenv("SOURCES__LETTERS__BASE_URL")
    with loaded(yaml_of()) as defs:
        reasons = failures(materialize(defs, OWN, "templates"))
    searched = f"Searched {Path.cwd() / '.dlt/config.toml'} (not found)."
    assert reasons == [f"sources.letters.base_url is not set; {where_to_set('base_url')}. {searched}"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"access_token": "canary"},
            f"sources.letters.access_token is a secret, not for definitions; {where_to_set('access_token')}.",
        ),
        ({"pagesize": 5}, "unknown setting sources.letters.pagesize; did you mean page_size?"),
        (
            {"contact_filters": {"address_state": []}},
            "unknown setting sources.letters.contacts.address_state; did you mean address_status?",
        ),
        ({"max_workers": 0}, "argument max_workers must be a whole number from 1 to 1000, got 0."),
    ],
)
def test_settings_are_checked_when_the_file_is_loaded(settings: dict[str, Any], reason: str) -> None:
    """Secrets, unknown names and impossible values in a file are refused when it is loaded."""
    with pytest.raises(SettingsError) as caught:
        dg.build_defs_for_component(LettersComponent(settings=settings))
    assert str(caught.value) == reason


def test_every_attribute_has_a_description() -> None:
    """Every attribute has a description, which editors and Dagster's page show."""
    described = LettersComponent.model().model_json_schema()["properties"]
    assert [name for name, facts in described.items() if not facts.get("description")] == []
    assert list(described) == ["destination", "to", "dataset", "settings", "accounts", "group", "schedule"]


def test_the_package_registers_the_component() -> None:
    """The package registers the component, and nothing else, where `dg list components` looks."""
    project = tomllib.loads((FILE.parents[1] / "pyproject.toml").read_text())["project"]
    found = discover_package_objects([*project["entry-points"][DG_PLUGIN_ENTRY_POINT_GROUP].values()])
    assert {f"{key.namespace}.{key.name}": kind for key, kind in found.items()} == {TYPE: LettersComponent}


def test_dg_scaffolds_and_lists_the_component(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dg scaffold` writes a valid component, and `dg list` shows its assets and schedule, but no token."""
    project = world.place.parent / "project"
    (project / "mailroom/defs").mkdir(parents=True)
    (project / "dg.toml").write_text('directory_type = "project"\n\n[project]\nroot_module = "mailroom"\n')
    (project / "mailroom/definitions.py").write_text(DEFINITIONS)
    (project / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(project))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(project)
    written = CliRunner().invoke(cli, ["scaffold", "defs", TYPE, "letters"])
    assert written.exit_code == 0, written.output
    listed = CliRunner().invoke(cli, ["list", "defs", "--json"])
    assert listed.exit_code == 0, listed.output
    found = json.loads(listed.stdout)
    assert {asset["asset_key"] for asset in found["assets"]} == {
        "letters_service",
        *(f"letters_data/{name}" for name in (*LISTED, "rejected_rows", "listing_audit")),
    }
    assert [schedule["name"] for schedule in found["schedules"]] == ["letters_schedule"]
    assert not any(token in listed.output for token in (ACCESS, REFRESH))
