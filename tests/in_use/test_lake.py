"""What a load writes into Delta and Iceberg tables."""

import gc
import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from deltalake import DeltaTable
from holdings import COLUMNS, DATASET, LISTED, held_tables, typed_columns
from lakes import described, newest_metadata, read_lake, read_table
from planned_letters import load_each_night, plan
from pyiceberg.table import StaticTable
from row_changes import amend
from terminals import Letters, Outcome, run_command, run_python
from worlds import Begin, World, serve_world, verify

from letters_source import IncompleteListing, LoadFailed, Result, SettingsError, make_pipeline, run
from letters_source.config.installation import how_to_add_extra
from letters_source.destination import lake
from letters_source.destination.kinds import place_of
from letters_source.destination.place import Written
from letters_source.service.listings import ContactFilters
from letters_source.tables import facets_of, tables_of
from programmable_emulator import Behavior, Emulator

Form = Literal["delta", "iceberg"]
FORMS: tuple[Form, ...] = ("delta", "iceberg")
in_both = pytest.mark.parametrize("form", FORMS)
TODAY = datetime.now(UTC).date()


@dataclass(frozen=True)
class Loaded:
    """A world that was loaded, and how."""

    form: Form
    world: World
    result: Result


@pytest.fixture(scope="module", params=FORMS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """250 contacts and 40 templates, loaded once for all tests here that only read."""
    with serve_world(tmp_path_factory.mktemp("loaded"), request.param) as world:
        yield Loaded(request.param, world, world.load())


def test_rows_are_those_that_the_service_holds(loaded: Loaded) -> None:
    """Every row arrives with every value, no other row is there, and the result counts them."""
    found = read_lake(loaded.form, loaded.world.place)
    assert {name: found[name] for name in LISTED} == held_tables(loaded.world.emulator)
    assert {name: len(rows) for name, rows in found.items()} == dict(loaded.result.tables)
    assert loaded.result.tables["contacts"] == 250


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_have_their_types_and_order(loaded: Loaded, table: str) -> None:
    """Columns have the types and order of DuckDB's, but JSON is text."""
    expected = [(name, "VARCHAR" if kind == "JSON" else kind) for name, kind in typed_columns(table)]
    assert described(read_table(loaded.form, loaded.world.place, table)) == expected


def test_every_row_names_its_load(loaded: Loaded) -> None:
    """`_dlt_load_id` of every row is the id of the load."""
    for table in (*LISTED, "listing_audit"):
        ids = read_table(loaded.form, loaded.world.place, table)["_dlt_load_id"]
        assert set(ids.to_pylist()) == {loaded.result.load_id}


def test_looking_at_tables_leaves_no_database_open(loaded: Loaded) -> None:
    """Verifying and describing tables closes Iceberg's SQLite catalog itself, with the garbage collector off."""
    tables = (*tables_of("templates"), *tables_of("contacts"))
    gc.collect()
    before = open_databases()
    gc.disable()
    try:
        place, written = place_of(loaded.world.pipeline), Written(loaded.result.load_id, tables, loaded.result.tables)
        with lake.open_sql(place, "") as client:
            lake.annotate(place, client, written, lake.verify(client, written))
        assert open_databases() == before
    finally:
        gc.enable()


def open_databases() -> int:
    """How many SQLite databases are open."""
    return sum(isinstance(each, sqlite3.Connection) and is_open(each) for each in gc.get_objects())


def is_open(database: sqlite3.Connection) -> bool:
    """Return whether a database is still open."""
    try:
        return database.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def test_a_failed_load_leaves_the_tables_as_they_were(loaded: Loaded) -> None:
    """A failed load adds, removes and changes no file."""
    world = loaded.world
    before = {file: file.stat().st_mtime_ns for file in world.place.rglob("*")}
    world.emulator.behavior = Behavior(ignore_page=True)
    with pytest.raises(IncompleteListing):
        world.load()
    world.emulator.behavior = Behavior()
    assert {file: file.stat().st_mtime_ns for file in world.place.rglob("*")} == before


@in_both
def test_the_tables_of_an_empty_account_fill_later_and_are_then_replaced_at_once(begin: Begin, form: Form) -> None:
    """The tables of an empty account have their final types, later versions of a table are whole, and the audit grows.

    Rows in place of others do not change the columns.
    """
    world = begin(Emulator(0, 0), form)
    assert dict(world.load().tables) == {**dict.fromkeys(COLUMNS, 0), "listing_audit": 2}
    for table in COLUMNS:
        expected = [(name, "VARCHAR" if kind == "JSON" else kind) for name, kind in typed_columns(table)]
        assert described(read_table(form, world.place, table)) == expected
    contacts, templates = world.emulator.contacts, world.emulator.templates
    for listing, rows in ((contacts, 30), (templates, 5)):
        for _ in range(rows):
            listing.grow()
    check_next_load(world, form)
    before = {name: read_table(form, world.place, name).schema for name in COLUMNS}
    amend(contacts, "1", firstName="", lastName=None)
    contacts.grow()
    check_next_load(world, form)
    assert {name: read_table(form, world.place, name).schema for name in COLUMNS} == before
    audits = read_table(form, world.place, "listing_audit").sort_by("started_at")
    assert list(zip(audits["listing"].to_pylist(), audits["rows_yielded"].to_pylist(), strict=True)) == [
        ("templates", 0), ("contacts", 0), ("templates", 5), ("contacts", 30), ("templates", 5), ("contacts", 31),
    ]  # fmt: skip
    assert set(states(form, world.place / "letters_data" / "contacts")) == {0, 30, 31}


def states(form: Form, folder: Path) -> list[int]:
    """Count the rows of each version that a reader can find, without the first, empty one of an Iceberg table."""
    if form == "delta":
        versions = range(DeltaTable(str(folder)).version() + 1)
        return [DeltaTable(str(folder), version=version).to_pyarrow_table().num_rows for version in versions]
    files = sorted(folder.glob("metadata/*.metadata.json"))[1:]
    return [StaticTable.from_metadata(file.as_uri()).scan().to_arrow().num_rows for file in files]


def check_next_load(world: World, form: Form) -> None:
    """Load once more, after which the tables hold what the service holds."""
    world.load()
    found = read_lake(form, world.place)
    assert {name: found[name] for name in LISTED} == held_tables(world.emulator)


@pytest.fixture(scope="module", params=FORMS)
def filtered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """Contacts that a search finds, with their facets; a test takes a row away from the table of contacts."""
    with serve_world(tmp_path_factory.mktemp("filtered"), request.param, Emulator(20, 4)) as world:
        result = world.load(only=("contacts",), facets=True, contact_filters=ContactFilters(search="a"))
        yield Loaded(request.param, world, result)


def test_a_dataset_remembers_what_it_was_loaded_with(filtered: Loaded) -> None:
    """A load without the dataset's filter is refused before the first request, also by a new pipeline."""
    world = filtered.world
    asked = len(world.emulator.hits)
    with pytest.raises(
        SettingsError, match=r'^contacts: the dataset letters_data was loaded with search="a", and this'
    ):
        run(make_pipeline(filtered.form, world.place), only=("contacts",), **world.settings)
    assert world.emulator.hits[asked:] == []


def test_facets_are_loaded(filtered: Loaded) -> None:
    """The tables of facets hold as many rows as the result counts."""
    facets = [name for name in filtered.result.tables if name.endswith("statuses")]
    assert facets == ["contacts__address_statuses", "contacts__last_mailed_statuses"]
    stored = {name: read_table(filtered.form, filtered.world.place, name).num_rows for name in facets}
    assert stored == {name: filtered.result.tables[name] for name in facets}
    assert stored["contacts__address_statuses"] > 0


def test_a_table_that_lost_rows_is_noticed(filtered: Loaded) -> None:
    """Verification counts the rows of the destination itself, so that it notices one that is gone."""
    client: Any = filtered.world.pipeline.destination_client()
    rows = filtered.result.tables["contacts"]
    client.load_open_table(filtered.form, "contacts").delete("id = '1'")
    with pytest.raises(
        LoadFailed, match=rf"^contacts: read {rows} rows, but the destination holds {rows - 1} with {rows - 1} ids"
    ):
        verify(filtered.world.pipeline, filtered.result.load_id, (*tables_of("contacts"), *facets_of("contacts")))


@pytest.mark.parametrize(
    ("form", "mode"), [("delta", "history"), ("iceberg", "history"), ("iceberg", "sync"), ("parquet", "sync")]
)
def test_what_dlt_cannot_merge_is_refused_before_the_first_request(begin: Begin, form: Any, mode: str) -> None:
    """History or sync in a format that dlt cannot merge is refused before the first request, and nothing is written."""
    world = begin(Emulator(9, 3), form)
    with pytest.raises(SettingsError) as caught:
        world.load(**{mode: True})
    what = form if form != "parquet" else "plain"
    assert str(caught.value) == (
        f"templates: {mode} is not supported for {what} files; turn off sources.letters.{mode}, "
        "or choose another destination."
    )
    assert world.emulator.hits == []
    assert not world.place.exists()


def test_sync_writes_changed_rows_alone_into_delta(begin: Begin) -> None:
    """A sync deletes rows that are gone, and leaves unchanged rows with the load that wrote them."""
    world = begin(Emulator(20, 4), "delta")
    first = world.load(only=("contacts",), sync=True)
    listing = world.emulator.contacts
    listing.delete(0)
    changed, *_ = listing.ids()
    amend(listing, changed, city="Elsewhere")
    listing.insert({"id": "new"})
    second = world.load(only=("contacts",), sync=True)
    rows = {row["id"]: row for row in read_table("delta", world.place, "contacts").to_pylist()}
    assert set(rows) == set(listing.ids())
    assert rows[changed]["city"] == "Elsewhere"
    loads = {row_id: row["_dlt_load_id"] for row_id, row in rows.items()}
    assert {row_id for row_id, load in loads.items() if load == second.load_id} == {changed, "new"}
    assert set(loads.values()) == {first.load_id, second.load_id}


def test_sync_takes_over_what_a_killed_load_wrote_into_delta(begin: Begin) -> None:
    """Rows of a load that was killed before its entry in _dlt_loads belong to the next one; others keep theirs."""
    world = begin(Emulator(20, 4), "delta")
    first = world.load(only=("contacts",), sync=True)
    listing = world.emulator.contacts
    changed, again = listing.ids()[2:4]
    for row_id in (changed, again):
        amend(listing, row_id, city="Elsewhere", ContactLabels=[{"id": "7", "title": "late"}])
    killed = world.load(only=("contacts",), sync=True)
    [entry] = (world.place / DATASET / "_dlt_loads").glob(f"*{killed.load_id}.jsonl")
    entry.unlink()
    amend(listing, again, city="Elsewhere again")
    last = world.load(only=("contacts",), sync=True)
    for table in tables_of("contacts"):
        rows = read_table("delta", world.place, table.name).to_pylist()
        loads = {row[table.key[0]]: row["_dlt_load_id"] for row in rows}
        assert {row_id for row_id, load in loads.items() if load == last.load_id} == {changed, again}
        assert set(loads.values()) == {first.load_id, last.load_id}


@in_both
def test_mailings_are_merged_and_those_of_earlier_days_stay(begin: Begin, form: Form) -> None:
    """Loads that request the same days again add no row twice, lose none, and keep the schema."""
    world = begin(Emulator(60, 3), form)
    since = {"mailings": True, "mailings_since": date(2024, 1, 1), "mailings_window": 365, "only": ("mailings",)}
    found = []
    for lag in ({}, {"mailings_lag": 400}):
        world.load(**since, **lag)
        found.append((keys(world.place, form), schema_of(world.place, form)))
    assert found[0][0]
    assert len(found[0][0]) == len(set(found[0][0]))
    assert found == [found[0]] * 2


@in_both
def test_nights_of_planned_postponed_and_canceled_letters(begin: Begin, form: Form) -> None:
    """After each of four nights, mailings are what the service lists for every day that was read again."""
    world = begin(Emulator(0, 0), form)
    gone = load_each_night(
        world.emulator.contacts,
        lambda: world.load(only=("mailings",), mailings=True),
        lambda: {row[:2] for row in keys(world.place, form)},
        nights=4,
    )
    assert gone > 0


@in_both
def test_planned_mailings_go_once_they_are_not_asked_for(begin: Begin, form: Form) -> None:
    """A load without days ahead also deletes the planned mailings of an earlier one."""
    world = begin(Emulator(0, 0), form)
    days = [TODAY, TODAY + timedelta(days=3), TODAY + timedelta(days=5)]
    plan(world.emulator.contacts, days)
    found = []
    for ahead in (5, 3, 0):
        world.load(only=("mailings",), mailings=True, mailings_since=TODAY, mailings_ahead=ahead)
        found.append([(row[1], row[3]) for row in keys(world.place, form)])
    planned = [(day, day > TODAY) for day in days]
    assert found == [planned, planned[:2], planned[:1]]


def keys(place: Path, form: Form) -> list[tuple[Any, ...]]:
    """Return each mailing, without the load's id."""
    table = read_table(form, place, "mailings")
    return sorted(tuple(row.values())[:4] for row in table.to_pylist())


def schema_of(place: Path, form: Form) -> Any:
    """The schema of the mailings; for Iceberg, how many schemas there were, and the key, which rows are merged by."""
    folder = place / DATASET / "mailings"
    if form == "delta":
        return DeltaTable(str(folder)).schema()
    table = StaticTable.from_metadata(newest_metadata(folder))
    assert table.schema().identifier_field_names() == {"contact_id", "mailed_on"}
    return table.schema(), len(table.schemas())


def test_iceberg_refuses_a_folder_that_it_would_misspell(begin: Begin) -> None:
    """Iceberg refuses a path with spaces before the first request, and Delta writes to it."""
    world = begin(Emulator(3, 3))
    place = world.place.parent / "my lake"
    with pytest.raises(SettingsError, match=r"my lake: Iceberg cannot write to a path with spaces"):
        run(make_pipeline("iceberg", place), **world.settings)
    run(make_pipeline("delta", place), only=("contacts",), **world.settings)
    assert world.emulator.hits
    assert read_table("delta", place, "contacts").num_rows == 3


def test_a_lake_keeps_its_format(loaded: Loaded) -> None:
    """A load in another format than the lake's is refused before the first request, and changes no file."""
    other = {"delta": "parquet", "iceberg": "delta"}[loaded.form]
    check_format_is_kept(loaded.world, f"templates as {loaded.form}; load with destination {loaded.form}", other)


def test_a_folder_of_parquet_keeps_its_format(begin: Begin) -> None:
    """A load of Delta tables into a folder of Parquet is refused before the first request, and changes no file."""
    world = begin(Emulator(3, 3), "parquet")
    world.load(only=("contacts",))
    check_format_is_kept(world, "contacts as parquet; load with destination parquet", "delta")


def check_format_is_kept(world: World, held: str, other: Any) -> None:
    """Check that a load in another format is refused, and changes nothing."""
    asked, before = len(world.emulator.hits), set(world.place.rglob("*"))
    with pytest.raises(SettingsError, match=f" holds {held}, or choose another path\\.$"):
        run(make_pipeline(other, world.place), only=("contacts",), **world.settings)
    assert (len(world.emulator.hits), set(world.place.rglob("*"))) == (asked, before)


# the command


@in_both
def test_the_command_says_where_the_tables_are(
    begin: Begin, letters: Letters, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    """The command prints the folder and dataset, and for Delta a line of Python to try, which runs."""
    world = begin(Emulator(9, 3), form)
    world.configure(monkeypatch)
    done = letters("load", "--destination", form, "--only", "contacts")
    assert done.code == 0, done.err
    assert f"{world.place}, dataset letters_data" in done.out
    if form == "iceberg":
        assert "Try:" not in done.out
        return
    code = done.out.split(" -c '", 1)[1].rpartition("'")[0]
    tried = run_command(code=code)
    assert (tried.code, "contacts" in tried.out) == (0, True)


def test_the_recipes_read_the_tables(loaded: Loaded, project: Path) -> None:
    """The recipe of each format runs as it stands in the document, and prints a table."""
    place = {"delta": "lake", "iceberg": "letters_iceberg"}[loaded.form]
    (project / place).symlink_to(loaded.world.place)
    [code] = [code for code in re.findall(r"```python\n(.*?)```", lake_section(), re.DOTALL) if f'"{place}/' in code]
    tried = run_command(code=code)
    assert (tried.code, tried.err) == (0, "")
    assert "state" in tried.out


def lake_section() -> str:
    """What the recipes say of the lake."""
    document = (Path(__file__).parents[2] / "pipelines/README.md").read_text()
    return document.partition("## The lake\n")[2].partition("\n## ")[0]


WITHOUT = "import sys; sys.modules[{module!r}] = None; from letters_source.cli.process import main; main()"


@pytest.mark.parametrize(("form", "module"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_missing_extra_is_one_line(begin: Begin, monkeypatch: pytest.MonkeyPatch, form: Form, module: str) -> None:
    """Without the library of a format, the command ends with one line that says what to install."""
    world = begin(Emulator(9, 3))
    world.configure(monkeypatch)
    done = run_command("load", "--destination", form, "--quiet", code=WITHOUT.format(module=module))
    assert done == Outcome(2, "", f"letters: {form} is not installed: {how_to_add_extra('lake')}\n")
    assert world.emulator.hits == []


def test_nothing_of_the_lake_is_imported_for_others() -> None:
    """Importing the loader does not import the libraries of Delta, Iceberg and S3."""
    code = "import sys, letters_source.load; print([m for m in ('deltalake', 'pyiceberg', 's3fs') if m in sys.modules])"
    assert json.loads(run_python("-c", code).out) == []
    assert sys.modules["deltalake"]
