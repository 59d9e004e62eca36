"""A Spark session on two cores of this machine, whose output and event log go to files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from worlds import World

from letters_source.spark import register


@contextmanager
def start_spark(world: World, folder: Path) -> Iterator[SparkSession]:
    """A session that has the format `letters`, with the world's settings in the environment of its tasks.

    A task that fails is run once more. Output goes to `output` in the folder, events to `events`.
    """
    (folder / "events").mkdir()
    conf = SparkConf().setAll(
        [
            ("spark.master", "local[2,2]"),
            ("spark.driver.bindAddress", "127.0.0.1"),
            ("spark.driver.host", "127.0.0.1"),
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
    with pytest.MonkeyPatch.context() as patch, (folder / "output").open("wb") as output:
        # what Java starts with is what tasks find
        world.configure(patch)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
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


def written(folder: Path) -> str:
    """All that Spark wrote into the folder: output and event log."""
    files = (folder / "output", *(path for path in (folder / "events").rglob("*") if path.is_file()))
    return "".join(path.read_text(errors="replace") for path in files)
