"""One huge listing is read in ranges by several tasks of Spark, and published whole or not at all."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from holdings import LISTED, held_tables
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sparks import start_spark, written
from worlds import ACCESS, REFRESH, World, serve_world

from letters_source import IncompleteListing
from letters_source.spark import Snapshot, snapshot
from programmable_emulator import Behavior, Drift, Emulator


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """2,000 contacts, in pages of 50 at most."""
    with serve_world(tmp_path_factory.mktemp("world"), emulator=Emulator(2_000, 3)) as world:
        yield world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(world: World, folder: Path) -> Iterator[SparkSession]:
    """A session for all tests of the module."""
    with start_spark(world, folder) as spark:
        yield spark


def take(spark: SparkSession, world: World, to: Path, **options: str) -> Snapshot:
    """A snapshot of contacts in four ranges."""
    return snapshot(spark, "contacts", str(to), 4, base_url=world.settings["base_url"], page_size="50", **options)


def test_a_snapshot_has_the_rows_of_the_service(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """Each table has the rows that a load has; the manifest names them, and staged files are gone."""
    done = take(spark, world, tmp_path)
    print(done)
    assert (done.verdict, done.rows) == ("stable", 2_000)
