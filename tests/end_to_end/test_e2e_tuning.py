"""DuckDB's memory limit is enough for the rows of a load."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dlt
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials
from holdings import DATASET, change, query
from row_changes import amend
from worlds import Begin, World

from letters_source import run
from letters_source.destination.duckdb import ROW_GROUP, memory_for
from programmable_emulator import Emulator

USUAL = "76.2 MiB"
"""Our limit, as DuckDB shows 80MB."""


@pytest.fixture
def world(begin: Begin) -> World:
    """30 contacts and 7 templates."""
    return begin(Emulator(30, 7))


def memory(pipeline: dlt.Pipeline, file: Path, **settings: Any) -> str:
    """The memory limit of a file's database after a load.

    It is lost with the last connection of a process: one is opened while pages are read, by when the file is there.
    """
    with ExitStack() as stack:
        opened: list[duckdb.DuckDBPyConnection] = []

        def look_on(*_: Any) -> None:
            if not opened:
                opened.append(stack.enter_context(duckdb.connect(str(file))))

        run(pipeline, progress=look_on, **settings)
        [(found,)] = opened[0].execute("SELECT current_setting('memory_limit')").fetchall()
    return str(found)


def test_large_rows_get_more_memory(world: World) -> None:
    """A load of large rows raises DuckDB's memory limit, and succeeds."""
    assert memory(world.pipeline, world.place, **world.settings) == USUAL
    for number, template in enumerate(world.emulator.templates.ids()[:6]):
        amend(
            world.emulator.templates, template, product={"id": "1", "meta": {"design": f"{number}" + "x" * 4_000_000}}
        )
    [limit, unit] = memory(world.pipeline, world.place, **{**world.settings, "page_size": 1}).split()
    assert (float(limit) > 250, unit) == (True, "MiB")
    assert world.is_exact()
    world.place.unlink()
    world.load(page_size=1)
    assert world.is_exact()


def test_large_rows_are_published(world: World) -> None:
    """A published copy holds large rows of a user's own table."""
    world.start_loaded()
    rows = "select n, repeat(md5(n::text), 131072) as text from range(32) numbers(n)"
    change(world.place, f"create table {DATASET}.designs as {rows}")
    readers = world.place.with_name("readers.duckdb")
    world.load(publish=readers)
    assert query(readers, f"select count(*), min(length(text)) from {DATASET}.designs") == [(32, 2**22)]


@pytest.mark.parametrize(("limit", "shown"), [("80MB", USUAL), ("1GB", "953.6 MiB")], ids=["as ours", "another"])
def test_a_limit_of_users_own_stays(world: World, tmp_path: Path, limit: str, shown: str) -> None:
    """A load keeps a memory limit that the user has set, even for large rows."""
    for template in world.emulator.templates.ids():
        amend(world.emulator.templates, template, product={"id": "1", "meta": {"design": "x" * 1_000_000}})
    credentials = DuckDbCredentials(str(tmp_path / "mine.duckdb"))
    credentials.global_config = {"memory_limit": limit}
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.duckdb(credentials), dataset_name="my_data")
    assert memory(pipeline, tmp_path / "mine.duckdb", **world.settings) == shown
    assert credentials.global_config == {"memory_limit": limit}


@pytest.mark.parametrize(
    ("rows", "row_bytes", "limit"),
    [
        (1, 0, 80),
        (100_000, 300, 80),
        (100_000, 600, 80),
        (100_000, 1000, 120),
        (40_000, 2000, 432),
        (ROW_GROUP * 2, 1100, 200),
    ],
)
def test_memory_fits_large_rows(tmp_path: Path, rows: int, row_bytes: int, limit: int) -> None:
    """The memory limit grows for rows larger than 640 bytes, because DuckDB holds a whole row group."""
    file = tmp_path / "rows.parquet"
    texts = [f"{number:0{row_bytes}}" for number in range(rows)]
    pq.write_table(pa.table({"text": texts}), file, row_group_size=40_000, use_dictionary=False)
    assert memory_for([pq.read_metadata(file)]) == limit
