"""On a cluster whose executor is killed, no row of a table is lost and none is there twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from holdings import Rows, held_tables, in_order, parsed
from pyspark.sql import SparkSession
from shelves import retrait
from sparks import SMALL_JAVA, Cluster, read_table, start_cluster, start_spark, written
from worlds import World, serve_world

from programmable_emulator import Emulator, Hold, When

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}

pytestmark = pytest.mark.usefixtures("usual_service")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """2,000 contacts of the accounts A and B in turn, in pages of 50."""
    emulator = Emulator(2_000, 1)
    for number, row_id in enumerate(emulator.contacts.ids()):
        retrait(emulator.contacts, row_id, account_id="AB"[number % 2])
    with serve_world(tmp_path_factory.mktemp("world"), emulator=emulator) as world:
        world.settings["page_size"] = 50
        yield world


@pytest.fixture(scope="module")
def cluster(world: World, spark_folder: Path) -> Iterator[Cluster]:
    """A cluster for all tests here."""
    with start_cluster(world, spark_folder) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(world: World, cluster: Cluster, spark_folder: Path) -> Iterator[SparkSession]:
    """A session on the cluster, on both of whose executors a task has run."""
    with start_spark(world, spark_folder, cluster.master, SETTINGS) as spark:
        read_table(spark, world, "contacts", accounts="A,B", page_size=1_000).count()
        yield spark


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A thread for what waits for the test."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def wait_for(*holds: Hold) -> None:
    """Wait until all requests have come."""
    for hold in holds:
        assert hold.arrived.wait(300), hold.when


def lost_tasks(folder: Path) -> int:
    """The number of tasks that were lost with their executor so far."""
    return written(folder).count('"Reason":"ExecutorLostFailure"')


def test_a_table_is_whole_though_an_executor_is_killed(
    spark: SparkSession, world: World, cluster: Cluster, spark_folder: Path, pool: ThreadPoolExecutor
) -> None:
    """Its task is run again by another executor, and its rows are there once."""
    frame, lost = read_table(spark, world, "contacts", accounts="A,B", page_size=50), lost_tasks(spark_folder)
    with world.emulator.hold(When("contacts", page=3), When("contacts", page=3)) as holds:
        reading = pool.submit(lambda: frame.toArrow().to_pylist())
        wait_for(*holds)
        cluster.kill_executor(0)
    rows: Rows = [parsed(row) for row in reading.result()]
    accounts = {row["id"]: row.pop("account_id") for row in rows}
    assert in_order("contacts", rows) == held_tables(world.emulator)["contacts"]
    assert accounts == {row.id: row.traits.account_id for row in world.emulator.contacts.rows()}
    assert lost_tasks(spark_folder) - lost == 1
