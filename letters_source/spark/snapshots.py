"""Snapshots of a huge listing: all executors read ranges of it, the driver judges them and publishes Parquet files."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

import msgspec
from pyarrow.fs import FileSelector

from letters_source.config.installation import importing_extra
from letters_source.config.text_options import to_overrides
from letters_source.decode.row_schema import RAW, row_schema
from letters_source.errors import IncompleteListing, SettingsError, UnusableFile
from letters_source.extract.parts.reading import plan_listing
from letters_source.extract.parts.storage import Parts, part_in
from letters_source.extract.past_end import check_linked
from letters_source.extract.task import Task
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault, is_still
from letters_source.pagination.ranges import read_linked
from letters_source.pagination.readings import NUL
from letters_source.pagination.verdicts import VerdictName
from letters_source.pagination.windows import NotContinuous
from letters_source.spark.sessions import check_readable, slots_of, spark_url
from letters_source.spark.stages import Stage, parts_of

with importing_extra("spark"):
    from pyspark.sql import DataFrame, SparkSession, Window
    from pyspark.sql import functions as f


@dataclass(slots=True, eq=False)
class Jobs:
    """Runs the jobs of a snapshot, and keeps the file of each range and when it was read."""

    spark: SparkSession
    parts: Parts
    options: Mapping[str, str]
    found: dict[Evidence, tuple[str, datetime]] = field(default_factory=dict)

    def linked(self, ranges: Sequence[Range]) -> tuple[Evidence, ...]:
        """Read ranges and what is missing between them, or raise `IncompleteListing`."""
        try:
            return read_linked(self.read, ranges)
        except NotContinuous as error:
            newest = max(self.found, key=lambda evidence: self.found[evidence][1])
            received = self.rows(tuple(self.found)).select("key").distinct().count()
            raise IncompleteListing(
                self.parts.task.title, str(error), count=newest.count, received=received, walks=1
            ) from None

    def read(self, ranges: Sequence[Range]) -> list[Evidence]:
        """Read ranges side by side; see `ReadRanges`."""
        at_once = min(len(ranges), slots_of(self.spark) or len(ranges))
        files = self.write(self.spark.range(0, len(ranges), 1, len(ranges)), tuple(ranges), at_once)
        read = [(path, part_in(self.parts, path)) for _, path in files]
        self.found.update((part.evidence, (path, part.started_at)) for path, part in read)
        return [part.evidence for _, part in read]

    def write(self, rows: DataFrame, ranges: tuple[Range, ...] = (), at_once: int = 1) -> list[tuple[str, str]]:
        """Write rows, or the ranges that they number, and return the committed files."""
        committed = f"{uuid4().hex}.json"
        stage = Stage(self.parts.task.name, self.parts.url, committed, ranges, at_once)
        sent = {**self.options, "stage": msgspec.json.encode(stage).decode()}
        rows.write.format("letters").options(**sent).mode("append").save()
        return self.parts.decode(f"{self.parts.folder}/{committed}", list[tuple[str, str]])

    def rows(self, linked: Sequence[Evidence]) -> DataFrame:
        """Return the staged rows, each with its key, the place of its range, and when that was read."""
        files = [(*self.found[evidence], place) for place, evidence in enumerate(linked)]
        named = {path.rpartition("/")[2]: (read_at, place) for path, read_at, place in files}
        # createDataFrame would import pandas where it is installed
        values = ", ".join(f"('{name}', timestamp '{at.isoformat()}', {place})" for name, (at, place) in named.items())
        places = self.spark.sql(f"SELECT * FROM VALUES {values} AS places(file, read_at, place)")
        staged = self.spark.read.parquet(*(f"{spark_url(self.parts.url)}/{name}" for name in named))
        key = f.coalesce("id", f.concat(f.lit(NUL), RAW))
        return staged.withColumns({"key": key, "file": f.col("_metadata.file_name")}).join(f.broadcast(places), "file")

    def publish(self, rows: DataFrame) -> dict[str, list[str]]:
        """Write the tables of staged rows, each row as it was read last; return the URLs of each table's files."""
        newest = Window.partitionBy("key").orderBy(f.desc("read_at"), f.desc("place"))
        kept = rows.withColumn("age", f.row_number().over(newest)).where("age = 1")
        written = self.write(kept.select(row_schema(self.parts.task.name).names))
        # staged files, and those of attempts that Spark did not commit, are deleted
        self.parts.keep({path for _, path in written})
        files: dict[str, list[str]] = defaultdict(list)
        for table, path in written:
            files[table].append(f"{spark_url(self.parts.url)}{path.removeprefix(self.parts.folder)}")
        return files


