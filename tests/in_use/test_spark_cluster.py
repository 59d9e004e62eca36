"""On a cluster that loses executors and runs slow tasks twice, no row is lost and none is there twice."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from holdings import Rows, held_tables, in_order, parsed
from py4j.java_gateway import JavaGateway
from pyspark.sql import DataFrame, SparkSession
from shelves import retrait
from sparks import (
    SMALL_JAVA,
    Cluster,
    published,
    read_table,
    start_cluster,
    start_java,
    start_session,
    take,
    written,
)
from worlds import World, serve_world

from letters_source.spark import Snapshot
from programmable_emulator import Emulator, Hold, When

TABLES = ("contacts", "contacts__contact_labels")
LAST_WINDOW = When("contacts", page=41, query="pageSize=48")
"""The end of the last of four ranges, which no other range reads."""
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}

LOST = '"Reason":"ExecutorLostFailure"'

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
def java(world: World, spark_folder: Path) -> Iterator[JavaGateway]:
    """The Java of the driver and of the cluster."""
    with start_java(world, spark_folder, SETTINGS) as java:
        yield java


@pytest.fixture(scope="module")
def cluster(java: JavaGateway, spark_folder: Path) -> Cluster:
    """A cluster for all tests here."""
    return start_cluster(java, spark_folder)


@pytest.fixture(scope="module")
def spark(world: World, java: JavaGateway, cluster: Cluster) -> Iterator[SparkSession]:
    """A session on the cluster, on both of whose executors a task has run."""
    with start_session(java, cluster.master) as spark:
        read_table(spark, world, "contacts", accounts="A,B", page_size=1_000).count()
        yield spark


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for what waits for requests."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def one_task_lost(spark: SparkSession, spark_folder: Path) -> Iterator[None]:
    """Raise unless one task was lost with its executor."""
    before = written(spark_folder).count(LOST)
    yield
    assert written(spark_folder).count(LOST) - before == 1


def lose_executor(cluster: Cluster, worker: int, holds: Sequence[Hold]) -> None:
    """Kill an executor while all requests are held, then release them."""
    release(holds, lambda: cluster.kill_executor(worker))


def release(holds: Sequence[Hold], before: Callable[[], object] = lambda: None) -> None:
    """Release requests once all have come and something else is done."""
    try:
        for hold in holds:
            assert hold.arrived.wait(300), hold.when
        before()
    finally:
        for hold in holds:
            hold.released.set()


def check_table(frame: DataFrame, world: World) -> None:
    """Raise if the contacts of both accounts are not what the service holds."""
    rows: Rows = [parsed(row) for row in frame.toArrow().to_pylist()]
    accounts = {row["id"]: row.pop("account_id") for row in rows}
    assert in_order("contacts", rows) == held_tables(world.emulator)["contacts"]
    assert accounts == {row.id: row.traits.account_id for row in world.emulator.contacts.rows()}


def check_snapshot(done: Snapshot, world: World, to: Path) -> None:
    """Raise if a snapshot is not what the service holds, or if there is anything but it and its manifest."""
    held, shown = held_tables(world.emulator), published(done)
    assert (done.verdict, done.rows) == ("stable", 2_000)
    assert {name: shown[name] for name in TABLES} == {name: held[name] for name in TABLES}
    files = {Path(name.removeprefix("file://")) for names in done.files.values() for name in names}
    assert {path for path in to.rglob("*") if path.is_file()} == {to / "contacts.json", *files}


@pytest.mark.usefixtures("one_task_lost")
def test_a_table_is_whole_though_an_executor_is_killed(
    spark: SparkSession, world: World, cluster: Cluster, pool: ThreadPoolExecutor
) -> None:
    """Another executor runs the lost task again, and each row is there once."""
    frame = read_table(spark, world, "contacts", accounts="A,B", page_size=50)
    with world.emulator.hold(When("contacts", page=3), When("contacts", page=3)) as holds:
        losing = pool.submit(lose_executor, cluster, 0, holds)
        check_table(frame, world)
    losing.result()


@pytest.mark.usefixtures("one_task_lost")
def test_a_snapshot_is_whole_though_an_executor_is_killed(
    spark: SparkSession, world: World, cluster: Cluster, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """A snapshot has every row once though an executor was killed and two attempts finished at once."""
    ranges = When("contacts", page=3), When("contacts", page=15)
    with world.emulator.hold(*ranges, LAST_WINDOW, LAST_WINDOW) as holds:
        losing = pool.submit(lose_executor, cluster, 1, holds[:2])
        # both attempts get the end of the range at the same moment, and may both write a file
        releasing = pool.submit(release, holds[2:])
        check_snapshot(take(spark, world, tmp_path), world, tmp_path)
    losing.result()
    releasing.result()


def test_a_slow_task_of_a_table_is_overtaken(spark: SparkSession, world: World) -> None:
    """A table has every row once though the first attempt of a task still waits for the service."""
    frame = read_table(spark, world, "contacts", accounts="A,B", page_size=50)
    with world.emulator.hold(When("contacts", page=3, query="account_id=A")) as [first]:
        check_table(frame, world)
        assert (first.arrived.is_set(), first.released.is_set()) == (True, False)


def test_a_slow_range_is_overtaken(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """The snapshot is published while the first attempt still waits for the service, which leaves nothing."""
    with world.emulator.hold(LAST_WINDOW) as [first]:
        check_snapshot(take(spark, world, tmp_path), world, tmp_path)
        assert (first.arrived.is_set(), first.released.is_set()) == (True, False)
