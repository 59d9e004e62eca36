"""Loads into different files, datasets and modes do not interfere."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import dlt
import duckdb
import pytest
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from holdings import DATASET, LISTED, Rows, change, held_tables, parsed, query, read_tables, table_names, typed_columns
from row_changes import amend, clear
from terminals import Letters
from worlds import Begin, World

from letters_source import DestinationError, LoadFailed, SettingsError, letters, make_pipeline, run
from letters_source.destination.audits import finished_audits, open_held, opened, read_columns
from letters_source.destination.kinds import place_of, running_place
from letters_source.destination.pipeline import account_pipelines
from letters_source.extract.mailings import far_ahead
from letters_source.load import run_accounts
from letters_source.results import Audit
from letters_source.service.listings import LONG_AGO, ContactFilters
from letters_source.transform.privacy import PERSONAL
from programmable_emulator import Emulator, Hit, Traits

MODE_COLUMNS = {
    "replace": [],
    "sync": [("row_hash", "VARCHAR")],
    "history": [
        ("row_hash", "VARCHAR"),
        ("_dlt_valid_from", "TIMESTAMP WITH TIME ZONE"),
        ("_dlt_valid_to", "TIMESTAMP WITH TIME ZONE"),
    ],
}
LABELS = "contacts__contact_labels"
OTHER_MODE = (
    "contacts: the dataset letters_data holds tables of another mode than {}, from an unfinished load or "
    "another program; load in that mode, or choose another dataset."
)
FACETS = {
    "contacts__address_statuses",
    "contacts__last_mailed_statuses",
    "contacts__return_addresses",
    "templates__shared",
}


def in_mode(mode: str) -> dict[str, Any]:
    """The setting of a mode."""
    return {} if mode == "replace" else {mode: True}


def present_rows(place: Path) -> dict[str, Rows]:
    """The listings' rows that are valid now, without the columns of any mode."""
    extra = {name for name, _ in MODE_COLUMNS["history"]}
    return {
        table: [
            {key: value for key, value in row.items() if key not in extra}
            for row in rows
            if row.get("_dlt_valid_to") is None
        ]
        for table, rows in read_tables(place).items()
        if table in LISTED
    }


def columns_of(place: Path, table: str) -> list[tuple[Any, ...]]:
    """A table's columns in order, each with its type."""
    sql = f"select column_name, data_type from duckdb_columns() where schema_name = '{DATASET}' and table_name = "
    return query(place, f"{sql}'{table}' order by column_index")


def everything(place: Path) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """All values of all tables of a file, including dlt's own."""
    with duckdb.connect(str(place)) as connection:
        names = sorted(table_names(place))
        return {name: sorted(connection.sql(f"from {'.'.join(name)}").fetchall(), key=repr) for name in names}


def staged_rows(place: Path) -> dict[str, int]:
    """How many rows each table of the staging dataset holds, but for dlt's own."""
    names = {name for schema, name in table_names(place) if schema == f"{DATASET}_staging"} - {"_dlt_version"}
    return {name: query(place, f"select count(*) from {DATASET}_staging.{name}")[0][0] for name in names}


def block_labels(world: World, mode: str) -> None:
    """Make the labels' table as a load of the mode would, but for one label a contact only, and give one two."""
    amend(world.emulator.contacts, "1", ContactLabels=[{"id": "1", "title": "one"}, {"id": "2", "title": "two"}])
    columns = ", ".join(f"{name} {kind}" for name, kind in typed_columns(LABELS) + MODE_COLUMNS[mode])
    change(world.place, f"create table {DATASET}.{LABELS} ({columns})")
    change(world.place, f"create unique index one_label on {DATASET}.{LABELS} (contact_id)")


def unblock_labels(world: World) -> None:
    """Allow any number of labels again."""
    change(world.place, f"drop index {DATASET}.one_label")


def days_requested(hits: Iterable[Hit]) -> list[date]:
    """The requested days of mailings, in order."""
    periods = [json.loads(dict(parse_qsl(hit.query))["lastMailedDate"]) for hit in hits]
    return [date.fromisoformat(each["startDate"]) for each in periods]


def state_version(pipeline: dlt.Pipeline) -> int:
    """Return the version of dlt's state, which grows with every change of it."""
    version: int = pipeline.state["_state_version"]
    return version


