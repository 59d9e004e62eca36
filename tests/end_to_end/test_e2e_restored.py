"""Loads recreate tables and columns that were dropped."""

import pytest
from holdings import change, table_names
from worlds import Begin, World

from letters_source import LoadFailed
from letters_source.tables import tables_of
from programmable_emulator import Emulator

CONTACTS = "letters_data.contacts"
LOADED = [table.name for name in ("templates", "contacts") for table in tables_of(name)]


@pytest.fixture
def loaded(begin: Begin) -> World:
    """An account that was loaded once, and changed since."""
    world = begin(Emulator(30, 7))
    world.load()
    world.emulator.contacts.delete("5")
    return world


@pytest.mark.parametrize("table", LOADED)
def test_a_table_that_was_dropped_is_made_again(loaded: World, table: str) -> None:
    """With its rows."""
    change(loaded.place, f"drop table letters_data.{table}")
    loaded.load()
    assert loaded.is_exact()


def test_a_staging_table_that_was_dropped_is_made_again(loaded: World) -> None:
    """dlt would take it for one that it made."""
    loaded.load()
    change(loaded.place, "drop table letters_data_staging.contacts")
    loaded.load()
    assert loaded.is_exact()


def test_tables_that_a_load_leaves_alone_are_not_made_again(loaded: World) -> None:
    """An empty one would look like an account without templates."""
    change(loaded.place, "drop table letters_data.templates")
    loaded.load(only=("contacts",))
    assert ("letters_data", "templates") not in table_names(loaded.place)


def test_a_load_fails_without_the_audit_of_former_ones(loaded: World) -> None:
    """How many rows there were, and which personal values were kept: no guard shall begin anew unnoticed.

    The audit's row goes its own way: the listings' tables are all old when it fails, or all new.
    """
    change(loaded.place, "drop table letters_data.listing_audit")
    before = {name: loaded.tables()[name] for name in LOADED}
    with pytest.raises(LoadFailed, match="listing_audit does not exist"):
        loaded.load()
    assert loaded.is_exact() or {name: loaded.tables()[name] for name in LOADED} == before


def test_a_load_fails_without_dlts_list_of_loads(loaded: World) -> None:
    """An empty one would say that no former load ended, and their audits would be taken away."""
    change(loaded.place, "drop table letters_data._dlt_loads")
    before = loaded.tables()["listing_audit"]
    with pytest.raises(LoadFailed, match="_dlt_loads does not exist"):
        loaded.load()
    assert all(audit in loaded.tables()["listing_audit"] for audit in before)


@pytest.mark.parametrize("column", ["pii", "verdict"])
def test_a_column_of_the_audit_is_not_made_again(loaded: World, column: str) -> None:
    """Nor does the next load go on without it."""
    change(loaded.place, f"alter table letters_data.listing_audit drop column {column}")
    with pytest.raises(LoadFailed):
        loaded.load()


def test_a_column_that_was_dropped_is_made_again(loaded: World) -> None:
    """With its values."""
    change(loaded.place, "alter table letters_data.contacts drop column email")
    loaded.load()
    assert loaded.is_exact()


@pytest.mark.parametrize("mode", ["history", "sync"])
@pytest.mark.parametrize("statement", [f"drop table {CONTACTS}", f"alter table {CONTACTS} drop column email"])
def test_where_rows_are_merged_the_load_fails(begin: Begin, mode: str, statement: str) -> None:
    """Those that did not change would not be written, and so lack what was dropped."""
    world = begin(Emulator(30, 7))
    world.load(**{mode: True}, only=("contacts",))
    if mode == "history":
        change(world.place, f"drop view {CONTACTS}_current")
    change(world.place, statement)
    with pytest.raises(LoadFailed, match=r"^load: .*(contacts|email)"):
        world.load(**{mode: True}, only=("contacts",))
