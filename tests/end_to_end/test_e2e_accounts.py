"""Each account has its own dataset, and views combine them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dlt
import duckdb
import pytest
from holdings import COLUMNS, LISTED, Rows, held_tables, in_order, parsed, query, typed_columns
from row_changes import amend, set_traits
from terminals import Letters, Outcome
from worlds import Begin, World, serve_world

from letters_source import DestinationError, NotAuthorized, Result
from letters_source.config.settings import Kind
from letters_source.destination.account_views import create_account_views
from letters_source.destination.kinds import place_of
from letters_source.destination.pipeline import account_pipelines
from letters_source.load import run_accounts
from letters_source.report.charts import CHARTS
from letters_source.report.dataset import open_tables
from letters_source.report.queries import FIGURES, LABELED, read
from programmable_emulator import Behavior, Emulator, Reply, When

DATASETS = {"A": "letters_data_a", "B": "letters_data_b"}
FACETS = {
    "contacts__address_statuses",
    "contacts__last_mailed_statuses",
    "contacts__return_addresses",
    "templates__shared",
}


def divided(contacts: int = 9, templates: int = 5) -> Emulator:
    """An emulator whose rows belong to the accounts A, B and C in turn."""
    emulator = Emulator(contacts, templates)
    for listing in (emulator.contacts, emulator.templates):
        for number, row_id in enumerate(listing.ids()):
            set_traits(listing, row_id, account_id="ABC"[number % 3])
    return emulator


def of_account(emulator: Emulator, account: str) -> dict[str, Rows]:
    """The expected tables of an account's rows."""
    own = Emulator(0, 0)
    for listing, target in ((emulator.contacts, own.contacts), (emulator.templates, own.templates)):
        for row in listing.rows():
            if row.traits.account_id == account:
                target.insert(row)
    return held_tables(own)


def rows_of(place: Path, schema: str, relation: str, table: str = "") -> Rows:
    """The rows of a table or a view, JSON parsed, without the load's id, by account and key."""
    with duckdb.connect(str(place)) as connection:
        rows = connection.sql(f"from {schema}.{relation}").to_arrow_table().to_pylist()
    return sorted(in_order(table or relation, map(parsed, rows)), key=lambda row: row.get("account_id") or "")


def dataset_rows(place: Path, account: str) -> dict[str, Rows]:
    """The listings' tables in an account's dataset."""
    return {table: rows_of(place, DATASETS[account], table) for table in LISTED}


def relations(place: Path, schema: str) -> dict[str, str]:
    """The tables and views of a schema and which they are, dlt's own left out."""
    sql = f"select table_name, table_type from information_schema.tables where table_schema = '{schema}'"
    return {name: kind for name, kind in query(place, sql) if not name.startswith("_dlt")}


def schemas(place: Path) -> set[str]:
    """The datasets of a file, without those for staging."""
    found = {name for [name] in query(place, "select distinct table_schema from information_schema.tables")}
    return {name for name in found if not name.endswith("_staging")}


def load_accounts(world: World, *accounts: str, kind: Kind = "duckdb", **changes: Any) -> Mapping[str, Result]:
    """Load accounts."""
    pipelines = account_pipelines(kind, world.place, "letters_data", accounts)
    return run_accounts(pipelines, **{**world.settings, **changes})


def combine(pipelines: Mapping[str, dlt.Pipeline]) -> None:
    """Create the views over accounts, as a load does."""
    places = {account: place_of(pipeline) for account, pipeline in pipelines.items()}
    create_account_views(places, "letters_data_all", 0)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Mapping[str, Result]]]:
    """Load the accounts A and B once for all tests that only read; C is never requested."""
    with serve_world(tmp_path_factory.mktemp("accounts"), emulator=divided()) as world:
        yield world, load_accounts(world, "A", "B", environment="demo")


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """Serve rows of three accounts, with settings in the environment."""
    world = begin(divided(6, 3))
    world.configure(monkeypatch)
    return world


@pytest.mark.parametrize("account", DATASETS)
def test_each_account_has_a_dataset_of_its_own(loaded: tuple[World, Mapping[str, Result]], account: str) -> None:
    """Each dataset holds exactly the rows of its account."""
    world, results = loaded
    expected = of_account(world.emulator, account)
    assert dataset_rows(world.place, account) == expected
    assert {table: results[account].tables[table] for table in LISTED} == {
        table: len(rows) for table, rows in expected.items()
    }
    assert all(expected[table] for table in LISTED)


