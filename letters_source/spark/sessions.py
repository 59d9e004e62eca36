"""What a Spark session can do: how many tasks it runs at once, and which URLs it reads."""

from uuid import uuid4

from letters_source.config.installation import importing_extra
from letters_source.errors import SettingsError
from letters_source.wording import reason

with importing_extra("spark"):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, IllegalArgumentException
    from pyspark.sql import SparkSession


def slots_of(spark: SparkSession) -> int | None:
    """Return how many tasks run at once on a single machine; None for a cluster, where executors come and go."""
    # Spark Connect has no context
    context = getattr(spark, "sparkContext", None)
    if not context or not context.master.startswith("local") or context.master.startswith("local-cluster"):
        return None
    # the number of cores, unless a setting overrides it
    return None if context.getConf().contains("spark.default.parallelism") else int(context.defaultParallelism)


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
