"""Reads listings in Spark: a table in `spark.read.format("letters")`, one huge listing by `snapshot`.

A task reads a whole listing, or a range of it into a file of its own, so Spark may run a task twice. Spark shows
options and sends them around, so secrets are refused.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar, cast
from uuid import uuid4

import msgspec
import pyarrow as pa
from msgspec import Meta
from pyarrow.fs import FileSelector

from letters_source.config.installation import importing_extra
from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Key, Overrides, Settings
from letters_source.config.text_options import convert_option, to_overrides
from letters_source.decode.row_schema import RAW, row_schema
from letters_source.errors import IncompleteListing, SettingsError
from letters_source.extract.one_table import read_table
from letters_source.extract.parts import Parts, part_in, plan_listing, read_into, write_tables
from letters_source.extract.probe import check_apart
from letters_source.extract.task import LoadContext, Task, listing_named, listing_task
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault, is_still
from letters_source.pagination.ranges import read_linked
from letters_source.pagination.readings import NUL
from letters_source.pagination.verdicts import VerdictName
from letters_source.pagination.windows import NotContinuous
from letters_source.service.listings import LISTINGS, Texts
from letters_source.tables import LISTING_AUDIT, MAILINGS, TABLES, Column, Table

with importing_extra("spark"):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession, Window
    from pyspark.sql import functions as f
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

__all__ = ["Snapshot", "read_snapshot", "register", "snapshot"]

# loads collect mailings day by day, because the service reports only the last one: a DataFrame would hold no others
READABLE = {table.name: table for table in TABLES if table.name != MAILINGS.name}
ABOUT_LOADS = ["allow_empty", "max_shrink", "allow_other_service", "lock_wait", "resume", "resume_for", "parts"]
ABOUT_LOADS += ["facets", "history", "sync", "mailings", "mailings_since", "mailings_lag", "mailings_window"]
ACCOUNTS = Key("accounts", Texts, Meta())
ACCOUNT = Column("account_id", "", "The account of the row.", required=True)
"""The first column if the option `accounts` is set, as in the views that combine accounts."""


def register(spark: SparkSession) -> None:
    """Let a session read the format `letters`."""

    class Registered(LettersDataSource):
        slots = slots_of(spark)

    spark.dataSource.register(Registered)


def slots_of(spark: SparkSession) -> int | None:
    """Return how many tasks run at once on a single machine; None for a cluster, where executors come and go."""
    # Spark Connect has no context
    context = getattr(spark, "sparkContext", None)
    if not context or not context.master.startswith("local") or context.master.startswith("local-cluster"):
        return None
    # the number of cores, unless a setting overrides it
    return None if context.getConf().contains("spark.default.parallelism") else int(context.defaultParallelism)


class LettersDataSource(DataSource):
    """The format `letters`; `register` adds it to a session."""

    slots: ClassVar[int | None] = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "letters"

    def schema(self) -> StructType:
        """Return the table's columns, with their descriptions as comments."""
        selection = to_selection(self.options)
        first = (ACCOUNT,) if selection.has_account_column else ()
        return StructType(
            [
                StructField(one.name, from_arrow_type(one.field.type), one.nullable, {"comment": one.description})
                for one in (*first, *selection.table.columns)
            ]
        )

    def reader(self, schema: StructType) -> "LettersReader":  # noqa: ARG002 -- Spark's signature
        """Return what reads the table."""
        return LettersReader(to_selection(self.options), self.slots)

    def writer(self, schema: StructType, overwrite: bool) -> "StageWriter":  # noqa: ARG002, FBT001 -- Spark's signature
        """Return what a job of `snapshot` writes with; the format is for reading otherwise."""
        options = dict(self.options)
        stage = options.pop("stage", None)
        if stage is None:
            raise SettingsError(
                "the format letters cannot be written; letters_source.spark.snapshot publishes listings."
            )
        return StageWriter(msgspec.json.decode(stage, type=Stage), to_overrides(options))


@dataclass(frozen=True)
class TableSelection:
    """What the options select: a table, accounts (none for the token's own), and settings."""

    table: Table
    accounts: tuple[str, ...]
    overrides: Overrides

    @property
    def has_account_column(self) -> bool:
        """Whether rows begin with their account; the audit has such a column anyway."""
        return bool(self.accounts) and self.table.name != LISTING_AUDIT.name