def test_there_are_no_datasets_besides_those_and_the_views(loaded: tuple[World, Mapping[str, Result]]) -> None:
    """A file has one dataset per account, and one with a view for each table."""
    world, _ = loaded
    assert schemas(world.place) == {*DATASETS.values(), "letters_data_all"}
    assert relations(world.place, "letters_data_all") == dict.fromkeys(COLUMNS, "VIEW")


@pytest.mark.parametrize("table", LISTED)
def test_a_view_is_the_union_with_the_account_in_front(loaded: tuple[World, Mapping[str, Result]], table: str) -> None:
    """Each view has the rows of all loaded accounts, and `account_id` as its first column."""
    world, _ = loaded
    expected = [
        {"account_id": account, **row} for account in DATASETS for row in of_account(world.emulator, account)[table]
    ]
    assert rows_of(world.place, "letters_data_all", table) == expected
    columns = f"select column_name, data_type from duckdb_columns() where table_name = '{table}' and schema_name = "
    found = query(world.place, f"{columns}'letters_data_all' order by column_index")
    assert found == [("account_id", "VARCHAR"), *typed_columns(table)]


def test_the_audit_has_the_account_and_the_environment(loaded: tuple[World, Mapping[str, Result]]) -> None:
    """Each dataset has its own audit; the view combines them without repeating the column `account_id`."""
    world, _ = loaded
    sql = "select account_id, listing, environment, mode, rows_yielded from {}.listing_audit order by all"
    own = {
        account: [
            (account, listing, "demo", "replace", len(of_account(world.emulator, account)[listing]))
            for listing in ("contacts", "templates")
        ]
        for account in DATASETS
    }
    assert {account: query(world.place, sql.format(name)) for account, name in DATASETS.items()} == own
    assert query(world.place, sql.format("letters_data_all")) == own["A"] + own["B"]
    columns = "select column_name from duckdb_columns() where schema_name = 'letters_data_all' and table_name = "
    found = query(world.place, f"{columns}'listing_audit' order by column_index")
    assert [name for [name] in found] == [name for name, _ in typed_columns("listing_audit")]


def test_every_request_names_its_account(loaded: tuple[World, Mapping[str, Result]]) -> None:
    """A load compares the first pages of all accounts, then loads one account after the other."""
    world, _ = loaded
    assert [(hit.path.rpartition("/")[2], hit.query[-1]) for hit in world.emulator.hits] == [
        ("templates", "A"),
        ("templates", "B"),
        ("contacts", "A"),
        ("contacts", "B"),
        ("templates", "A"),
        ("contacts", "A"),
        ("templates", "B"),
        ("contacts", "B"),
    ]


def test_a_copied_file_has_its_views(loaded: tuple[World, Mapping[str, Result]], tmp_path: Path) -> None:
    """The views still work after the file is renamed."""
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(loaded[0].place.read_bytes())
    sql = "select account_id, count(*) from letters_data_all.contacts group by all order by all"
    assert query(copy, sql) == [("A", 3), ("B", 3)]


