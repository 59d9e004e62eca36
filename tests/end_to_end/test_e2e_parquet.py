"""A load writes a folder of Parquet files."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from holdings import COLUMNS, KEYS, LISTED, held_tables, typed_columns
from worlds import Begin, World, serve_world

from letters_source import IncompleteListing, LoadFailed, Result, ServiceUnreachable
from programmable_emulator import Behavior, Emulator


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Result]]:
    """250 contacts and 40 templates, loaded once for the tests of this module, which leave the folder as it was."""
    with serve_world(tmp_path_factory.mktemp("loaded"), "parquet") as world:
        yield world, world.load()


def test_every_table_has_its_folder_with_a_file(loaded: tuple[World, Result]) -> None:
    """Every table has its own folder with one file, even without rows, and there are no other files."""
    files = [file.relative_to(loaded[0].place).parts for file in loaded[0].place.rglob("*.parquet")]
    assert {(*parts[:2],) for parts in files} == {("letters_data", table) for table in COLUMNS}
    assert len(files) == len(COLUMNS)


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_have_their_types_and_order(loaded: tuple[World, Result], table: str) -> None:
    """Columns have the types and order that they have in DuckDB, but JSON is text."""
    folder = loaded[0].place / "letters_data" / table
    found = duckdb.sql(f"describe from '{folder}/*.parquet'").fetchall()
    expected = [(name, "VARCHAR" if kind == "JSON" else kind) for name, kind in typed_columns(table)]
    assert [row[:2] for row in found] == expected


@pytest.mark.parametrize("table", LISTED)
def test_rows_are_those_that_the_service_holds(loaded: tuple[World, Result], table: str) -> None:
    """The rows of each table are those of the service, value by value."""
    assert loaded[0].tables()[table] == held_tables(loaded[0].emulator)[table]


@pytest.mark.parametrize("table", [*LISTED, "listing_audit"])
def test_every_row_names_its_load(loaded: tuple[World, Result], table: str) -> None:
    """Every row holds the id of its load in `_dlt_load_id`."""
    files = loaded[0].place / "letters_data" / table / "*.parquet"
    assert duckdb.sql(f"select distinct _dlt_load_id from '{files}'").fetchall() == [(loaded[1].load_id,)]


def test_the_result_counts_the_rows_of_the_files(loaded: tuple[World, Result]) -> None:
    """The result of `run` holds the number of rows in the files and the rows of the audit."""
    world, result = loaded
    tables = world.tables()
    assert dict(result.tables) == {name: len(rows) for name, rows in tables.items()}
    assert [{**audit} for audit in result.audits] == [
        {**row, "_dlt_load_id": result.load_id} for row in tables["listing_audit"]
    ]


def test_the_dlt_schema_knows_the_keys(loaded: tuple[World, Result]) -> None:
    """The schema of dlt holds the primary keys, which files cannot."""
    tables = loaded[0].pipeline.default_schema.tables
    keys = {
        name: tuple(column for column, hints in tables[name]["columns"].items() if hints.get("primary_key"))
        for name in LISTED
    }
    assert keys == KEYS


def test_a_failed_load_leaves_the_files_as_they_were(loaded: tuple[World, Result]) -> None:
    """A failed load adds, removes and changes no file, and leaves nothing pending."""
    world, _ = loaded
    before = contents(world.place)
    world.emulator.behavior = Behavior(ignore_page=True)
    with pytest.raises(IncompleteListing):
        world.load()
    world.emulator.behavior = Behavior(fault_every=1)
    with pytest.raises(ServiceUnreachable):
        world.load(retry_budget=1)
    world.emulator.behavior = Behavior()
    assert contents(world.place) == before
    assert not world.pipeline.has_pending_data


def contents(folder: Path) -> dict[Path, bytes]:
    """All files of a folder."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_files_that_were_cut_off_are_removed_by_the_next_load(begin: Begin) -> None:
    """A load removes the truncated files of one that was killed, or whose disk was full, from any table."""
    world = begin(Emulator(30, 7), "parquet")
    world.load()
    stumps = []
    for table in ("contacts", "listing_audit", "rejected_rows"):
        folder = world.place / "letters_data" / table
        whole = next(folder.glob("*.parquet"))
        stumps.append(folder / "1700000000.5.0a1b2c3d4e.0.parquet")
        stumps[-1].write_bytes(whole.read_bytes()[:100])
    world.load()
    assert [stump for stump in stumps if stump.exists()] == []
    assert world.is_exact()