def knows(pipeline: dlt.Pipeline, key: str) -> bool:
    """Whether a value is in what dlt keeps in the working folder alone."""
    try:
        pipeline.get_local_state_val(key)
    except KeyError:
        return False
    return True


# two places, by turns


def test_files_are_loaded_by_turns_each_in_its_mode(begin: Begin) -> None:
    """Three files share a pipeline name, and loading one of them changes no value of the others."""
    world = begin(Emulator(9, 3))
    places = {mode: world.place.with_name(f"{mode}.duckdb") for mode in MODE_COLUMNS}
    first = world.emulator.contacts.rows()[0].document["city"]
    for mode, place in places.items():
        world.start_loaded(**in_mode(mode))
        world.place.rename(place)
    for turn, mode in enumerate([*places, "replace"]):
        amend(world.emulator.contacts, "1", city=f"City {turn}")
        world.emulator.contacts.delete(world.emulator.contacts.ids()[-1])
        others = {place: everything(place) for name, place in places.items() if name != mode}
        run(make_pipeline("duckdb", places[mode]), **world.settings, **in_mode(mode))
        assert present_rows(places[mode]) == held_tables(world.emulator)
        assert {place: everything(place) for place in others} == others
    for mode, place in places.items():
        assert {table: columns_of(place, table) for table in LISTED} == {
            table: typed_columns(table) + MODE_COLUMNS[mode] for table in LISTED
        }
    cities = f"select city from {DATASET}.contacts where id = '1'"
    assert {mode: {city for [city] in query(place, cities)} for mode, place in places.items()} == {
        "replace": {"City 3"},
        "sync": {"City 1"},
        "history": {first, "City 2"},
    }


def test_a_file_and_a_folder_are_loaded_by_turns_under_one_name(begin: Begin) -> None:
    """A file and a folder loaded by turns under one pipeline name do not affect each other."""
    world = begin(Emulator(9, 3))
    folder = world.place.with_name("folder")
    destinations: tuple[tuple[Path, Any, str], ...] = (
        (world.place, dlt.destinations.duckdb(str(world.place)), "history"),
        (folder, dlt.destinations.filesystem(folder.as_uri()), "replace"),
    )
    for turn in range(2):
        amend(world.emulator.contacts, "1", city=f"City {turn}")
        for place, destination, mode in destinations:
            pipeline = dlt.pipeline("mine", destination=destination, dataset_name=DATASET)
            run(pipeline, **world.settings, **in_mode(mode), last_mailed_statuses=("Mailed",))
            assert mode == "replace" or present_rows(place) == held_tables(world.emulator)
    ids = query(world.place, f"select count(*), count(distinct id) from {DATASET}.contacts")
    assert ids == [(10, 9)]
    files = [file for file in (folder / DATASET / "contacts").iterdir() if file.is_file()]
    assert len(files) == 1


def test_mailings_of_one_file_are_not_taken_for_those_of_another(begin: Begin) -> None:
    """A new file requests all days of mailings, and each file continues from its own last load."""
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=back) for back in range(9, -1, -1)]
    world = begin(Emulator(0, 1))
    clear(world.emulator.contacts)
    for number, day in enumerate(days):
        world.emulator.contacts.insert({"id": str(number)}, traits=Traits(last_mailed_date=day))
    other = world.place.with_name("b.duckdb")
    settings = {**world.settings, "mailings": True, "mailings_since": days[0], "mailings_lag": 2}
    requested = []
    for place in (world.place, other, world.place, other):
        before = len(world.emulator.hits)
        run(make_pipeline("duckdb", place), only=("mailings",), **settings)
        requested.append(days_requested(world.emulator.hits[before:]))
    # each load first requests days on which no contact was mailed, and the count of all
    assert requested == [[LONG_AGO, far_ahead(today), each[0], *each] for each in (days, days, days[-3:], days[-3:])]
    rows = {(str(number), day) for number, day in enumerate(days)}
    for place in (world.place, other):
        assert set(query(place, f"select contact_id, mailed_on from {DATASET}.mailings")) == rows


