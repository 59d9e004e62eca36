"""Spark's Java, sessions of it, and a cluster of two workers; output and event log go to files."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import duckdb
import pyspark
import pytest
from holdings import Rows, in_order, parsed
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from worlds import World

from letters_source.spark import Snapshot, register, snapshot

NOTHING: Mapping[str, str] = MappingProxyType({})
HOSTS = ("127.0.0.1", "localhost")
"""The hosts of a cluster's workers: Spark runs the copy of a slow task on another host, which it knows by its name."""
TASK_PYTHON = Path(__file__).with_name("task_python.py")
SMALL_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Java that starts fast, with few threads, and believes the classes of Spark."""


@contextmanager
def start_java(world: World, folder: Path) -> Iterator[JavaGateway]:
    """Spark's Java, with the world's settings in the environment of its tasks.

    Output goes to `output` in the folder, events to `events`.
    """
    (folder / "events").mkdir()
    conf = SparkConf().setAll(
        [
            ("spark.app.name", "letters"),
            ("spark.driver.bindAddress", "127.0.0.1"),
            ("spark.driver.host", "127.0.0.1"),
            ("spark.driver.extraJavaOptions", SMALL_JAVA),
            ("spark.ui.enabled", "false"),
            ("spark.eventLog.enabled", "true"),
            ("spark.eventLog.dir", (folder / "events").as_uri()),
            ("spark.eventLog.compress", "false"),
            ("spark.local.dir", str(folder)),
            ("spark.sql.warehouse.dir", str(folder / "warehouse")),
            ("spark.sql.session.timeZone", "UTC"),
            ("spark.sql.shuffle.partitions", "2"),
        ]
    )
    with environment_of_tasks(world, folder), (folder / "output").open("wb") as output:
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
        try:
            yield gateway
        finally:
            gateway.shutdown()
            # Java ends when its input does
            gateway.proc.stdin.close()
            gateway.proc.wait()


@contextmanager
def start_session(java: JavaGateway, master: str, settings: Mapping[str, str] = NOTHING) -> Iterator[SparkSession]:
    """A session that has the format `letters`."""
    conf = SparkConf().setMaster(master).setAll([*settings.items()])
    spark = SparkSession(SparkContext(conf=conf, gateway=java))
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def environment_of_tasks(world: World, folder: Path) -> Iterator[None]:
    """Let what Java starts with, and tasks inherit, have the world's settings, and tasks a Python that forks."""
    place, python = folder / "forks", folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {TASK_PYTHON} ask {place} "$@"\n')
    python.chmod(0o700)
    with serve_forks(place), pytest.MonkeyPatch.context() as patch:
        world.configure(patch)
        patch.setenv("PYSPARK_PYTHON", str(python))
        patch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
        patch.setenv("SPARK_LAUNCHER_OPTS", SMALL_JAVA)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@contextmanager
def serve_forks(place: Path) -> Iterator[None]:
    """Fork a daemon of Spark for each connection to a socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        command = [sys.executable, str(TASK_PYTHON), "serve", str(listening.fileno())]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, pass_fds=[listening.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        ) as server:
            try:
                yield
            finally:
                server.terminate()


@dataclass(frozen=True)
class Cluster:
    """A standalone master and its two workers, of a core each, in the process of Spark's driver."""

    master: str
    driver: int

    def kill_executor(self) -> None:
        """Kill the executor of the first worker, which starts another one."""
        backend = f"CoarseGrainedExecutorBackend .*--hostname {HOSTS[0]} "
        found = ["pgrep", "-P", str(self.driver), "-f", backend]
        [executor] = subprocess.check_output(found, text=True).split()
        os.kill(int(executor), signal.SIGKILL)


def start_cluster(java: JavaGateway, folder: Path) -> Cluster:
    """Start a cluster on loopback, whose executors are processes of their own, as `local-cluster` does."""
    deploy, conf = java.jvm.org.apache.spark.deploy, java.jvm.org.apache.spark.SparkConf()
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().toSparkURL()
    masters = java.new_array(java.jvm.String, 1)
    masters[0] = master
    some, none = java.jvm.scala.Option.apply, java.jvm.scala.Option.empty()
    for number, host in enumerate(HOSTS):
        place = str(folder / host)
        deploy.worker.Worker.startRpcEnvAndEndpoint(host, 0, 0, 1, 512, masters, place, some(number), conf, none)
    return Cluster(master, java.proc.pid)


def read_table(spark: SparkSession, world: World, table: str, **options: object) -> DataFrame:
    """A table of the world's service, in pages of 10 rows."""
    given = {"table": table, "base_url": world.settings["base_url"], "page_size": 10, **options}
    return spark.read.format("letters").options(**{name: str(value) for name, value in given.items()}).load()


def failure(frame: DataFrame) -> str:
    """The error that reading a table ends with, as Spark quotes it."""
    with pytest.raises(PySparkException) as caught:
        frame.count()
    lines = str(caught.value).splitlines()
    return next(line.strip() for line in lines if line.strip().startswith("letters_source.errors."))


def take(spark: SparkSession, world: World, to: Path | str, **options: str) -> Snapshot:
    """A snapshot of contacts in four ranges."""
    return snapshot(spark, "contacts", str(to), 4, base_url=world.settings["base_url"], **options)


def published(done: Snapshot) -> dict[str, Rows]:
    """The rows of each table of a snapshot."""
    found = {}
    for table, files in done.files.items():
        rows = duckdb.sql(f"SELECT * FROM read_parquet({[name.removeprefix('file://') for name in files]})")
        found[table] = in_order(table, [parsed(dict(zip(rows.columns, row, strict=True))) for row in rows.fetchall()])
    return found


def written(folder: Path) -> str:
    """Return all that Spark wrote into the folder: output and event log."""
    files = (folder / "output", *(path for path in (folder / "events").rglob("*") if path.is_file()))
    return "".join(path.read_text(errors="replace") for path in files)
