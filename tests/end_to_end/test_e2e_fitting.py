"""Is DuckDB set for each load by what the load brings?"""

from contextlib import closing
from pathlib import Path
from typing import Any

import dlt
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials
from worlds import Begin, World

from letters_source import run
from letters_source.emulator import Emulator
from letters_source.fitting import SMALL_BYTES

EARLY, LATE = "16.0 MiB", "953.6 MiB"
"""DuckDB's own threshold for writing out its log, and dlt's 1gb as DuckDB tells it."""
ASKED = "SELECT current_setting('threads'), current_setting('checkpoint_threshold')"


@pytest.fixture
def world(begin: Begin) -> World:
    """30 contacts and 7 templates."""
    return begin(Emulator(30, 7))


def settings_after_load(pipeline: dlt.Pipeline, file: Path, **settings: Any) -> tuple[int, str]:
    """The threads of a file's database and its threshold once a load is done.

    They are lost with the last connection of a process: one is opened while pages are read, by when the file is there.
    """
    opened: list[duckdb.DuckDBPyConnection] = []

    def look_on(*_: Any) -> None:
        if not opened:
            opened.append(duckdb.connect(str(file)))

    run(pipeline, watch=look_on, **settings)
    with closing(opened[0]) as database:
        [found] = database.execute(ASKED).fetchall()
    return int(found[0]), str(found[1])


def test_few_rows_take_one_thread_and_are_written_early_unless_they_go_through_staging(world: World) -> None:
    """Only into a new file do they go straight into their tables; each load is set for itself."""
    assert settings_after_load(world.pipeline, world.place, **world.settings) == (1, EARLY)
    assert settings_after_load(world.pipeline, world.place, **world.settings) == (1, LATE)
    assert world.is_exact()


@pytest.mark.parametrize("mode", ["history", "sync"])
def test_what_is_merged_goes_through_staging_in_a_new_file_too(world: World, mode: str) -> None:
    """DuckDB would write out rows that are moved on."""
    assert settings_after_load(world.pipeline, world.place, **world.settings, **{mode: True}) == (1, LATE)


def test_many_rows_take_the_threads_that_our_destinations_have(world: World) -> None:
    """Numbers that do not compress, so that the file is as large as they are."""
    values = np.random.default_rng(1).integers(2**62, size=SMALL_BYTES // 8 + 1)
    with duckdb.connect(str(world.place)) as database:
        world.pipeline.run([pa.table({"value": values[:1000]})], table_name="few")
        assert database.execute(ASKED).fetchall() == [(1, EARLY)]
        world.pipeline.run([pa.table({"value": values})], table_name="many")
        assert database.execute(ASKED).fetchall() == [(2, EARLY)]


@pytest.mark.parametrize(
    ("config", "pragmas", "expected"),
    [
        (None, None, EARLY),
        ({"threads": 3}, None, EARLY),
        ({"threads": 3}, ["checkpoint_threshold='32MiB'"], "32.0 MiB"),
    ],
)
def test_what_users_set_for_their_own_destinations_stays(
    world: World, tmp_path: Path, config: dict[str, Any] | None, pragmas: list[str] | None, expected: str
) -> None:
    """Their threads, which are DuckDB's if they say nothing, and their pragmas."""
    credentials = DuckDbCredentials(str(tmp_path / "mine.duckdb"))
    credentials.global_config, credentials.pragmas = config, pragmas
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.duckdb(credentials), dataset_name="my_data")
    with duckdb.connect() as other:
        [(usual, _)] = other.execute(ASKED).fetchall()
    threads = config["threads"] if config else usual
    assert settings_after_load(pipeline, tmp_path / "mine.duckdb", **world.settings) == (threads, expected)