def test_what_dlt_remembers_of_another_place_is_dropped(begin: Begin) -> None:
    """A load drops what a plain pipeline of the same name left in dlt's working folder."""
    world = begin(Emulator(3, 2))
    pipeline = make_pipeline("duckdb", world.place.with_name("b.duckdb"))
    pipeline.run(letters(**world.settings, history=True))
    world.load()
    assert present_rows(world.place) == held_tables(world.emulator)
    assert columns_of(world.place, "contacts") == typed_columns("contacts")


# failed loads, and tables that are not ours


@pytest.mark.parametrize("mode", ["history", "sync"])
def test_tables_of_a_first_load_that_failed_are_loaded_in_their_mode_alone(begin: Begin, mode: str) -> None:
    """Tables of an unfinished first load refuse replace, and loading in their own mode completes them."""
    world = begin(Emulator(9, 3))
    world.start_loaded(only=("templates",))
    block_labels(world, mode)
    with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
        world.load(only=("contacts",), **in_mode(mode))
    unblock_labels(world)
    assert columns_of(world.place, "contacts") == typed_columns("contacts") + MODE_COLUMNS[mode]
    before, sent = everything(world.place), len(world.emulator.hits)
    with pytest.raises(SettingsError) as caught:
        world.load(only=("contacts",))
    assert str(caught.value) == OTHER_MODE.format("replace")
    assert caught.value.exit_code == 2
    assert everything(world.place) == before
    assert world.emulator.hits[sent:] == []
    world.load(only=("contacts",), **in_mode(mode))
    assert present_rows(world.place) == held_tables(world.emulator)


def test_tables_of_a_first_replacement_that_failed_are_replaced_alone(begin: Begin) -> None:
    """Tables of an unfinished first replacement refuse history and sync, and replacing completes them."""
    world = begin(Emulator(9, 3))
    world.start_loaded(only=("templates",))
    block_labels(world, "replace")
    with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
        world.load(only=("contacts",))
    unblock_labels(world)
    for mode in ("history", "sync"):
        with pytest.raises(SettingsError) as caught:
            world.load(only=("contacts",), **in_mode(mode))
        assert str(caught.value) == OTHER_MODE.format(mode)
    world.load(only=("contacts",))
    assert present_rows(world.place) == held_tables(world.emulator)


@pytest.mark.parametrize(("held", "others"), [("replace", ("history", "sync")), ("history", ("replace",))])
def test_tables_without_an_audit_are_of_the_mode_of_their_columns(
    begin: Begin, held: str, others: tuple[str, ...]
) -> None:
    """The columns of tables without an audit show their mode, and other modes are refused before any request."""
    world = begin(Emulator(9, 3))
    world.start_loaded(only=("contacts",), **in_mode(held))
    change(world.place, "delete from letters_data.listing_audit")
    before = everything(world.place)
    for wanted in others:
        with pytest.raises(SettingsError) as caught:
            world.load(**in_mode(wanted))
        assert str(caught.value) == OTHER_MODE.format(wanted)
    assert everything(world.place) == before
    assert world.emulator.hits == []
    world.load(**in_mode(held))
    assert present_rows(world.place) == held_tables(world.emulator)


def test_a_child_s_table_without_an_audit_is_of_the_mode_of_its_columns_too(begin: Begin) -> None:
    """The columns of a child table show its mode even where its parent table is missing."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    change(world.place, "delete from letters_data.listing_audit; drop table letters_data.contacts")
    with pytest.raises(SettingsError, match="tables of another mode than history"):
        world.load(history=True)


def test_a_dataset_that_was_removed_is_loaded_in_any_mode(begin: Begin) -> None:
    """A dataset whose file was removed or exchanged, or that was dropped, can be loaded in any mode."""
    world = begin(Emulator(9, 3))
    world.load(history=True)
    for remove, mode in ((exchange, "replace"), (Path.unlink, "sync"), (drop, "history")):
        remove(world.place)
        world.load(**in_mode(mode))
        assert present_rows(world.place) == held_tables(world.emulator)
        assert columns_of(world.place, "contacts") == typed_columns("contacts") + MODE_COLUMNS[mode]


def exchange(file: Path) -> None:
    """Put an empty database in the place of a file."""
    file.unlink()
    duckdb.connect(str(file)).close()


def drop(file: Path) -> None:
    """Drop the dataset of a file, and its staging dataset."""
    change(file, f"drop schema {DATASET} cascade")
    change(file, f"drop schema {DATASET}_staging cascade")


# staging


@pytest.mark.parametrize(
    ("mode", "changes"),
    [
        ("sync", {}),
        ("history", {"facets": True, "contact_filters": ContactFilters(search="a")}),
    ],
)
def test_a_first_load_into_a_new_file_leaves_nothing_in_staging(
    begin: Begin, mode: str, changes: dict[str, Any]
) -> None:
    """First and later loads leave the staging tables empty where rows are merged."""
    world = begin(Emulator(9, 3))
    tables = {*LISTED, *(FACETS if "facets" in changes else ())}
    for load in (world.start_loaded, world.load):
        load(**in_mode(mode), **changes)
        assert staged_rows(world.place) == dict.fromkeys(tables, 0)


def test_a_first_replacement_into_a_new_file_needs_no_staging(begin: Begin) -> None:
    """A first replacement writes straight into its tables, since there are no old rows to keep."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    assert staged_rows(world.place) == {}


