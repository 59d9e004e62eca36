"""What if somebody dropped what an earlier load made?"""

import pytest
from holdings import change, query
from worlds import Begin, World

from letters_source import LoadFailed
from letters_source.emulator import Emulator
from letters_source.tables import LISTING_AUDIT, REJECTED_ROWS, tables_of

CONTACTS = "letters_data.contacts"
LOADED = [table.name for name in ("templates", "contacts") for table in tables_of(name)]


@pytest.fixture
def loaded(begin: Begin) -> World:
    """An account that was loaded once, and changed since."""
    world = begin(Emulator(30, 7))
    world.load()
    world.emulator.contacts.delete("5")
    return world


@pytest.mark.parametrize("table", [*LOADED, REJECTED_ROWS.name, LISTING_AUDIT.name])
def test_a_table_that_was_dropped_is_made_again(loaded: World, table: str) -> None:
    """With its rows."""
    change(loaded.place, f"drop table letters_data.{table}")
    loaded.load()
    assert loaded.is_exact()
    assert query(loaded.place, f"select count(*) from duckdb_tables() where table_name = '{table}'") >= [(1,)]


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
    with pytest.raises(LoadFailed, match=r"^load: (Catalog|Binder) Error: "):
        world.load(**{mode: True}, only=("contacts",))
