"""Does DuckDB write rows at once where they stay where they are written?"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dlt
import duckdb
import pytest
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials
from worlds import Begin, World

from letters_source import run
from letters_source.emulator import Emulator

EARLY, LATE = "16.0 MiB", "953.6 MiB"
"""DuckDB's own threshold for writing out its log, and dlt's 1gb as DuckDB tells it."""


@pytest.fixture
def world(begin: Begin) -> World:
    """30 contacts and 7 templates."""
    return begin(Emulator(30, 7))


def threshold_after_load(pipeline: dlt.Pipeline, file: Path, **settings: Any) -> str:
    """The threshold of a file's database once a load is done.

    It is lost with the last connection of a process: one is opened while pages are read, by when the file is there.
    """
    with ExitStack() as stack:
        opened: list[duckdb.DuckDBPyConnection] = []

        def look_on(*_: Any) -> None:
            if not opened:
                opened.append(stack.enter_context(duckdb.connect(str(file))))

        run(pipeline, watch=look_on, **settings)
        [(found,)] = opened[0].execute("SELECT current_setting('checkpoint_threshold')").fetchall()
    return str(found)


def test_rows_are_written_early_unless_they_go_through_staging(world: World) -> None:
    """Only into a new file do they go straight into their tables; each load is set for itself."""
    assert threshold_after_load(world.pipeline, world.place, **world.settings) == EARLY
    assert threshold_after_load(world.pipeline, world.place, **world.settings) == LATE
    assert world.is_exact()


@pytest.mark.parametrize("mode", ["history", "sync"])
def test_what_is_merged_goes_through_staging_in_a_new_file_too(world: World, mode: str) -> None:
    """DuckDB would write out rows that are moved on."""
    assert threshold_after_load(world.pipeline, world.place, **world.settings, **{mode: True}) == LATE


@pytest.mark.parametrize(("pragmas", "expected"), [(None, EARLY), (["checkpoint_threshold='32MiB'"], "32.0 MiB")])
def test_destinations_of_users_own_keep_their_pragmas(
    world: World, tmp_path: Path, pragmas: list[str] | None, expected: str
) -> None:
    """They count more than ours, which do not get into the user's credentials."""
    credentials = DuckDbCredentials(str(tmp_path / "mine.duckdb"))
    credentials.pragmas = pragmas
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.duckdb(credentials), dataset_name="my_data")
    assert threshold_after_load(pipeline, tmp_path / "mine.duckdb", **world.settings) == expected
    assert credentials.pragmas == pragmas
