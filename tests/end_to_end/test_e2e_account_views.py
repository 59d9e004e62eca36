"""The views over all accounts: their schema and their rows."""

from pathlib import Path
from typing import Any

import pytest
from holdings import COLUMNS, query
from shelves import retrait
from terminals import Letters, Outcome
from worlds import Begin, World

from letters_source import account_pipelines, run_accounts
from programmable_emulator import Emulator

OWNERS = {"1": "A", "2": "B", "3": "C"}
"""The account of each contact and of each template."""


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """A contact and a template for each of three accounts, reached by settings in the environment."""
    world = begin(Emulator(3, 3))
    for shelf in (world.emulator.contacts, world.emulator.templates):
        for row_id, account in OWNERS.items():
            retrait(shelf, row_id, account_id=account)
    world.configure(monkeypatch)
    return world


def views(place: Path) -> dict[str, set[str]]:
    """The views of each schema, DuckDB's own left out."""
    found: dict[str, set[str]] = {}
    for schema, name in query(place, "select schema_name, view_name from duckdb_views() where not internal"):
        found.setdefault(schema, set()).add(name)
    return found


def united(place: Path, schema: str, listing: str = "contacts") -> set[tuple[str, str]]:
    """The account and the id of each row of a view."""
    return set(query(place, f"select account_id, id from {schema}.{listing}"))


def load_accounts(world: World, dataset: str, *accounts: str, **options: Any) -> None:
    """Load accounts into datasets of their own."""
    run_accounts(account_pipelines("duckdb", world.place, dataset, accounts), **options)


def load_by_command(letters: Letters, dataset: str, *accounts: str) -> Outcome:
    """The same, as a person would."""
    options = [option for account in accounts for option in ("--account-id", account)]
    return letters("load", "--quiet", "--dataset", dataset, *options)


def test_the_views_are_in_the_schema_that_is_asked_for(world: World) -> None:
    """In no other; one for each table."""
    load_accounts(world, "mine", "A", "B", views="both_of_us")
    assert views(world.place) == {"both_of_us": set(COLUMNS)}
    for listing in ("contacts", "templates"):
        assert united(world.place, "both_of_us", listing) == {("A", "1"), ("B", "2")}


def test_without_being_asked_they_are_in_the_usual_one(world: World) -> None:
    """Whatever the datasets are called."""
    load_accounts(world, "mine", "A", "B")
    assert views(world.place) == {"letters_data_all": set(COLUMNS)}


def test_the_command_names_them_after_the_dataset(letters: Letters, world: World) -> None:
    """The schema of the views has the dataset's name, as the accounts' datasets have."""
    assert load_by_command(letters, "mine", "A", "B") == Outcome(0, "", "")
    assert views(world.place) == {"mine_all": set(COLUMNS)}
    assert united(world.place, "mine_all") == {("A", "1"), ("B", "2")}
    tables = query(world.place, "select distinct schema_name from duckdb_tables()")
    assert {schema for [schema] in tables if not schema.endswith("_staging")} == {"mine_a", "mine_b"}


def test_the_views_of_one_dataset_leave_those_of_another_alone(letters: Letters, world: World) -> None:
    """Both are in one file, and each holds the accounts that it was made of."""
    for dataset, accounts in (("mine", "AB"), ("yours", "BC")):
        assert load_by_command(letters, dataset, *accounts) == Outcome(0, "", "")
    assert views(world.place) == {"mine_all": set(COLUMNS), "yours_all": set(COLUMNS)}
    assert united(world.place, "mine_all") == {("A", "1"), ("B", "2")}
    assert united(world.place, "yours_all") == {("B", "2"), ("C", "3")}


def test_loading_other_accounts_makes_the_views_anew(world: World) -> None:
    """They hold the accounts of the last load alone."""
    load_accounts(world, "mine", "A", "B", views="ours")
    load_accounts(world, "mine", "B", "C", views="ours")
    assert united(world.place, "ours") == {("B", "2"), ("C", "3")}