@dataclass(frozen=True)
class Snapshot:
    """A listing that was published: its verdict, the number of its rows, and the Parquet files of each table."""

    verdict: VerdictName
    rows: int
    files: dict[str, list[str]]


def snapshot(spark: SparkSession, listing: str, to: str, parts: int = 16, **options: str) -> Snapshot:
    """Read one huge listing in ranges by all executors, and publish its tables as Parquet files in the folder `to`.

    The manifest `<listing>.json` in `to` lists the files; it is written last, so readers see the former snapshot or
    this one. `to` is a path or URL that the driver and all executors reach; `options` are those of the format.

    Raises:
        SettingsError: Spark cannot read `to`; nothing was requested.
        IncompleteListing: the ranges do not prove that no row was missed; nothing was published.
    """
    check_readable(spark, to)
    home = parts_of(listing, to, to_overrides(options))
    outdated = find_outdated(home)
    jobs = Jobs(spark, Parts.of(home.task, f"{home.url}/{listing}-{uuid4().hex[:12]}"), options)
    try:
        linked = jobs.linked(plan_listing(home.task, parts))
        check_linked(home.task, linked)
        rows = jobs.rows(linked)
        done = Snapshot(*judge(home.task, linked, rows), jobs.publish(rows))
        home.write(f"{home.folder}/{listing}.json", msgspec.json.encode(done))
    except BaseException:
        with suppress(OSError):
            jobs.parts.remove()
        raise
    # what cannot be deleted now is deleted after the next snapshot
    with suppress(OSError):
        for folder in outdated:
            home.files.delete_dir(folder)
    return done


def read_snapshot(spark: SparkSession, listing: str, to: str, table: str) -> DataFrame:
    """Return a table of the newest snapshot of a listing in the folder `to`."""
    home = parts_of(listing, to, {})
    files = home.decode(f"{home.folder}/{listing}.json", Snapshot).files
    if table not in files:
        raise SettingsError(f"table must be one of {', '.join(files)}, got {table!r}.", key="table")
    return spark.read.parquet(*files[table])


def find_outdated(home: Parts) -> list[str]:
    """Return the folders of a listing's snapshots but that of the published one, which readers may have open."""
    manifest = f"{home.folder}/{home.task.name}.json"
    try:
        published = home.decode(manifest, Snapshot).files if home.exists(manifest) else {}
    except UnusableFile:
        # a damaged manifest does not tell, and the next one replaces it
        return []
    open_names = {url.split("/")[-3] for urls in published.values() for url in urls}
    name = re.compile(rf"{home.task.name}-[0-9a-f]{{12}}")
    found = home.files.get_file_info(FileSelector(home.folder, allow_not_found=True))
    return [info.path for info in found if name.fullmatch(info.base_name) and info.base_name not in open_names]


def judge(task: Task, linked: Sequence[Evidence], rows: DataFrame) -> tuple[VerdictName, int]:
    """Return the verdict on staged ranges and the number of different rows, or raise `IncompleteListing`."""
    behind = f.when(f.col("place") > 0, f.col("place"))
    spans = rows.groupBy("key").agg((f.max(behind) - f.min(behind) + 1 != f.count_distinct(behind)).alias("displaced"))
    is_displaced = f.col("displaced") & ~f.col("key").startswith(NUL)
    [listed] = spans.agg(f.count("*"), f.count_if(is_displaced)).collect()
    fault = find_fault(linked, Listed(*listed))
    if fault:
        raise IncompleteListing(task.title, fault, count=linked[0].count, received=listed[0], walks=1)
    return "stable" if is_still(linked, listed[0]) else "continuous", listed[0]
