"""What a Spark session can do: how many tasks it runs at once, and which URLs it reads."""

import shutil
import subprocess  # nosec B404
import sys
from uuid import uuid4

from letters_source.config.installation import importing_extra
from letters_source.errors import SettingsError
from letters_source.wording import reason

with importing_extra("spark"):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, IllegalArgumentException
    from pyspark.sql import SparkSession

LACKING = 42
"""The exit code of a Python that does not find the package; any other may be that of a wrapper."""


def slots_of(spark: SparkSession) -> int | None:
    """Return how many tasks run at once on a single machine; None for a cluster, where executors come and go."""
    # Spark Connect has no context
    context = getattr(spark, "sparkContext", None)
    if not context or not context.master.startswith("local") or context.master.startswith("local-cluster"):
        return None
    # the number of cores, unless a setting overrides it
    return None if context.getConf().contains("spark.default.parallelism") else int(context.defaultParallelism)


def check_python(spark: SparkSession) -> None:
    """Raise SettingsError if the Python of tasks on this machine lacks the package."""
    context = getattr(spark, "sparkContext", None)
    if context and context.master.startswith("local"):
        check_has_package(context.pythonExec)


def check_has_package(python: str) -> None:
    """Raise SettingsError if a Python, which Spark starts by this name, does not find the package."""
    found, name = shutil.which(python), __name__.partition(".")[0]
    if found in (None, sys.executable):
        return
    code = f"import importlib.util as util, sys; sys.exit({LACKING} * (util.find_spec({name!r}) is None))"
    # Spark starts the same program for each task
    done = subprocess.run([python, "-c", code], check=False, capture_output=True)  # noqa: S603  # nosec B603
    if done.returncode == LACKING:
        raise SettingsError(
            f"Spark runs its tasks with {found}, which does not have {name}: set PYSPARK_PYTHON to {sys.executable} "
            "before the session starts."
        )


def check_readable(spark: SparkSession, to: str) -> None:
    """Raise SettingsError if Spark cannot read a URL, for lack of a library or of credentials."""
    try:
        if "://" in to:
            spark.read.parquet(f"{spark_url(to)}/{uuid4().hex}")
    except AnalysisException:
        return  # the folder is not there, so Spark has looked for it
    except (Py4JJavaError, IllegalArgumentException) as error:
        why = error.java_exception if isinstance(error, Py4JJavaError) else reason(error)
        advice = "; add hadoop-aws to spark.jars.packages" if to.startswith("s3") else ""
        raise SettingsError(f"Spark cannot read {to}: {why}{advice}.", key="to") from None


def spark_url(url: str) -> str:
    """Return a URL as Spark knows it."""
    return f"s3a{url[2:]}" if url.startswith("s3://") else url