def to_selection(options: Mapping[str, str]) -> TableSelection:
    """Return what the options select, or raise `SettingsError`."""
    settings = dict(options)
    name, texts = settings.pop("table", ""), settings.pop("accounts", None)
    if misplaced := [option for option in ABOUT_LOADS if option in settings]:
        raise SettingsError(f"option {misplaced[0]} is about loads, and Spark only reads; leave it out.")
    if name not in READABLE:
        raise SettingsError(f"option table must be one of {', '.join(READABLE)}, got {name!r}.")
    accounts = () if texts is None else tuple(dict.fromkeys(convert_option("accounts", ACCOUNTS, texts)))
    if texts is not None and ("account_id" in settings or not accounts):
        raise SettingsError("option accounts must name at least one account, and excludes account_id.")
    return TableSelection(READABLE[name], accounts, to_overrides(settings))


@dataclass(frozen=True)
class ListingPartition(InputPartition):
    """A listing of an account, which one task reads, and how many tasks read at once."""

    listing: str
    account: str | None
    at_once: int


@dataclass(frozen=True)
class LettersReader(DataSourceReader):
    """Reads a table, in a partition for each listing of each account."""

    selection: TableSelection
    slots: int | None

    def partitions(self) -> list[ListingPartition]:
        """Return the partitions; called once for each DataFrame."""
        accounts, listing = self.selection.accounts or (None,), self.selection.table.listing
        reads = [(name, account) for account in accounts for name in LISTINGS if listing in ("", name)]
        return [ListingPartition(*read, min(len(reads), self.slots or len(reads))) for read in reads]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows once its listing is proven complete, or raise `LettersError`."""
        wanted, selection = cast("ListingPartition", partition), self.selection
        task = task_of(wanted, selection.overrides)
        if wanted.account is not None and len(selection.accounts) > 1 and not task.settings.allow_shared_ids:
            check_apart(task, neighbors(wanted.account, selection.accounts))
        # Spark's folders for temporary files, on disks meant for data
        folders = os.environ.get("SPARK_LOCAL_DIRS")
        for rows in read_table(task, selection.table, Path(folders.split(",")[0]) if folders else None):
            account = pa.repeat(pa.scalar(wanted.account), rows.num_rows)
            whole = rows.add_column(0, ACCOUNT.field, account) if selection.has_account_column else rows
            yield from whole.combine_chunks().to_batches()


def neighbors(account: str, accounts: tuple[str, ...]) -> list[str]:
    """Return an account and the next one, in their order: all tasks together compare each with its neighbors."""
    following = accounts[(accounts.index(account) + 1) % len(accounts)]
    return [one for one in accounts if one in (account, following)]


def task_of(partition: ListingPartition, overrides: Overrides) -> Task:
    """Return the task of reading a partition; the executor's environment and files have the secrets."""
    if partition.account is not None:
        overrides = {**overrides, "account_id": partition.account}
    settings = share_of(resolve_settings(overrides), partition.at_once)
    return listing_task(listing_named(partition.listing), LoadContext.of(settings, token_source(settings, overrides)))