def test_the_command_loads_one_account_or_several_into_the_same_datasets(letters: Letters, world: World) -> None:
    """An account has the same dataset whether it is loaded alone or with others; the output names each account."""
    place = Path("letters.duckdb")
    assert letters("load", "--quiet", "--account-id", "A") == Outcome(0, "", "")
    assert schemas(place) == {"letters_data_a"}
    assert dataset_rows(place, "A") == of_account(world.emulator, "A")
    done = letters("load", "--account-id", "A", "--account-id", "B")
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("Account")] == ["Account A:", "Account B:"]
    assert [line.rpartition(", dataset ")[2] for line in done.out.splitlines() if ", dataset " in line] == [
        *DATASETS.values()
    ]
    assert query(place, "select account_id, id from letters_data_all.contacts order by id") == [
        ("A", "1"),
        ("B", "2"),
        ("A", "4"),
        ("B", "5"),
    ]
    assert letters("load", "--quiet", "--account-id", "B") == Outcome(0, "", "")
    assert {account: dataset_rows(place, account) for account in DATASETS} == {
        account: of_account(world.emulator, account) for account in DATASETS
    }
    assert schemas(place) == {*DATASETS.values(), "letters_data_all"}
    loads = "select account_id, count(*) from letters_data_all.listing_audit group by all order by all"
    assert query(place, loads) == [("A", 4), ("B", 4)]


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_an_account_in_a_named_dataset_is_not_loaded_into_a_second_one(
    letters: Letters, world: World, kind: str
) -> None:
    """A load is refused if another dataset has its account, with advice on how to continue there."""
    options = ("load", "--quiet", "--destination", kind, "--only", "templates")
    named = (*options, "--account-id", "A", "--dataset", "letters_data")
    assert letters(*named) == Outcome(0, "", "")
    requests = len(world.emulator.hits)
    message = (
        "letters: templates: the account A is in the dataset letters_data; to continue it there, load this account "
        "alone with --dataset letters_data; to load it into letters_data_a, remove letters_data first.\n"
    )
    assert letters(*options, "--account-id", "A") == Outcome(2, "", message)
    assert world.emulator.hits[requests:] == []
    assert letters(*named) == Outcome(0, "", "")
    assert letters(*options, "--account-id", "B") == Outcome(0, "", "")
    assert datasets(kind) == {"letters_data", "letters_data_b"}


def datasets(kind: str) -> set[str]:
    """Return the datasets of the command's default place."""
    if kind == "duckdb":
        return schemas(Path("letters.duckdb"))
    return {folder.name for folder in Path("letters_parquet").iterdir()}


def shared(listing: str, ids: int, one: str = "A", other: str = "B") -> str:
    """Return the message about two accounts that list the same ids."""
    return (
        f"letters: {listing}: the accounts {one} and {other} share {ids} ids on their first pages, so the service may "
        "ignore the account; nothing was loaded. If they really share them, turn on --allow-shared-ids.\n"
    )


def test_accounts_are_refused_if_the_service_ignores_the_account(letters: Letters, world: World) -> None:
    """The load ends before it writes a file, because it would load all rows once per account."""
    world.emulator.behavior = Behavior(ignore_account=True)
    done = letters("load", "--account-id", "A", "--account-id", "B")
    assert done == Outcome(4, "", shared("templates", 3))
    asked = [(hit.path.rpartition("/")[2], hit.query[-1]) for hit in world.emulator.hits]
    assert asked == [(listing, account) for listing in ("templates", "contacts") for account in "AB"]
    assert not Path("letters.duckdb").exists()


def test_one_account_is_compared_with_another_one_in_the_file(letters: Letters, world: World) -> None:
    """An account's first load compares its ids with those of another dataset, unless shared ids are allowed."""
    options = ("load", "--quiet", "--only", "contacts")
    assert letters(*options, "--account-id", "A") == Outcome(0, "", "")
    world.emulator.behavior = Behavior(ignore_account=True)
    assert letters(*options, "--account-id", "B") == Outcome(4, "", shared("contacts", 6, "B", "A"))
    assert schemas(Path("letters.duckdb")) == {"letters_data_a"}
    assert letters(*options, "--account-id", "B", "--allow-shared-ids") == Outcome(0, "", "")


@pytest.mark.parametrize("only", [(), ("templates",)], ids=["both", "templates"])
@pytest.mark.parametrize("own", ["2", None], ids=["some", "all"])
def test_accounts_may_share_templates(letters: Letters, world: World, own: str | None, only: tuple[str, ...]) -> None:
    """Accounts that share some of their templates, or all, are loaded with a warning; each has all that it lists."""
    templates = world.emulator.templates
    [row] = [row for row in templates.rows() if row.traits.account_id == "A"]
    templates.insert(replace(row, traits=replace(row.traits, account_id="B")))
    if own is None:
        templates.delete("2")
    accounts = [option for name in DATASETS for option in ("--account-id", name)]
    done = letters("load", "--quiet", *accounts, *(f"--only={name}" for name in only))
    message = "templates: accounts share 1 id on their first pages; join on account_id as well as on the id"
    assert (done.code, done.out, done.err.count(message)) == (0, "", 1)
    held = query(Path("letters.duckdb"), "select account_id, id from letters_data_all.templates order by all")
    assert held == [("A", "1"), ("B", "1"), *([("B", own)] if own else [])]
    audits = query(Path("letters.duckdb"), "select listing, account_id, shared_ids from letters_data_all.listing_audit")
    listings = {"templates": 1} if only else {"templates": 1, "contacts": 0}
    assert set(audits) == {(name, account, number) for name, number in listings.items() for account in DATASETS}


