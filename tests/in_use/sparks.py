"""A Spark session on two cores of this machine, or on a cluster of two workers; output and event log go to files."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, Timer
from types import MappingProxyType

import duckdb
import pyspark
import pytest
from holdings import Rows, in_order, parsed
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from worlds import World

from letters_source.spark import Snapshot, register, snapshot

NOTHING: Mapping[str, str] = MappingProxyType({})
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
TASK_PYTHON = Path(__file__).with_name("task_python.py")
SMALL_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Java that starts fast, with few threads, and believes the classes of Spark."""


@contextmanager
def start_spark(
    world: World, folder: Path, master: str = "local[2,2]", settings: Mapping[str, str] = NOTHING
) -> Iterator[SparkSession]:
    """A session that has the format `letters`, with the world's settings in the environment of its tasks.

    On one machine, a task that fails is run once more. Output goes to `output` in the folder, events to `events`.
    """
    (folder / "events").mkdir()
    conf = SparkConf().setAll(
        [
            ("spark.master", master),
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
            *settings.items(),
        ]
    )
    with environment_of_tasks(world, folder), (folder / "output").open("wb") as output:
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
        context = SparkContext(gateway=gateway, conf=conf)
        try:
            spark = SparkSession(context)
            register(spark)
            yield spark
        finally:
            context.stop()
            gateway.shutdown()
            # Java ends when its input does
            gateway.proc.stdin.close()
            gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def environment_of_tasks(world: World, folder: Path) -> Iterator[None]:
    """Let what Java starts with, and tasks inherit, have the world's settings, and tasks a Python that forks."""
    python = folder / "python"
    python.write_text(f"#!{sys.executable} {TASK_PYTHON}\n")
    python.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        world.configure(patch)
        patch.setenv("PYSPARK_PYTHON", str(python))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@dataclass(frozen=True)
class Cluster:
    """A standalone master and its two workers, of a core each."""

    master: str
    workers: tuple[int, ...]

    def kill_executor(self, worker: int) -> None:
        """Kill the executor of a worker, which starts another one."""
        found = ["pgrep", "-P", str(self.workers[worker]), "-f", "CoarseGrainedExecutorBackend"]
        [executor] = subprocess.check_output(found, text=True).split()
        os.kill(int(executor), signal.SIGKILL)


@contextmanager
def start_cluster(world: World, folder: Path) -> Iterator[Cluster]:
    """A cluster on loopback, whose tasks find the world's settings in their environment."""
    with environment_of_tasks(world, folder), pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("SPARK_DAEMON_MEMORY", "192m")
        patch.setenv("SPARK_DAEMON_JAVA_OPTS", SMALL_JAVA)
        options = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        _, master = stack.enter_context(start_daemon(options, r"Starting Spark master at (spark://\S+)"))
        workers = []
        # Spark runs the copy of a slow task on another host, which it knows by its name
        for host in ("127.0.0.1", "localhost"):
            options = ["org.apache.spark.deploy.worker.Worker", "--host", host, "--port", "0", "--webui-port", "0"]
            options += ["--cores", "1", "--memory", "512m", "--work-dir", str(folder / host), master]
            worker, _ = stack.enter_context(start_daemon(options, r"(Successfully registered with master)"))
            workers.append(worker)
        yield Cluster(master, tuple(workers))


@contextmanager
def start_daemon(options: list[str], ready: str) -> Iterator[tuple[int, str]]:
    """A daemon of Spark that says it is ready: its process, and what it says then. It ends with the block."""
    with subprocess.Popen([SPARK_CLASS, *options], stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr
        limit = Timer(120, daemon.kill)
        limit.start()
        said = next((found[1] for line in daemon.stderr if (found := re.search(ready, line))), None)
        limit.cancel()
        assert said, f"{options[0]} did not start."
        # it would wait for somebody to read what else it says
        Thread(target=daemon.stderr.read, daemon=True).start()
        try:
            yield daemon.pid, said
        finally:
            daemon.terminate()


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
