"""Does DuckDB write rows at once where they stay, and do its limits fit them?"""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import dlt
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials
from holdings import DATASET, change, query
from shelves import amend
from worlds import Begin, World

from letters_source import run
from letters_source.destination.writing import FEW_ROWS, ROWS_TOGETHER, limits_for
from programmable_emulator import Emulator

EARLY, LATE = "16.0 MiB", "953.6 MiB"
"""DuckDB's own threshold for writing out its log, and dlt's 1gb as DuckDB tells it."""
LITTLE, USUAL = "66.7 MiB", "114.4 MiB"
"""Our limits of its memory, 70MB where rows stay where they are written, and 120MB."""


@pytest.fixture
def world(begin: Begin) -> World:
    """30 contacts and 7 templates."""
    return begin(Emulator(30, 7))


def setting_after_load(name: str, pipeline: dlt.Pipeline, file: Path, **settings: Any) -> str:
    """A setting of a file's database once a load is done.

    It is lost with the last connection of a process: one is opened while pages are read, by when the file is there.
    """
    with ExitStack() as stack:
        opened: list[duckdb.DuckDBPyConnection] = []

        def look_on(*_: Any) -> None:
            if not opened:
                opened.append(stack.enter_context(duckdb.connect(str(file))))

        run(pipeline, watch=look_on, **settings)
        [(found,)] = opened[0].execute("SELECT current_setting(?)", [name]).fetchall()
    return str(found)


threshold = partial(setting_after_load, "checkpoint_threshold")
memory = partial(setting_after_load, "memory_limit")
threads = partial(setting_after_load, "threads")


def test_rows_are_written_early_unless_they_go_through_staging(world: World) -> None:
    """Only into a new file do they go straight into their tables; each load is set for itself."""
    assert threshold(world.pipeline, world.place, **world.settings) == EARLY
    assert threshold(world.pipeline, world.place, **world.settings) == LATE
    assert world.is_exact()


@pytest.mark.parametrize("mode", ["history", "sync"])
def test_what_is_merged_goes_through_staging_in_a_new_file_too(world: World, mode: str) -> None:
    """DuckDB would write out rows that are moved on."""
    assert threshold(world.pipeline, world.place, **world.settings, **{mode: True}) == LATE


@pytest.mark.parametrize(("pragmas", "expected"), [(None, EARLY), (["checkpoint_threshold='32MiB'"], "32.0 MiB")])
def test_destinations_of_users_own_keep_their_pragmas(
    world: World, tmp_path: Path, pragmas: list[str] | None, expected: str
) -> None:
    """They count more than ours, which do not get into the user's credentials."""
    credentials = DuckDbCredentials(str(tmp_path / "mine.duckdb"))
    credentials.pragmas = pragmas
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.duckdb(credentials), dataset_name="my_data")
    assert threshold(pipeline, tmp_path / "mine.duckdb", **world.settings) == expected
    assert credentials.pragmas == pragmas


def test_large_rows_find_room(world: World) -> None:
    """Two dozen megabytes in six rows do not fit into the limit that millions of small ones need."""
    assert memory(world.pipeline, world.place, **world.settings) == LITTLE
    assert memory(world.pipeline, world.place, **world.settings) == USUAL
    for number, template in enumerate(world.emulator.templates.ids()[:6]):
        amend(world.emulator.templates, template, product={"id": "1", "meta": {"design": f"{number} " * 2_000_000}})
    [limit, unit] = memory(world.pipeline, world.place, page_size=1, **world.settings).split()
    assert (float(limit) > 250, unit) == (True, "MiB")
    assert world.is_exact()
    world.place.unlink()
    world.load(page_size=1)
    assert world.is_exact()


def test_large_rows_are_published(world: World) -> None:
    """A copy takes the memory that it needs, here for a table of the user's own."""
    world.load()
    rows = "select n, repeat(md5(n::text), 131072) as text from range(48) numbers(n)"
    change(world.place, f"create table {DATASET}.designs as {rows}")
    readers = world.place.with_name("readers.duckdb")
    world.load(publish=readers)
    assert query(readers, f"select count(*), min(length(text)) from {DATASET}.designs") == [(48, 2**22)]


@pytest.mark.parametrize(
    ("limit", "shown", "number"), [("120MB", USUAL, 2), ("1GB", "953.6 MiB", 3)], ids=["as ours", "another"]
)
def test_a_limit_of_users_own_stays(world: World, tmp_path: Path, limit: str, shown: str, number: int) -> None:
    """Theirs is neither raised nor lowered: they know what else their machine has to do."""
    for template in world.emulator.templates.ids():
        amend(world.emulator.templates, template, product={"id": "1", "meta": {"design": "x" * 1_000_000}})
    credentials = DuckDbCredentials(str(tmp_path / "mine.duckdb"))
    credentials.global_config = {"memory_limit": limit, "threads": number}
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.duckdb(credentials), dataset_name="my_data")
    assert memory(pipeline, tmp_path / "mine.duckdb", **world.settings) == shown
    assert threads(pipeline, tmp_path / "mine.duckdb", **world.settings) == str(number)


def test_few_rows_are_written_by_one_thread(world: World) -> None:
    """Into a new file and through staging."""
    assert threads(world.pipeline, world.place, **world.settings) == "1"
    assert threads(world.pipeline, world.place, **world.settings) == "1"
    assert world.is_exact()


def parquet(file: Path, rows: int, row_bytes: int = 0, large: slice = slice(0)) -> pq.FileMetaData:
    """What is known of a file of that many rows, in groups of 40,000, some of which hold so many bytes each."""
    texts = [""] * rows
    texts[large] = [f"{number:0{row_bytes}}" for number in range(rows)[large]]
    pq.write_table(pa.table({"text": texts}), file, row_group_size=40_000, use_dictionary=False)
    return pq.read_metadata(file)


@pytest.mark.parametrize(("rows", "limits"), [(FEW_ROWS, {"threads": 1}), (FEW_ROWS + 1, {})])
def test_a_file_of_many_rows_is_written_by_two(tmp_path: Path, rows: int, limits: dict[str, Any]) -> None:
    """However few the others have."""
    files = [parquet(tmp_path / "one.parquet", 1), parquet(tmp_path / "many.parquet", rows)]
    assert limits_for(files, staged=True) == limits


@pytest.mark.parametrize(
    ("rows", "row_bytes", "large", "limit"),
    [
        (100_000, 300, slice(None), "70MB"),
        (100_000, 400, slice(None), None),
        (100_000, 400, slice(50_000, 54_000), "70MB"),
        (100_000, 1600, slice(40_000, 60_000), None),
        (40_000, 2000, slice(None), "432MB"),
        (ROWS_TOGETHER * 2, 1100, slice(None), "200MB"),
    ],
)
def test_memory_fits_the_rows_that_lie_together(
    tmp_path: Path, rows: int, row_bytes: int, large: slice, limit: str | None
) -> None:
    """The usual limit is for rows of up to 1,024 bytes, a smaller one for those of a third that stay where they are."""
    file = parquet(tmp_path / "rows.parquet", rows, row_bytes, large)
    assert limits_for([file], staged=False).get("memory_limit") == limit
    assert limits_for([file], staged=True).get("memory_limit") == (limit if limit != "70MB" else None)