def test_shared_ids_that_are_allowed_are_counted_by_account(letters: Letters, world: World) -> None:
    """Views and reports join rows by account and id, so that shared ids multiply no rows."""
    world.emulator.behavior = Behavior(ignore_account=True)
    options = ("--account-id", "A", "--account-id", "B", "--allow-shared-ids")
    assert letters("load", "--quiet", *options) == Outcome(0, "", "")
    place = Path("letters.duckdb")
    counts = "select account_id, count(*) from letters_data_all.{} group by all order by all"
    assert query(place, counts.format("contacts")) == [("A", 6), ("B", 6)]
    assert query(place, counts.format("templates")) == [("A", 3), ("B", 3)]
    with open_tables(place, "letters_data_all", every_table=True) as tables:
        figures = read(tables, FIGURES)[0]
        drawn = {chart.name: sum(row["number"] for row in read(tables, chart.query)) for chart in CHARTS}
        labeled = dict(tables.execute(LABELED).fetchall())
    with open_tables(place, "letters_data_a") as tables:
        alone, [labels] = dict(tables.execute(LABELED).fetchall()), [read(tables, FIGURES)[0]["labels"]]
    assert figures == {"contacts": 12, "templates": 6, "labels": 2 * labels}
    assert {name: drawn[name] for name in ("states", "paper", "envelope", "postage", "delivery")} == {
        "states": 12, "paper": 6, "envelope": 6, "postage": 6, "delivery": 6,
    }  # fmt: skip
    assert labeled == {name: 2 * number for name, number in alone.items()}


def test_accounts_that_would_share_a_dataset_are_refused(letters: Letters, world: World) -> None:
    """The message names both accounts; the command sends no request and makes no file."""
    assert letters("load", "--account-id", "A", "--account-id", "a") == Outcome(
        2, "", "letters: Two of the accounts A, a would share a dataset; load one into another --dataset.\n"
    )
    assert world.emulator.hits == []
    assert not Path("letters.duckdb").exists()


@pytest.mark.parametrize("accounts", [("a-b", "a b"), ("7", "7"), ("Ä", "ö"), ("x", "y", "X")])
def test_account_names_with_the_same_letters_and_digits_collide(accounts: Sequence[str]) -> None:
    """Dataset names keep only lowercase letters and digits of the account."""
    with pytest.raises(DestinationError) as caught:
        account_pipelines("duckdb", "letters.duckdb", "letters_data", accounts)
    assert (
        str(caught.value)
        == f"Two of the accounts {', '.join(accounts)} would share a dataset; load one into another dataset."
    )


