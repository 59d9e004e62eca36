"""The views over all accounts: their schema and their rows."""

from pathlib import Path
from typing import Any

import pytest
from holdings import COLUMNS, change, query
from row_changes import set_traits
from terminals import Letters, Outcome
from worlds import Begin, World

from letters_source import LoadFailed, account_pipelines, run_accounts
from programmable_emulator import Emulator

OWNERS = {"1": "A", "2": "B", "3": "C"}
"""The account of each contact and of each template."""


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """A contact and a template for each of three accounts, reached by settings in the environment."""
    world = begin(Emulator(3, 3))
    for listing in (world.emulator.contacts, world.emulator.templates):
        for row_id, account in OWNERS.items():
            set_traits(listing, row_id, account_id=account)
    world.configure(monkeypatch)
    return world


def views(place: Path) -> dict[str, set[str]]:
    """Return the views of each schema, without those of DuckDB itself."""
    found: dict[str, set[str]] = {}
    for schema, name in query(place, "select schema_name, view_name from duckdb_views() where not internal"):
        found.setdefault(schema, set()).add(name)
    return found


def combined(place: Path, schema: str, listing: str = "contacts") -> set[tuple[str, str]]:
    """Return the account and the id of each row of a view."""
    return set(query(place, f"select account_id, id from {schema}.{listing}"))


def load_accounts(world: World, dataset: str, *accounts: str, **options: Any) -> None:
    """Load accounts into datasets of their own."""
    run_accounts(account_pipelines("duckdb", world.place, dataset, accounts), **options)


def load_by_command(letters: Letters, dataset: str, *accounts: str) -> Outcome:
    """Load accounts into datasets of their own with the command."""
    options = [option for account in accounts for option in ("--account-id", account)]
    return letters("load", "--quiet", "--dataset", dataset, *options)


def test_the_views_are_in_the_given_schema_and_hold_the_accounts_of_the_last_load(world: World) -> None:
    """No other schema has views, and a load of other accounts replaces them."""
    load_accounts(world, "mine", "A", "B", views="ours")
    assert views(world.place) == {"ours": set(COLUMNS)}
    for listing in ("contacts", "templates"):
        assert combined(world.place, "ours", listing) == {("A", "1"), ("B", "2")}
    load_accounts(world, "mine", "B", "C", views="ours")
    assert combined(world.place, "ours") == {("B", "2"), ("C", "3")}


def test_views_over_tables_of_former_accounts_are_dropped(letters: Letters, world: World) -> None:
    """A load without facets drops the former accounts' views of facets, and no view of the user."""
    load_accounts(world, "mine", "A", "B", views="ours", facets=True)
    change(world.place, "CREATE VIEW ours.mine AS SELECT 1 AS number")
    load_accounts(world, "mine", "C", views="ours")
    assert views(world.place) == {"ours": {*COLUMNS, "mine"}}
    change(world.place, "DROP SCHEMA mine_a CASCADE")
    options = ("--from", str(world.place), "--dataset", "ours")
    assert letters("query", "SELECT id FROM contacts", "--format", "csv", *options) == Outcome(0, "id\n3\n", "")


def test_a_view_over_a_dropped_dataset_leaves_the_others_readable(letters: Letters, world: World) -> None:
    """`query` and `report` read the tables that can be read; a query of one that cannot says why."""
    load_accounts(world, "mine", "A", views="ours", facets=True)
    change(world.place, "DROP TABLE mine_a.templates__shared")
    options = ("--from", str(world.place), "--dataset", "ours")
    assert letters("query", "SELECT id FROM contacts", "--format", "csv", *options) == Outcome(0, "id\n1\n", "")
    why = "Table with name templates__shared does not exist!"
    words = f"letters: the query failed: templates__shared cannot be read: {why}\n"
    assert letters("query", "FROM templates__shared", *options) == Outcome(2, "", words)
    assert letters("report", "--html", "page.html", "--quiet", *options).code == 0


BROKEN = """
    CREATE TABLE gone (n integer);
    CREATE VIEW mine_a.broken AS FROM gone;
    CREATE VIEW mine_a.counted AS SELECT 1 AS number;
    CREATE VIEW mine_a."a""b" AS SELECT 1 AS number;
    CREATE TABLE ours.notes (n integer);
    CREATE TABLE mine_a.notes (n integer);
    DROP TABLE gone;
"""
IN_THE_WAY = "Existing object {} is of type Table, trying to replace with type View"


def test_a_broken_view_in_a_dataset_is_named_and_stops_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Someone's view that is broken, or table in the way of a view, is named each time; all others are combined."""
    load_accounts(world, "mine", "A", "B", views="ours")
    change(world.place, BROKEN)
    world.emulator.contacts.delete("2")
    for _ in range(2):
        caplog.clear()
        load_accounts(world, "mine", "A", "B", views="ours", allow_empty=True)
        assert [line for line in caplog.messages if "the view" in line] == [
            "the view ours.broken could not be replaced: Table with name gone does not exist!",
            f"the view ours.notes could not be replaced: {IN_THE_WAY.format('notes')}",
        ]
    assert views(world.place)["ours"] == {*COLUMNS, "counted", 'a"b'}
    assert combined(world.place, "ours") == {("A", "1")}
    assert query(world.place, "FROM ours.counted") == [("A", 1)]


def test_a_table_in_the_way_of_a_view_is_named(world: World) -> None:
    """A table with the name of a view of ours stops the load, which says what to do; a table in no view's way stays."""
    load_accounts(world, "mine", "A", views="ours")
    change(world.place, "CREATE TABLE ours.templates__shared (n integer)")
    load_accounts(world, "mine", "A", views="ours")
    change(world.place, "DROP VIEW ours.contacts; CREATE TABLE ours.contacts AS FROM mine_a.contacts")
    with pytest.raises(LoadFailed) as caught:
        load_accounts(world, "mine", "A", views="ours")
    assert str(caught.value) == (
        f"the view ours.contacts could not be replaced: {IN_THE_WAY.format('contacts')}; "
        "drop the table or view in its way, and load again."
    )
    change(world.place, "DROP TABLE ours.contacts")
    load_accounts(world, "mine", "A", views="ours")
    assert combined(world.place, "ours") == {("A", "1")}
    assert query(world.place, "FROM ours.templates__shared") == []


def test_the_command_names_the_views_after_the_dataset(letters: Letters, world: World) -> None:
    """Datasets with different names have their own accounts and views in one file."""
    assert load_by_command(letters, "mine", "A", "B") == Outcome(0, "", "")
    assert views(world.place) == {"mine_all": set(COLUMNS)}
    tables = query(world.place, "select distinct schema_name from duckdb_tables()")
    assert {schema for [schema] in tables if not schema.endswith("_staging")} == {"mine_a", "mine_b"}
    assert load_by_command(letters, "yours", "B", "C") == Outcome(0, "", "")
    assert views(world.place) == {"mine_all": set(COLUMNS), "yours_all": set(COLUMNS)}
    assert combined(world.place, "mine_all") == {("A", "1"), ("B", "2")}
    assert combined(world.place, "yours_all") == {("B", "2"), ("C", "3")}
