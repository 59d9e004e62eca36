"""What someone made on a DuckDB dataset's tables stops no load, or the error names it."""

from typing import Any

import pytest
from holdings import change, query
from row_changes import amend
from worlds import Begin

from letters_source import LoadFailed, SettingsError
from programmable_emulator import Emulator

FOREIGN_KEY = """
    ALTER TABLE letters_data.contacts ADD PRIMARY KEY (id);
    CREATE TABLE letters_data.notes (contact text REFERENCES letters_data.contacts (id));
    INSERT INTO letters_data.notes VALUES ('1');
"""
NOT_NULL = """
    CREATE OR REPLACE TABLE letters_data.contacts AS SELECT *, 1 AS mine FROM letters_data.contacts;
    ALTER TABLE letters_data.contacts ALTER mine SET NOT NULL;
"""


@pytest.mark.parametrize(
    ("statements", "history", "named"),
    [
        ("CREATE UNIQUE INDEX mine ON letters_data.contacts (id)", False, "the unique index mine"),
        ("ALTER TABLE letters_data.contacts ADD PRIMARY KEY (id)", True, "the constraint PRIMARY KEY(id)"),
        (FOREIGN_KEY, False, "the constraint PRIMARY KEY(id) on letters_data.contacts, the foreign key of notes"),
        (NOT_NULL, False, "the NOT NULL column mine"),
    ],
)
def test_what_stops_a_load_is_named(begin: Begin, statements: str, *, history: bool, named: str) -> None:
    """A load that keys or columns of someone else stop keeps the old rows, and its error names them."""
    world, settings = begin(Emulator(9, 3)), {"only": ("contacts",), "history": history}
    world.start_loaded(**settings)
    change(world.place, statements)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    before = world.tables()["contacts"]
    with pytest.raises(LoadFailed) as caught:
        world.load(**settings)
    assert str(caught.value) == (
        f"load: ConstraintException, probably because of {named} on letters_data.contacts; drop it, or create its "
        "table again without it (CREATE OR REPLACE TABLE ... AS FROM ...), and load again."
    )
    assert world.tables()["contacts"] == before


def test_what_stops_no_load_stays(begin: Begin) -> None:
    """A plain index, a view, a column and a table of someone else stop no load, and stay."""
    world, settings = begin(Emulator(9, 3)), dict[str, Any](only=("contacts",))
    world.start_loaded(**settings)
    change(
        world.place,
        "CREATE INDEX mine ON letters_data.contacts (id); ALTER TABLE letters_data.contacts ADD COLUMN mine text; "
        "CREATE VIEW letters_data.cities AS SELECT city, mine FROM letters_data.contacts; "
        "CREATE TABLE letters_data.notes AS SELECT 1 AS n",
    )
    world.emulator.contacts.insert({"id": "new"})
    world.load(**settings)
    assert query(world.place, "SELECT count(*), count(mine) FROM letters_data.cities") == [(10, 0)]
    assert query(world.place, "FROM letters_data.notes") == [(1,)]


@pytest.mark.parametrize("key", ["ALTER TABLE {} ADD PRIMARY KEY (id)", "CREATE UNIQUE INDEX mine ON {} (id)"])
def test_a_unique_key_stops_no_sync(begin: Begin, key: str) -> None:
    """A changed row is deleted before it is inserted anew, so DuckDB accepts its id."""
    world, settings = begin(Emulator(9, 3)), dict[str, Any](only=("contacts",), sync=True)
    world.load(**settings)
    change(world.place, key.format("letters_data.contacts"))
    amend(world.emulator.contacts, "1", city="Elsewhere")
    world.load(**settings)
    assert query(world.place, "SELECT id FROM letters_data.contacts WHERE city = 'Elsewhere'") == [("1",)]


def test_what_is_on_other_tables_is_not_named(begin: Begin) -> None:
    """An error names neither what is on tables that the load leaves out, nor on tables that were never loaded."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    change(
        world.place,
        "CREATE UNIQUE INDEX theirs ON letters_data.contacts (id); "
        "CREATE UNIQUE INDEX mine ON letters_data.templates (id); CREATE VIEW letters_data.mailings AS SELECT 1 AS a",
    )
    with pytest.raises(LoadFailed, match=r"because of the unique index mine on letters_data\.templates; drop it"):
        world.load(only=("templates",))


def test_a_table_in_the_place_of_a_facet_is_refused_before_the_load(begin: Begin) -> None:
    """A table of someone else with the name of a facet's table is refused before anything is written."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    change(world.place, "CREATE TABLE letters_data.contacts__address_statuses AS SELECT 1 AS a")
    with pytest.raises(SettingsError, match="holds a table contacts__address_statuses that is not from a load"):
        world.load(facets=True)
    assert world.load().tables["contacts"] == 9