def test_account_and_dataset_names_may_be_anything(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Views quote account names and use the dataset names that dlt normalizes.

    If the service refuses the page that an account's ids are compared by, the account is loaded all the same, with a
    warning.
    """
    for row in world.emulator.templates.rows():
        set_traits(world.emulator.templates, row.id, account_id="x" if row.traits.account_id == "B" else "O'Neil & Co.")
    world.emulator.canned.once(When(number=2), Reply.of({"message": "no such account"}, status=404))
    destination = dlt.destinations.duckdb(str(world.place))
    names = {"O'Neil & Co.": "OursAndTheirs", "x": "only__theirs"}
    pipelines = {
        account: dlt.pipeline(f"of_{name}", destination=destination, dataset_name=name)
        for account, name in names.items()
    }
    run_accounts(pipelines, only=("templates",), **world.settings)
    refused = "templates: the service refuses account x, so its ids are not compared"
    # dlt may log that it normalizes the name of a dataset
    ours = [record for record in caplog.records if record.name == "letters_source"]
    assert [record.message for record in ours if record.levelname == "WARNING"] == [refused]
    assert schemas(world.place) == {"ours_and_theirs", "only_theirs", "letters_data_all"}
    assert query(world.place, "select account_id, id from letters_data_all.templates order by all") == [
        ("O'Neil & Co.", "1"),
        ("O'Neil & Co.", "3"),
        ("x", "2"),
    ]


def test_datasets_of_any_account_are_named_as_dlt_names_them(world: World) -> None:
    """`account_pipelines` replaces what a dataset's name cannot contain."""
    pipelines = account_pipelines("duckdb", world.place, "letters_data", ("O'Neil & Co.", "x"))
    assert {account: pipeline.dataset_name for account, pipeline in pipelines.items()} == {
        "O'Neil & Co.": "letters_data_o_neil_co",
        "x": "letters_data_x",
    }


def test_history_is_kept_by_account(world: World) -> None:
    """A row that moves to another account ends in one dataset and begins in the other; current views follow."""
    load_accounts(world, "A", "B", history=True)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    world.emulator.contacts.delete("2")
    set_traits(world.emulator.contacts, "4", account_id="B")
    load_accounts(world, "A", "B", history=True)
    sql = (
        "select account_id, id, count(*), count(_dlt_valid_to) from letters_data_all.contacts group by all order by all"
    )
    assert query(world.place, sql) == [
        ("A", "1", 2, 1),
        ("A", "4", 1, 1),
        ("B", "2", 1, 1),
        ("B", "4", 1, 0),
        ("B", "5", 1, 0),
    ]
    for table in LISTED:
        expected = [
            {"account_id": account, **row} for account in DATASETS for row in of_account(world.emulator, account)[table]
        ]
        assert rows_of(world.place, "letters_data_all", f"{table}_current", table) == expected


def test_views_combine_accounts_with_different_tables(world: World) -> None:
    """A view of a facet has the rows of the one account that was loaded with facets, in any order of accounts."""
    load_accounts(world, "A", facets=True)
    load_accounts(world, "C")
    for accounts in (("A", "C"), ("C", "A")):
        combine(account_pipelines("duckdb", world.place, "letters_data", accounts))
        found = {
            table: {row[0] for row in query(world.place, f"from letters_data_all.{table}")}
            for table in ("contacts", "templates__shared")
        }
        assert found == {"contacts": {"A", "C"}, "templates__shared": {"A"}}
        assert relations(world.place, "letters_data_all") == dict.fromkeys({*COLUMNS, *FACETS}, "VIEW")


def test_accounts_before_one_that_fails_are_loaded(world: World) -> None:
    """A failed account's error is raised, accounts before it stay loaded, and the next load makes the views."""
    loads = len(world.emulator.hits)

    def refuse(emulator: Emulator, _: int) -> None:
        if len(emulator.hits) == loads + 6:
            emulator.access_token = "another"

    good, world.emulator.before_answer = world.emulator.access_token, refuse
    with pytest.raises(NotAuthorized):
        load_accounts(world, "A", "B")
    assert dataset_rows(world.place, "A") == of_account(world.emulator, "A")
    assert schemas(world.place) == {"letters_data_a"}
    world.emulator.before_answer, world.emulator.access_token = None, good
    load_accounts(world, "A", "B")
    assert schemas(world.place) == {"letters_data_a", "letters_data_b", "letters_data_all"}


def test_parquet_has_a_folder_for_each_account(begin: Begin) -> None:
    """A folder of Parquet files has one dataset per account and no views."""
    world = begin(divided(6, 3), "parquet")
    load_accounts(world, "A", "B", kind="parquet")
    assert {folder.name for folder in world.place.iterdir()} == set(DATASETS.values())
    for account, dataset in DATASETS.items():
        files = world.place / dataset / "contacts" / "*.parquet"
        rows = duckdb.sql(f"from '{files}'").to_arrow_table().to_pylist()
        assert in_order("contacts", map(parsed, rows)) == of_account(world.emulator, account)["contacts"]


def test_other_destinations_have_no_views(begin: Begin) -> None:
    """Views are made in DuckDB only; other destinations are not changed."""
    world = begin(divided(6, 3))
    place = place_of(dlt.pipeline("dummy", destination=dlt.destinations.dummy()))
    place.kind.combine({"A": place, "B": place}, "letters_data_all", 0)
    assert not world.place.exists()
