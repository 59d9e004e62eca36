"""Loads recreate tables and columns that were dropped."""

from typing import Any

import pytest
from holdings import DATASET, change, query, table_names
from worlds import Begin, World

from letters_source import DestinationError, LoadFailed
from letters_source.tables import tables_of
from programmable_emulator import Emulator

LACKS = (
    "the dataset letters_data lacks %s, which earlier loads made; "
    "restore all its tables from one copy, or choose another dataset."
)
LOADED = [table.name for name in ("templates", "contacts") for table in tables_of(name)]


@pytest.fixture
def loaded(begin: Begin) -> World:
    """An account that was loaded once and has changed since."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    world.emulator.contacts.delete("5")
    return world


@pytest.mark.parametrize(
    "tables", [("contacts", "templates__creator"), ("contacts__contact_labels", "templates", "templates__product")]
)
def test_tables_that_were_dropped_are_made_again(loaded: World, tables: tuple[str, ...]) -> None:
    """The next load makes a dropped parent or child again, with its rows."""
    for table in tables:
        change(loaded.place, f"drop table letters_data.{table}")
    loaded.load()
    assert loaded.is_exact()


def test_a_staging_table_that_was_dropped_is_made_again(loaded: World) -> None:
    """The next load makes a dropped staging table again, though dlt has noted that it exists."""
    loaded.load()
    change(loaded.place, "drop table letters_data_staging.contacts")
    loaded.load()
    assert loaded.is_exact()


@pytest.mark.parametrize("mode", ["sync", "history"])
def test_staging_keeps_no_rows(begin: Begin, mode: str) -> None:
    """A load that keeps rows makes a table or column again that was dropped in staging alone."""
    world = begin(Emulator(30, 7))
    for statement in ("", "drop table {}.contacts", "alter table {}.contacts__contact_labels drop title"):
        world.load(**{mode: True})
        change(world.place, statement.format(f"{DATASET}_staging") or "select 1")
        world.emulator.contacts.grow()
    world.load(**{mode: True})
    assert query(world.place, f"select count(*) from {DATASET}.contacts") == [(33,)]


def test_tables_that_a_load_leaves_alone_are_not_made_again(loaded: World) -> None:
    """A load of contacts does not make a dropped table of templates again, since it would be empty."""
    change(loaded.place, "drop table letters_data.templates")
    loaded.load(only=("contacts",))
    assert ("letters_data", "templates") not in table_names(loaded.place)


def test_a_load_fails_without_the_audits_of_earlier_ones(loaded: World) -> None:
    """A load fails when the audits of earlier loads are gone, because its guards compare with them.

    The audit commits apart from the tables of the listings, which are all old or all new after the failure.
    """
    change(loaded.place, "drop table letters_data.listing_audit")
    before = {name: loaded.tables()[name] for name in LOADED}
    with pytest.raises(DestinationError) as caught:
        loaded.load()
    assert str(caught.value) == LACKS % "listing_audit"
    assert loaded.is_exact() or {name: loaded.tables()[name] for name in LOADED} == before


@pytest.mark.parametrize("facets", [False, True])
@pytest.mark.parametrize("mode", ["sync", "history"])
@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("drop table letters_data.contacts", "contacts"),
        ("drop table letters_data.contacts__contact_labels", "contacts__contact_labels"),
        ("alter table letters_data.contacts rename phone_no to phone", "contacts.phone_no"),
        ("alter table letters_data.contacts drop row_hash", "contacts.row_hash"),
    ],
)
def test_a_load_that_keeps_rows_names_what_was_dropped(
    begin: Begin, mode: str, statement: str, lost: str, *, facets: bool
) -> None:
    """With history and sync, a load names what was dropped, since unchanged rows would not be written again.

    With new tables, those of facets, dlt would make it again.
    """
    world = begin(Emulator(30, 7))
    world.load(**{mode: True})
    change(world.place, f"drop view if exists letters_data.contacts_current; {statement}")
    world.emulator.contacts.grow(2)
    before, sent = world.tables(), len(world.emulator.hits)
    with pytest.raises(DestinationError) as caught:
        world.load(**{mode: True, "facets": facets})
    assert str(caught.value) == LACKS % lost
    assert world.emulator.hits[sent:] == []
    kept = [name for name in LOADED if name in before]
    assert {name: world.tables()[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("gone", ["listing_audit", "_dlt_loads"])
def test_a_dropped_table_is_not_made_again_without_audits(begin: Begin, gone: str) -> None:
    """New tables would have dlt make it again, if a load without the audits of earlier ones passed for the first."""
    world = begin(Emulator(30, 7))
    world.load(sync=True)
    change(world.place, f"drop table {DATASET}.contacts__contact_labels; drop table {DATASET}.{gone}")
    with pytest.raises(DestinationError) as caught:
        world.load(sync=True, facets=True)
    assert str(caught.value) == LACKS % gone
    assert (DATASET, "contacts__contact_labels") not in table_names(world.place)


COPIES = f"select * replace ('copy of ' || id as id) from {DATASET}.contacts where id in ('5', '6', '7')"


def test_copies_of_rows_are_not_taken_for_the_rows(begin: Begin) -> None:
    """With sync, rows that someone copied under other ids go; the rows themselves and their labels stay."""
    world = begin(Emulator(30, 7))
    world.load(sync=True)
    before = {name: world.tables()[name] for name in LOADED}
    change(world.place, f"insert into {DATASET}.contacts {COPIES}")
    world.load(sync=True)
    assert {name: world.tables()[name] for name in LOADED} == before


def test_copies_of_rows_stop_a_history(begin: Begin) -> None:
    """With history, dlt knows versions by their hashes: a load with copies fails, rather than ending the rows."""
    world = begin(Emulator(30, 7))
    world.load(history=True)
    change(world.place, f"insert into {DATASET}.contacts {COPIES}")
    with pytest.raises(LoadFailed, match="contacts: read 30 rows, but the destination holds 33 with 33 ids"):
        world.load(history=True)
    change(world.place, f"delete from {DATASET}.contacts where id like 'copy of%'")
    world.load(history=True)


def test_the_case_of_a_columns_name_does_not_matter(begin: Begin) -> None:
    """A column that someone renamed in DuckDB by case alone is there."""
    world = begin(Emulator(30, 7))
    world.load(sync=True)
    change(world.place, f"alter table {DATASET}.contacts rename city to CITY")
    world.emulator.contacts.grow(2)
    world.load(sync=True)
    assert query(world.place, f"select count(city) from {DATASET}.contacts where city <> ''") != [(0,)]


def test_a_dropped_facet_is_named_before_anything_is_read(begin: Begin) -> None:
    """With sync, the table of a facet is one that keeps rows."""
    world = begin(Emulator(30, 7))
    world.load(sync=True, facets=True)
    change(world.place, f"drop table {DATASET}.templates__shared")
    sent = len(world.emulator.hits)
    with pytest.raises(DestinationError) as caught:
        world.load(sync=True, facets=True)
    assert str(caught.value) == LACKS % "templates__shared"
    assert world.emulator.hits[sent:] == []


def test_a_load_fails_without_dlts_list_of_loads(loaded: World) -> None:
    """A load fails without dlt's list of loads, because an empty list would delete the audits of earlier loads."""
    change(loaded.place, "drop table letters_data._dlt_loads")
    before = loaded.tables()["listing_audit"]
    with pytest.raises(DestinationError) as caught:
        loaded.load()
    assert str(caught.value) == LACKS % "_dlt_loads"
    assert all(audit in loaded.tables()["listing_audit"] for audit in before)


