"""Dagster's checks find what is wrong with the tables, and downstream assets wait for them."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import pytest
from dagster_runs import OWN, check, checked, load_definitions, materialize, materialized, numbers, reach
from holdings import change, query
from postgres import serve_postgres
from row_changes import amend
from worlds import Begin, World, serve_world

from letters_source.dagster import LettersResource
from programmable_emulator import Behavior, Emulator

LABELS, PRODUCT = "contacts__contact_labels", "templates__product"
REJECTED = "rejected_rows: 0 rows of templates were rejected, but the destination holds 1; load again."
LABELED = f"letters_data.{LABELS}"
NAMES = {
    "lonely": f"select min(id) from letters_data.contacts where id not in (select contact_id from {LABELED})",
    "template": "select min(template_id) from letters_data.templates__product",
    "load": "select _dlt_load_id from letters_data.listing_audit where listing = 'templates'",
}

ROWS = ("rows_expected", "rows", "distinct_ids", "rejected_expected", "rejected")
COUNTED = {
    "a contact is gone": {("contacts", "complete"): dict(zip(ROWS, (145, 144, 144, 0, 0), strict=True))},
    "a template is there twice": {
        ("templates", "complete"): dict(zip(ROWS, (7, 8, 7, 0, 0), strict=True)),
        ("templates", "unique_keys"): {"repeated_keys": 1},
    },
    "a label is there twice": {(LABELS, "unique_keys"): {"repeated_keys": 1}},
    "a product's template is gone": {(PRODUCT, "no_orphans"): {"orphans": 1}},
    "a rejected row is there that the service did not send": {
        ("templates", "complete"): dict(zip(ROWS, (7, 7, 7, 0, 1), strict=True))
    },
}
"""What the checks count that fail."""
FAULTS = {
    "a contact is gone": (
        "delete from letters_data.contacts where id = '{lonely}'",
        {("contacts", "complete"): "contacts: read 145 rows, but the destination holds 144 with 144 ids; load again."},
    ),
    "a template is there twice": (
        "insert into letters_data.templates from letters_data.templates limit 1",
        {
            ("templates", "complete"): "templates: read 7 rows, but the destination holds 8 with 7 ids; load again.",
            ("templates", "unique_keys"): "templates: 1 keys occur more than once; load again.",
        },
    ),
    "a label is there twice": (
        "insert into letters_data.contacts__contact_labels from letters_data.contacts__contact_labels limit 1",
        {(LABELS, "unique_keys"): "contacts__contact_labels: 1 keys occur more than once; load again."},
    ),
    "a product's template is gone": (
        "update letters_data.templates__product set template_id = 'gone' where template_id = '{template}'",
        {(PRODUCT, "no_orphans"): "templates__product: 1 row without a row in templates; load again."},
    ),
    "a rejected row is there that the service did not send": (
        "insert into letters_data.rejected_rows values ('templates', 0, 0, 'damaged', null, '{load}')",
        {("templates", "complete"): REJECTED},
    ),
}


@dg.asset(deps=[dg.AssetKey(["letters_data", "templates"])])
def catalog() -> None:
    """An asset that is made of templates."""


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """145 contacts and 7 templates."""
    return reach(begin(Emulator(145, 7)), monkeypatch)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A loaded file, for all tests that damage a copy of it."""
    with serve_world(tmp_path_factory.mktemp("checks"), emulator=Emulator(145, 7)) as world:
        world.start_loaded()
        yield world.place


def definitions_of(**resource: Any) -> dg.Definitions:
    """The definitions with a resource of other settings."""
    defs = load_definitions()
    return dg.Definitions(
        defs.assets, asset_checks=defs.asset_checks, resources={"letters": LettersResource(**resource)}
    )


@pytest.mark.parametrize("how", FAULTS)
def test_a_damaged_table_is_found(loaded: Path, tmp_path: Path, how: str) -> None:
    """The check that looks for a fault names the table and the number of rows, also as metadata."""
    statement, expected = FAULTS[how]
    copy = copyfile(loaded, tmp_path / "copy.duckdb")
    change(copy, statement.format_map({name: query(copy, sql)[0][0] for name, sql in NAMES.items()}))
    result = check(definitions_of(to=str(copy)), OWN)
    assert checked(result) == expected
    counted = numbers(result)
    assert {key: counted[key] for key in expected} == COUNTED[how]


