"""The format `letters`, by which Spark reads tables: a task for each listing of each account."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import msgspec
import pyarrow as pa
from msgspec import Meta

from letters_source.config.installation import importing_extra
from letters_source.config.settings import Key, Overrides
from letters_source.config.text_options import convert_option, to_overrides
from letters_source.errors import SettingsError
from letters_source.extract.accounts import check_apart
from letters_source.extract.one_table import read_table
from letters_source.extract.parts.tasks import task_of
from letters_source.service.listings import LISTINGS, SECTION, Texts
from letters_source.spark.sessions import check_python, slots_of
from letters_source.spark.stages import Stage, StageWriter
from letters_source.tables import LISTING_AUDIT, MAILINGS, TABLES, Column, Table

with importing_extra("spark"):
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

# loads collect mailings day by day, because the service reports only the last one: a DataFrame would hold no others
READABLE = {table.name: table for table in TABLES if table.name != MAILINGS.name}
ABOUT_LOADS = ["allow_empty", "max_shrink", "allow_other_service", "lock_wait", "resume", "resume_for", "parts"]
ABOUT_LOADS += ["facets", "history", "sync", "mailings", "mailings_since", "mailings_lag", "mailings_window"]
ABOUT_LOADS += ["mailings_ahead", "allow_failed_mailings"]
ACCOUNTS = Key("accounts", Texts, Meta())
ACCOUNT = Column("account_id", "", "The account of the row.", required=True)
"""The first column if the option `accounts` is set, as in the views that combine accounts."""


def register(spark: SparkSession) -> None:
    """Let a session read the format `letters`; `SettingsError` if the Python of its tasks lacks the package."""
    check_python(spark)

    class Registered(LettersDataSource):
        slots = slots_of(spark)

    spark.dataSource.register(Registered)


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

    def writer(self, schema: StructType, overwrite: bool) -> StageWriter:  # noqa: ARG002, FBT001 -- Spark's signature
        """Return what a job of `snapshot` writes with; other jobs cannot write the format."""
        options = dict(self.options)
        stage = options.pop("stage", None)
        if stage is None:
            raise SettingsError(
                "the format letters cannot be written; letters_source.spark.snapshot publishes listings.",
                key="format",
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
        raise SettingsError(
            f"option {misplaced[0]} is about loads, and Spark only reads; leave it out.",
            key=f"{SECTION}.{misplaced[0]}",
        )
    if name not in READABLE:
        raise SettingsError(f"option table must be one of {', '.join(READABLE)}, got {name!r}.", key="table")
    accounts = () if texts is None else tuple(dict.fromkeys(convert_option("accounts", ACCOUNTS, texts)))
    if texts is not None and ("account_id" in settings or not accounts):
        raise SettingsError("option accounts must name at least one account, and excludes account_id.", key="accounts")
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
        overrides = selection.overrides
        if wanted.account is not None:
            overrides = {**overrides, "account_id": wanted.account}
        task = task_of(wanted.listing, overrides, wanted.at_once)
        if wanted.account is not None and len(selection.accounts) > 1 and not task.settings.allow_shared_ids:
            check_apart(task, neighbors(wanted.account, selection.accounts))
        # Spark's folders for temporary files, on disks meant for data
        folders = os.environ.get("SPARK_LOCAL_DIRS")
        for rows in read_table(task, selection.table, Path(folders.split(",")[0]) if folders else None):
            account = pa.repeat(pa.scalar(wanted.account), rows.num_rows)
            whole = rows.add_column(0, ACCOUNT.field, account) if selection.has_account_column else rows
            yield from whole.combine_chunks().to_batches()


def neighbors(account: str, accounts: tuple[str, ...]) -> list[str]:
    """Return an account and the next one, in their order. Together, the tasks compare every account with the next."""
    following = accounts[(accounts.index(account) + 1) % len(accounts)]
    return [one for one in accounts if one in (account, following)]