@pytest.mark.parametrize("column", ["pii", "verdict"])
def test_a_column_of_the_audit_is_not_made_again(loaded: World, column: str) -> None:
    """A load fails when a column of the audit was dropped."""
    change(loaded.place, f"alter table letters_data.listing_audit drop column {column}")
    with pytest.raises(DestinationError):
        loaded.load()


def test_a_column_that_was_dropped_is_made_again(loaded: World) -> None:
    """The next load makes a dropped column again, with its values."""
    change(loaded.place, "alter table letters_data.contacts drop column email")
    loaded.load()
    assert loaded.is_exact()


RETYPED = "the dataset letters_data has %s; change the type back, or choose another dataset."


@pytest.mark.parametrize("mode", [{}, {"sync": True}, {"history": True}])
@pytest.mark.parametrize(("table", "column"), [("contacts", "id"), ("contacts__contact_labels", "contact_id")])
def test_a_key_whose_type_was_changed_is_named(begin: Begin, mode: dict[str, Any], table: str, column: str) -> None:
    """A load that fails because someone changed the type of a key says which one, and works once it is as it was."""
    world = begin(Emulator(30, 7))
    world.load(**mode)
    change(world.place, f"drop view if exists {DATASET}.{table}_current")
    change(world.place, f"alter table {DATASET}.{table} alter {column} type bigint")
    world.emulator.contacts.grow(2)
    with pytest.raises(DestinationError) as caught:
        world.load(**mode)
    assert str(caught.value).removeprefix("load: ") == RETYPED % f"{table}.{column} as bigint, not text"
    change(world.place, f"alter table {DATASET}.{table} alter {column} type varchar")
    world.load(**mode)
    assert query(world.place, f"select count(distinct id) from {DATASET}.contacts") == [
        (len(world.emulator.contacts.ids()),)
    ]


def test_a_value_that_does_not_fit_a_changed_type_is_not_quoted(loaded: World) -> None:
    """The error for a value that a column's new type cannot hold names the column and both types, not the value."""
    retype = f"alter table {DATASET}.contacts alter city type {{}} using null"
    change(loaded.place, retype.format("integer"))
    before = loaded.tables()
    with pytest.raises(DestinationError) as caught:
        loaded.load()
    assert str(caught.value) == f"load: {RETYPED % 'contacts.city as bigint, not text'}"
    assert {name: loaded.tables()[name] for name in LOADED} == {name: before[name] for name in LOADED}
    change(loaded.place, retype.format("varchar"))
    loaded.load()
    assert loaded.is_exact()