def test_a_file_of_a_finished_load_that_cannot_be_read_is_reported(loaded: tuple[World, Result]) -> None:
    """A load fails where a file of a finished load is truncated, and its message names the file."""
    world, _ = loaded
    [audit] = (world.place / "letters_data/listing_audit").glob("*.parquet")
    [load] = (world.place / "letters_data/_dlt_loads").glob("*.jsonl")
    with (
        rewritten(load, b""),
        pytest.raises(LoadFailed, match=rf"{load.name} is truncated: remove it, and load again\.$"),
    ):
        world.load()
    with rewritten(audit, audit.read_bytes()[:100]), pytest.raises(LoadFailed, match=re.escape(audit.name)):
        world.load()


@contextmanager
def rewritten(file: Path, damaged: bytes) -> Iterator[None]:
    """Give a file other bytes for a while."""
    kept = file.read_bytes()
    file.write_bytes(damaged)
    try:
        yield
    finally:
        file.write_bytes(kept)


@pytest.mark.parametrize("name", ["part-00001.parquet", "1700000000.5.0a1b2c3d4e.0.parquet"])
def test_a_file_of_another_program_is_not_changed(loaded: tuple[World, Result], name: str) -> None:
    """Unreadable files of unknown loads, or damaged before their end, fail the load and are left for inspection."""
    world, _ = loaded
    folder = world.place / "letters_data/rejected_rows"
    whole = next(folder.glob("*.parquet")).read_bytes()
    damaged = whole[:100] if name.startswith("part") else whole[:500] + bytes(len(whole) - 508) + whole[-8:]
    file = folder / name
    file.write_bytes(damaged)
    try:
        with pytest.raises(LoadFailed, match=re.escape(name)):
            world.load()
        assert file.read_bytes() == damaged
    finally:
        file.unlink()


def test_older_files_of_a_table_get_the_columns_of_the_newest(begin: Begin) -> None:
    """After loads of releases with other columns, readers that look at one file find all columns and rows."""
    world = begin(Emulator(3, 2), "parquet")
    loads = [world.load().load_id for _ in range(4)]
    folder = world.place / "letters_data/listing_audit"
    first, second, third, _ = sorted(folder.glob("*.parquet"))
    # the columns of an earlier release, in another order, with another type
    pq.write_table(pq.read_table(first).drop_columns(["shared_ids", "service"]), first)
    first.chmod(0o640)
    rows = pq.read_table(second)
    pq.write_table(rows.select(rows.column_names[::-1]), second)
    rows = pq.read_table(third)
    pages = rows.column_names.index("pages")
    pq.write_table(rows.set_column(pages, "pages", rows["pages"].cast("int32")), third)
    loads.append(world.load().load_id)
    files = sorted(folder.glob("*.parquet"))
    [schema] = {str(pq.read_schema(file).remove_metadata()) for file in files}
    assert "shared_ids: int64" in schema
    assert first.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in folder.iterdir()) == [file.name for file in files]
    found = duckdb.sql(f"select _dlt_load_id, listing, pages from '{folder}/*.parquet' order by all").fetchall()
    assert found == [(load_id, listing, 1) for load_id in loads for listing in ("contacts", "templates")]


def test_a_file_with_a_column_of_its_own_keeps_it(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A file whose columns the newest file lacks is left as it is, with a warning."""
    world = begin(Emulator(3, 2), "parquet")
    world.load()
    [file] = (world.place / "letters_data/listing_audit").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.append_column("mine", [["x"] * len(rows)]), file)
    world.load()
    assert "it alone has mine" in caplog.text
    assert "mine" in pq.read_schema(file).names