# names that are taken

VIEWS = "{}_all is reserved for views over accounts: no account or file can use this name."
STAGING = "{} ends in _staging, like dlt's staging datasets; choose another --dataset."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--account-id", "A", "--account-id", "all"), VIEWS.format("letters_data")),
        (("--account-id", "ALL", "--account-id", "A"), VIEWS.format("letters_data")),
        (("--account-id", "A", "--account-id", "B", "--to", "letters_data_all.duckdb"), VIEWS.format("letters_data")),
        (("--account-id", "A", "--account-id", "B", "--to", "Letters_Data_All.db"), VIEWS.format("letters_data")),
        (("--account-id", "A", "--account-id", "all", "--dataset", "ours"), VIEWS.format("ours")),
        (("--account-id", "A", "--account-id", "staging"), STAGING.format("letters_data_staging")),
        (("--account-id", "A", "--account-id", "x staging"), STAGING.format("letters_data_x_staging")),
        (("--dataset", "letters_data_staging"), STAGING.format("letters_data_staging")),
        (("--dataset", "ours_staging", "--destination", "parquet"), STAGING.format("ours_staging")),
    ],
)
def test_names_that_are_taken_are_refused(
    letters: Letters, begin: Begin, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    """Reserved names exit with code 2 and one line, before any request or file."""
    world = begin(Emulator(3, 2))
    world.configure(monkeypatch)
    done = letters("load", *arguments)
    assert (done.code, done.out, done.err) == (2, "", f"letters: {message}\n")
    assert world.emulator.hits == []
    assert [path for path in Path().iterdir() if path.name.lower().startswith("letters")] == []


@pytest.mark.parametrize("accounts", [("A", "all"), ("A", "staging"), ("A", "x staging"), ("x_staging", "A")])
def test_accounts_whose_datasets_are_taken_are_refused_in_python_too(begin: Begin, accounts: tuple[str, ...]) -> None:
    """Account ids that would give a reserved dataset name get no pipelines."""
    world = begin(Emulator(3, 2))
    with pytest.raises(DestinationError, match=r"views over accounts|ends in _staging"):
        account_pipelines("duckdb", world.place, DATASET, accounts)


def test_an_account_may_have_a_similar_name(begin: Begin) -> None:
    """Accounts named `allied` and `staging 2` get their own datasets, and the views combine them."""
    world = begin(Emulator(3, 2))
    run_accounts(account_pipelines("duckdb", world.place, DATASET, ("allied", "staging 2")), **world.settings)
    views = "select schema_name, count(*) from duckdb_views() where not internal group by all"
    assert [schema for schema, _ in query(world.place, views)] == ["letters_data_all"]
    made = {schema for schema, name in table_names(world.place) if name == "contacts"}
    # the second load goes through staging, because the file exists then
    own = {"letters_data_allied", "letters_data_staging_2"}
    assert made == {*own, "letters_data_staging_2_staging"}


def test_a_file_named_as_the_staging_dataset_is_refused(begin: Begin) -> None:
    """A file named like the staging dataset is refused, because DuckDB could not tell them apart."""
    world = begin(Emulator(3, 2))
    with pytest.raises(DestinationError):
        make_pipeline("duckdb", world.place.with_name("letters_data_staging.duckdb"))


# no destination


@pytest.mark.parametrize("mode", ["replace", "sync", "history"])
def test_rows_can_be_extracted_without_a_destination_in_every_mode(begin: Begin, mode: str) -> None:
    """Rows can be extracted in every mode before the pipeline has a destination."""
    world = begin(Emulator(9, 3))
    pipeline = dlt.pipeline("nowhere")
    pipeline.extract(letters(**world.settings, **in_mode(mode), facets=True))
    assert pipeline.has_pending_data
    assert {hit.path.rpartition("/")[2] for hit in world.emulator.hits} == {"templates", "contacts"}


# personal values


def test_history_with_another_policy_is_refused(
    letters: Letters, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """History exits with code 2 if the policy is another or missing, and accepts the same policy again."""
    world = begin(Emulator(9, 3))
    world.configure(monkeypatch)
    world.start_loaded(history=True, pii="mask")
    before = everything(world.place)
    masked, dropped = (json.dumps(dict.fromkeys(PERSONAL, policy)) for policy in ("mask", "drop"))
    lacking = "without policies for personal values"
    for arguments, words in ((("--pii", "drop"), f"with personal values {dropped}"), ((), lacking)):
        done = letters("load", "--history", *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"letters: templates: the dataset letters_data was loaded with personal values {masked}, and this "
            f"load is {words}; to keep both, choose another --dataset.\n"
        )
    assert everything(world.place) == before
    assert world.emulator.hits == []
    assert letters("load", "--quiet", "--history", "--pii", "mask").code == 0


def test_history_that_kept_everything_refuses_a_policy(begin: Begin) -> None:
    """History loaded without policies refuses to drop a column, but accepts a policy that keeps every column."""
    world = begin(Emulator(9, 3))
    world.start_loaded(history=True)
    with pytest.raises(SettingsError) as caught:
        world.load(history=True, pii={"email": "drop"})
    assert str(caught.value) == (
        "templates: the dataset letters_data was loaded without policies for personal values, and this load is with "
        'personal values {"email": "drop"}; to keep both, choose another dataset.'
    )
    world.load(history=True, pii={"all": "keep"})


def test_sync_accepts_any_policy_and_the_audit_has_it(begin: Begin) -> None:
    """Sync accepts any policy after any other, and the audit holds it as JSON by column, or null if none was set."""
    world = begin(Emulator(9, 3))
    policies: tuple[tuple[dict[str, Any] | None, dict[str, Any] | None], ...] = (
        ({"all": "mask"}, dict.fromkeys(PERSONAL, "mask")),
        ({"all": "keep", "email": "drop", "undocumented": "keep"}, {"email": "drop", "undocumented": "keep"}),
        ({"all": "keep"}, None),
    )
    for given, _ in policies:
        world.load(pii=given, sync=True)
    audits = read_tables(world.place)["listing_audit"]
    expected = [written for _, written in policies for _ in range(2)]
    assert [audit["pii"] for audit in audits] == expected
    nulls = query(world.place, f"select pii is null from {DATASET}.listing_audit order by started_at")
    assert [null for [null] in nulls] == [written is None for written in expected]
    assert present_rows(world.place) == held_tables(world.emulator)
    [audit] = world.read("contacts")["listing_audit"]
    assert audit["pii"] is None


def test_a_table_that_cannot_be_staged_leaves_all_tables_old(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed staging table leaves all tables as they were, even where dlt is set to continue after failed jobs."""
    monkeypatch.setenv("LOAD__RAISE_ON_FAILED_JOBS", "false")
    world = begin(Emulator(9, 3))
    for _ in range(2):
        world.load(sync=True)
    before = present_rows(world.place)
    for listing in (world.emulator.contacts, world.emulator.templates):
        listing.grow()
        listing.grow()
    for table in ("contacts", "templates__product"):
        change(world.place, f"delete from {DATASET}_staging.{table}")
        change(world.place, f"create unique index one_row on {DATASET}_staging.{table} (_dlt_load_id)")
        with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
            world.load(sync=True)
        assert present_rows(world.place) == before
        change(world.place, f"drop index {DATASET}_staging.one_row")


# what a load reads from a dataset


def audits_of(pipeline: dlt.Pipeline, name: str) -> list[Audit]:
    """The audits that a pipeline's dataset holds."""
    with open_held(place_of(pipeline)) as client:
        return finished_audits(client, name)


def held_columns(pipeline: dlt.Pipeline, table: str) -> set[str]:
    """The columns that a table of a pipeline's dataset has."""
    with open_held(place_of(pipeline)) as client:
        return read_columns(client, table)


def test_a_dataset_returns_its_audits_newest_first(begin: Begin) -> None:
    """A dataset returns the audits of its finished loads, newest first, with their JSON parsed."""
    world = begin(Emulator(9, 3))
    world.load(only=("contacts",), contact_filters=ContactFilters(search="a"), pii={"email": "drop"})
    last = world.load(only=("contacts",), contact_filters=ContactFilters(search="a"), pii={"email": "keep"})
    first_audit, last_audit = read_tables(world.place)["listing_audit"]
    found = [parsed(audit) for audit in map(as_text, audits_of(world.pipeline, "contacts"))]
    assert found == [last_audit, first_audit]
    assert audits_of(world.pipeline, "templates") == []
    change(world.place, f"update {DATASET}._dlt_loads set status = 1 where load_id = '{last.load_id}'")
    assert [audit["pii"] for audit in audits_of(world.pipeline, "contacts")] == [{"email": "drop"}]


def as_text(audit: Audit) -> dict[str, Any]:
    """An audit whose filters and policies must be read, as text once more."""
    texts = {"filters": audit["filters"], "pii": audit["pii"]}
    assert all(isinstance(value, dict | None) for value in texts.values())
    return {**audit, **{name: json.dumps(value) for name, value in texts.items() if value is not None}}


def test_a_dataset_returns_the_columns_of_a_table(begin: Begin) -> None:
    """A dataset returns the columns of a table, and none where there is no such table."""
    world = begin(Emulator(9, 3))
    assert held_columns(world.pipeline, "contacts") == set()
    assert not world.place.exists() or table_names(world.place) == set()
    world.start_loaded(only=("contacts",))
    assert held_columns(world.pipeline, "contacts") == {name for name, _ in typed_columns("contacts")}
    assert held_columns(world.pipeline, "templates") == set()


@pytest.mark.parametrize("destination", ["dummy", None])
def test_a_destination_without_sql_has_no_audits(begin: Begin, destination: str | None) -> None:
    """A destination without SQL and a pipeline without a destination have no audits and no columns."""
    begin()
    pipeline = dlt.pipeline("mine", destination=destination, dataset_name=DATASET)
    assert audits_of(pipeline, "contacts") == []
    assert held_columns(pipeline, "contacts") == set()


def test_a_folder_returns_its_audits_too(begin: Begin) -> None:
    """A folder of Parquet files returns its audits and columns as a database does."""
    world = begin(Emulator(9, 3), "parquet")
    assert audits_of(world.pipeline, "contacts") == []
    world.load(only=("contacts",), pii={"all": "drop"})
    [audit] = audits_of(world.pipeline, "contacts")
    assert (audit["listing"], audit["mode"], audit["pii"]) == ("contacts", "replace", dict.fromkeys(PERSONAL, "drop"))
    assert held_columns(world.pipeline, "contacts") == {name for name, _ in typed_columns("contacts")}
    assert held_columns(world.pipeline, "templates") == set()


def test_another_failure_of_a_dataset_is_not_taken_for_nothing(begin: Begin) -> None:
    """A dropped audit table counts as empty, but one that cannot be read raises."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    change(world.place, f"drop table {DATASET}.listing_audit")
    assert audits_of(world.pipeline, "contacts") == []
    change(world.place, f"create table {DATASET}.listing_audit as select 'contacts' as listing")
    with pytest.raises(Exception, match=r"_dlt_load_id|started_at") as caught:
        audits_of(world.pipeline, "contacts")
    assert not isinstance(caught.value, DestinationUndefinedEntity)


def test_no_pipeline_runs_while_none_loads(begin: Begin) -> None:
    """No pipeline counts as running after a load, though dlt still names the last one."""
    world = begin(Emulator(3, 2))
    world.load()
    assert running_place() is None


@pytest.mark.parametrize(
    ("value", "read"), [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), (None, None), ("null", None)]
)
def test_json_is_read_whether_the_engine_did_or_not(value: Any, read: Any) -> None:
    """Filters and policies are parsed from text or taken as they are; other columns stay as they are."""
    assert opened({"filters": value, "pii": value, "verdict": "{}"}) == {"filters": read, "pii": read, "verdict": "{}"}