def share_of(settings: Settings, tasks: int) -> Settings:
    """Return the settings with one task's share of concurrent requests, at least one, and of requests per second."""
    rate, workers = settings.requests_per_second, max(1, settings.max_workers // tasks)
    return replace(settings, max_workers=workers, requests_per_second=rate and rate / tasks)


@dataclass(frozen=True)
class Stage:
    """A job of a snapshot: reads ranges, or splits staged rows into tables if there are none."""

    listing: str
    folder: str
    committed: str  # the name of the file that lists those of the attempts that Spark commits
    ranges: tuple[Range, ...] = ()
    at_once: int = 1


@dataclass
class Staged(WriterCommitMessage):
    """Files that a task has written, each after the place of its range or the name of its table."""

    files: list[tuple[str, str]]


@dataclass(frozen=True)
class StageWriter(DataSourceArrowWriter):
    """Writes files in each task; Spark commits one attempt of each task, whatever the others have written."""

    stage: Stage
    overrides: Overrides

    @property
    def parts(self) -> Parts:
        """Where the files go."""
        return parts_of(self.stage.listing, self.stage.folder, self.overrides, self.stage.at_once)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Read the range whose place is in the only row, or write the rows of each table."""
        parts = self.parts
        if not self.stage.ranges:
            return Staged(write_tables(parts, iterator))
        [place] = (place for batch in iterator for place in batch["id"].to_pylist())
        path = f"{parts.folder}/{uuid4().hex}.parquet"
        read_into(parts, path, self.stage.ranges[place])
        return Staged([(f"{place:06}", path)])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """List the files; Spark calls this once, in a process of its own."""
        files = sorted(file for message in messages for file in cast("Staged", message).files)
        places = [f"{place:06}" for place in range(len(self.stage.ranges))]
        if places and places != [name for name, _ in files]:
            raise SettingsError("Spark did not read each range once; nothing was published.")
        self.parts.write(f"{self.parts.folder}/{self.stage.committed}", msgspec.json.encode(files))


def parts_of(listing: str, folder: str, overrides: Overrides, at_once: int = 1) -> Parts:
    """Return where the files of a listing go."""
    return Parts.of(task_of(ListingPartition(listing, None, at_once), overrides), folder)


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
    former = snapshots(home)
    jobs = Jobs(spark, Parts.of(home.task, f"{home.url}/{listing}-{uuid4().hex[:12]}"), options)
    try:
        linked = jobs.linked(plan_listing(home.task, parts))
        rows = jobs.rows(linked)
        done = Snapshot(*judge(home.task, linked, rows), jobs.publish(rows))
        home.write(f"{home.folder}/{listing}.json", msgspec.json.encode(done))
    except BaseException:
        jobs.parts.remove()
        raise
    for old in former[:-1]:
        home.files.delete_dir(old)
    return done


def check_readable(spark: SparkSession, to: str) -> None:
    """Raise SettingsError if Spark cannot read a URL, for lack of a library or of credentials."""
    try:
        if "://" in to:
            spark.read.parquet(f"{spark_url(to)}/{uuid4().hex}")
    except AnalysisException:
        return  # the folder is not there, so Spark has looked for it
    except Py4JJavaError as error:
        why = error.java_exception
        raise SettingsError(f"Spark cannot read {to}: {why}; s3:// needs hadoop-aws in spark.jars.packages.") from None


def read_snapshot(spark: SparkSession, listing: str, to: str, table: str) -> DataFrame:
    """Return a table of the newest snapshot of a listing in the folder `to`."""
    home = parts_of(listing, to, {})
    files = home.decode(f"{home.folder}/{listing}.json", Snapshot).files
    if table not in files:
        raise SettingsError(f"table must be one of {', '.join(files)}, got {table!r}.")
    return spark.read.parquet(*files[table])


def snapshots(home: Parts) -> list[str]:
    """Return the folders of a listing's snapshots, oldest first."""
    found = home.files.get_file_info(FileSelector(home.folder, allow_not_found=True))
    name = re.compile(rf"{home.task.name}-[0-9a-f]{{12}}")
    return [info.path for info in sorted(found, key=lambda info: info.mtime) if name.fullmatch(info.base_name)]


def judge(task: Task, linked: Sequence[Evidence], rows: DataFrame) -> tuple[VerdictName, int]:
    """Return the verdict on staged ranges and the number of different rows, or raise `IncompleteListing`."""
    behind = f.when(f.col("place") > 0, f.col("place"))
    spans = rows.groupBy("key").agg((f.max(behind) - f.min(behind) + 1 != f.count_distinct(behind)).alias("strays"))
    is_stray = f.col("strays") & ~f.col("key").startswith(NUL)
    [listed] = spans.agg(f.count("*"), f.count_if(is_stray)).collect()
    fault = find_fault(linked, Listed(*listed))
    if fault:
        raise IncompleteListing(task.title, fault, count=linked[0].count, received=listed[0], walks=1)
    return "stable" if is_still(linked, listed[0]) else "continuous", listed[0]


def spark_url(url: str) -> str:
    """Return a URL as Spark knows it."""
    return f"s3a{url[2:]}" if url.startswith("s3://") else url