def test_downstream_assets_wait_for_checks_that_pass(loaded: Path, tmp_path: Path) -> None:
    """An asset that is made of a table runs if the checks of the table pass, and does not if one fails."""
    copy = copyfile(loaded, tmp_path / "copy.duckdb")
    defs = definitions_of(to=str(copy))
    assert set(materialized(check(defs, OWN, after=[catalog]))) == {"catalog"}
    change(copy, "delete from letters_data.templates")
    assert set(materialized(check(defs, OWN, after=[catalog]))) == set()


def test_undocumented_fields_are_warned_of(world: World) -> None:
    """Undocumented fields are a warning, which stops nothing."""
    world.emulator.behavior = Behavior(extra_fields={"nickname": "Lin", "rank": 3})
    result = materialize(load_definitions(), OWN, after=[catalog])
    assert result.success
    assert "catalog" in materialized(result)
    fields = {
        table: f"nickname in {rows} rows, rank in {rows} rows" for table, rows in (("contacts", 145), ("templates", 7))
    }
    assert checked(result) == {
        (table, "documented"): f"{table}: new fields, or values that do not fit, kept in undocumented: {found}."
        for table, found in fields.items()
    }
    counted = numbers(result)
    assert (counted["contacts", "documented"], counted["templates", "documented"]) == (
        {"undocumented_values": 290},
        {"undocumented_values": 14},
    )
    severities = {each.severity for each in result.get_asset_check_evaluations() if not each.passed}
    assert severities == {dg.AssetCheckSeverity.WARN}


def test_checks_read_the_audits_of_postgresql(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks read audits of PostgreSQL, whose JSON comes as objects and not as text."""
    world.emulator.behavior = Behavior(extra_fields={"score": 1.5})
    with serve_postgres() as url:
        monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", url)
        result = materialize(definitions_of(destination="postgres"), OWN)
    assert result.success
    facts = materialized(result)["contacts"]
    assert (facts["destination"], facts["dagster/table_name"]) == ("postgres", "letters_data.contacts")
    assert facts["place"].startswith("postgresql://")
    assert urlsplit(facts["place"]).password in (None, "***")
    assert checked(result) == {
        (
            "contacts",
            "documented",
        ): "contacts: new fields, or values that do not fit, kept in undocumented: score in 145 rows.",
        (
            "templates",
            "documented",
        ): "templates: new fields, or values that do not fit, kept in undocumented: score in 7 rows.",
    }


def test_history_is_checked_as_it_stands_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Previous versions of a row are not duplicates of it."""
    monkeypatch.setenv("SOURCES__LETTERS__HISTORY", "true")
    world.start_loaded(history=True)
    amend(world.emulator.contacts, world.emulator.contacts.ids()[0], city="Elsewhere")
    result = materialize(load_definitions(), OWN)
    assert materialized(result)["contacts"]["dagster/row_count"] == 146
    assert checked(result) == {}


def test_checks_of_what_was_never_loaded_fail(world: World) -> None:
    """Checks of a file that does not exist fail, and make no file."""
    found = checked(check(load_definitions(), OWN))
    assert len(found) == 12
    assert set(found.values()) == {"letters.duckdb does not exist; load it first."}
    assert not world.place.exists()


def test_checks_of_a_listing_that_was_never_loaded_fail(world: World) -> None:
    """Checks of a listing that was never loaded fail, and those of the other listing pass."""
    defs = load_definitions()
    assert materialize(defs, OWN, "templates").success
    found = checked(check(defs, OWN))
    assert {table for table, _ in found} == {"contacts", "contacts__contact_labels"}
    assert found["contacts", "complete"] == "contacts: listing_audit has no load of it; load it first."


def test_a_file_that_cannot_be_read_is_reported(world: World) -> None:
    """A check of a file that is no database fails with one line that says so."""
    world.place.write_text("This is no database.")
    problem = checked(check(load_definitions(), OWN))["contacts", "complete"]
    assert problem is not None
    assert "not a valid DuckDB database file" in problem
    assert "\n" not in problem


def test_checks_need_only_the_tables(world: World) -> None:
    """Checks pass without dlt's working folder, which may be on another machine."""
    world.start_loaded()
    assert checked(check(load_definitions(), OWN)) == {}
