"""All that we override in dlt: how its SQL clients leave staging, and how it asks what a database can do.

dlt moves each table out of staging in a separate transaction, as soon as the table and its children are complete. After
a crash, readers can see new rows of one table next to old rows of another (9 of 45 killed loads). Importing this module
fails if a dlt release has renamed a method on which the transaction depends.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dlt
from dlt.common.configuration.container import Container
from dlt.common.destination import Destination, DestinationCapabilitiesContext, PreparedTableSchema
from dlt.common.destination.client import (
    DestinationClientConfiguration,
    FollowupJobRequest,
    HasFollowupJobs,
    LoadJob,
    RunnableLoadJob,
)
from dlt.common.normalizers.naming import NamingConvention
from dlt.common.schema.typing import TTableSchema
from dlt.common.schema.utils import get_root_table
from dlt.common.storages.load_package import LoadJobInfo, LoadPackageStateInjectableContext
from dlt.destinations import duckdb, postgres
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset
from dlt.destinations.sql_client import SqlClientBase
from dlt.destinations.sql_jobs import SqlStagingReplaceFollowupJob
from dlt.load.utils import get_completed_table_chain

from letters_source.config.installation import how_to_install, installed_from
from letters_source.destination.modes import merge_conditions, not_exists, reinsert, update_hashes
from letters_source.destination.place import Held
from letters_source.destination.sql import fetch_rows
from letters_source.errors import DestinationError
from letters_source.tables import TABLES, VALID_FROM, Table, is_ours
from letters_source.transform.row_hash import ROW_HASH

if TYPE_CHECKING:
    from dlt.destinations.impl.duckdb.duck import DuckDbClient
    from dlt.destinations.impl.postgres.postgres import PostgresClient


TABLES_OF_LISTINGS = {table.name: table for table in TABLES if table.origin in ("row", "object", "list")}
# none of a table with a generated column, which cannot be inserted; DuckDB 1.5 does not say which one it is
HELD_COLUMNS = """
    SELECT column_name FROM duckdb_columns() JOIN duckdb_tables() USING (database_name, schema_name, table_name)
    WHERE database_name = current_database() AND schema_name = %s AND table_name = %s
    AND NOT contains(sql, 'GENERATED ALWAYS AS')
"""


class OneTransaction(SqlJobClientWithStagingDataset):
    """A mixin for dlt's SQL clients that moves rows out of staging once all tables are in staging."""

    held = Held()
    """What the load knows of its destination."""

    def create_table_chain_completed_followup_jobs(
        self,
        table_chain: Sequence[PreparedTableSchema],
        completed_table_chain_jobs: Sequence[LoadJobInfo] | None = None,
    ) -> list[FollowupJobRequest]:
        """Return one job for all tables once all are in staging, none before; dlt runs each job in a transaction."""
        create = super().create_table_chain_completed_followup_jobs
        names = {str(table["name"]) for table in table_chain}
        # like dlt, decide by the root alone: a nested table can have hints of its own
        if not self.should_load_data_to_staging_dataset(str(table_chain[0]["name"])):
            return create(table_chain, completed_table_chain_jobs)
        jobs: list[FollowupJobRequest] = []
        chains = self.staged_chains(names)
        aligning: list[str] = []
        for chain in chains:
            prepared = [self.with_conditions(self.prepare_load_table(str(table["name"]))) for table in chain]
            if self.reads_files(prepared[0]):
                jobs.append(ReplacedFromFiles.from_table_chain(prepared, self.sql_client))
                continue
            jobs += create(prepared, None)
            aligning += (self.align_hashes(table, one["columns"]) for one in prepared if (table := hashed_table(one)))
        files = [Path(job.new_file_path()) for job in jobs]
        statements = "\n".join([*aligning, *(file.read_text("utf-8") for file in files), self.held.lock_check])
        for root in (chain[0] for chain in chains if chain[0]["write_disposition"] == "merge"):
            # conditions of other sources may compare nulls
            if is_ours(name := str(root["name"])):
                statements = self.with_anti_joins(statements, *self.sql_client.get_qualified_table_names(name))
        for file in files[:1]:
            file.write_text(statements, "utf-8")
        for file in files[1:]:
            file.unlink()
        return jobs[:1]

    def reads_files(self, _table: PreparedTableSchema, /) -> bool:
        """Return whether the transaction reads a table's rows from the load package."""
        return False

    def with_conditions(self, prepared: PreparedTableSchema) -> PreparedTableSchema:
        """Return a table's schema with the conditions of a merge of changes."""
        table = hashed_table(prepared)
        if not self.held.only_changes or not table:
            return prepared
        scope, rows = merge_conditions(table)
        conditions: Any = {"x-merge-destination-scope": scope, "x-merge-source-filter": rows}
        return {**prepared, **conditions}

    def align_hashes(self, table: Table, columns: Collection[str]) -> str:
        """Return SQL that runs before dlt's: rows equal to a staged row get its hash, so that dlt leaves them."""
        return update_hashes(table, columns, *self.sql_client.get_qualified_table_names(table.name))

    def with_anti_joins(self, statements: str, target: str, staging: str) -> str:
        """Return the SQL of a merge with anti joins, after ANALYZE: PostgreSQL would compare each row with all others.

        Without statistics of the rows in staging, it may choose a nested loop.
        """
        # in dlt's SQL, a staged row has the alias s, and a row of the table the table's name
        return f"ANALYZE {staging};\n{not_exists(not_exists(statements, target, 's'), staging, target)}"

    def staged_chains(self, completed: Collection[str]) -> list[list[TTableSchema]]:
        """Return the staged tables, each with its children; empty until all, `completed` included, are there."""
        package = Container()[LoadPackageStateInjectableContext]
        states = package.storage.list_all_jobs_with_states(package.load_id)
        # dlt counts a failed job as completed, but its staging table is empty
        if any(state == "failed_jobs" for state, _ in states):
            return []
        jobs = [("completed_jobs" if job.table_name in completed else state, job) for state, job in states]
        roots = {str(get_root_table(self.schema.tables, job.table_name)["name"]) for _, job in jobs}
        staged = sorted(filter(self.should_load_data_to_staging_dataset, roots))
        chains = [get_completed_table_chain(self.schema, jobs, self.schema.tables[name]) for name in staged]
        return chains if all(chains) else []


def hashed_table(prepared: PreparedTableSchema) -> Table | None:
    """Return the table of a listing, if its rows have hashes; facets are always read completely."""
    return TABLES_OF_LISTINGS.get(str(prepared["name"])) if ROW_HASH.name in prepared["columns"] else None


class ReplacedFromFiles(SqlStagingReplaceFollowupJob):
    """SQL that replaces tables by the rows in the load package's Parquet files; others are replaced from staging."""

    @classmethod
    def generate_sql(cls, table_chain: Sequence[PreparedTableSchema], sql_client: SqlClientBase[Any]) -> list[str]:
        """Return statements that delete each table's rows and insert the new ones."""
        package = Container()[LoadPackageStateInjectableContext]
        statements: list[str] = []
        for table in table_chain:
            if files := package_files(package, str(table["name"])):
                statements += replace_statements(table, files, package.state["created_at"], sql_client)
            else:
                # another source may have replaced tables with other files, or without any
                statements += super().generate_sql([table], sql_client)
        return statements


def package_files(package: LoadPackageStateInjectableContext, table: str) -> list[str]:
    """Return the paths of a table's Parquet files, once all jobs of a load package are completed."""
    storage, load_id = package.storage, package.load_id
    return [
        storage.storage.make_full_path(storage.get_job_file_path(load_id, "completed_jobs", job.file_name()))
        for _, job in storage.list_all_jobs_with_states(load_id)
        if job.table_name == table and job.file_format == "parquet"
    ]


def replace_statements(
    table: PreparedTableSchema, files: Sequence[str], moment: object, sql_client: SqlClientBase[Any]
) -> list[str]:
    """Return the SQL of DuckDB that replaces a table's rows by those of Parquet files, current since a moment."""
    # in history, as dlt would have it; its files have the column without values
    columns = f"* REPLACE (TIMESTAMPTZ '{moment}' AS {VALID_FROM})" if VALID_FROM in table["columns"] else "*"
    # with filters, a row may only say whose rows would end
    kept = f" WHERE {rows}" if (rows := table.get("x-merge-source-filter")) else ""
    # dlt splits SQL at each semicolon
    paths = ", ".join(str(sql_client.capabilities.escape_literal(file)).replace(";", r"\x3B") for file in files)
    name = sql_client.make_qualified_table_name(str(table["name"]))
    return [
        f"DELETE FROM {name} WHERE 1=1",
        f"INSERT INTO {name} BY NAME SELECT {columns} FROM read_parquet([{paths}], union_by_name = true){kept}",
    ]


class ReadLater(RunnableLoadJob, HasFollowupJobs):
    """A job for a file that the transaction reads; dlt waits a second for a job that is finished without running."""

    def run(self) -> None:
        """Do nothing: the file stays in the load package."""


class WithoutStaging(OneTransaction):
    """A mixin for dlt's DuckDB client that reads rows from the load package, unless they are merged with others.

    dlt would write each row twice, first to a staging table, which makes the file of a second load a third larger. This
    class also deletes and inserts rows where others update them.
    """

    def align_hashes(self, table: Table, columns: Collection[str]) -> str:
        """Return SQL that replaces rows with another hash."""
        with self.sql_client as client:
            held = [name for (name,) in fetch_rows(client, HELD_COLUMNS, client.dataset_name, table.name)]
        # a user's column named rowid hides DuckDB's pseudocolumn
        if not held or {"rowid", "replaced_row"} & set(map(str.lower, held)):
            return super().align_hashes(table, columns)
        return reinsert(table, columns, held, *client.get_qualified_table_names(table.name))

    def with_anti_joins(self, statements: str, target: str, staging: str) -> str:  # noqa: ARG002 -- as in the base class
        """Return the SQL of a merge with an anti join where it searches the table.

        The other NOT IN, over staging, stays: DuckDB 1.5 runs it three times as fast as NOT EXISTS.
        """
        return not_exists(statements, target, "s")

    def create_load_job(self, table: PreparedTableSchema, file_path: str, *rest: Any, **options: Any) -> LoadJob:
        """Return a job that does nothing for a file that the transaction reads, otherwise dlt's job."""
        if self.reads_files(table) and file_path.endswith(".parquet"):
            return ReadLater(file_path)
        return super().create_load_job(table, file_path, *rest, **options)

    def reads_files(self, table: PreparedTableSchema, /) -> bool:
        """Return whether a table will have only the rows of the package: they replace others, or are the first."""
        is_first = self.held.is_new and ROW_HASH.name in table["columns"]
        is_whole = is_first or table["write_disposition"] == "replace"
        return is_whole and self.should_load_data_to_staging_dataset(str(table["name"]))


class FixedCapabilities(Destination[Any, Any]):
    """A mixin for dlt's destinations: dlt would resolve all settings each time it asks, a tenth of a small load.

    Unlike the other methods, this one may move in a release of dlt: loads would only be slower.
    """

    def capabilities(
        self, config: DestinationClientConfiguration | None = None, naming: NamingConvention | None = None
    ) -> DestinationCapabilitiesContext:
        """Return the database's capabilities, which do not depend on settings."""
        return super().capabilities(config or self.spec(), naming)


class DuckDB(FixedCapabilities, duckdb):
    """dlt's duckdb destination, with all tables changed in one transaction."""

    destination_type = "dlt.destinations.duckdb"
    held = Held()

    @property
    def client_class(self) -> "type[DuckDbClient]":
        """dlt's client with `OneTransaction`."""
        return in_one_transaction(super().client_class, self.held, WithoutStaging)


class Postgres(FixedCapabilities, postgres):
    """dlt's postgres destination, with all tables changed in one transaction while the load holds its lock."""

    destination_type = "dlt.destinations.postgres"
    held = Held()

    @property
    def client_class(self) -> "type[PostgresClient]":
        """dlt's client with `OneTransaction`."""
        return in_one_transaction(super().client_class, self.held)


@contextmanager
def only_this_load(pipeline: dlt.Pipeline) -> Iterator[None]:
    """Have a pipeline's next loads merge all rows: dlt keeps the destination that was loaded with in the block."""
    try:
        yield
    finally:
        if isinstance(pipeline.destination, DuckDB | Postgres):
            pipeline.destination.held = Held()


@cache
def in_one_transaction(
    client: type[SqlJobClientWithStagingDataset], held: Held, mixin: type[OneTransaction] = OneTransaction
) -> type[Any]:
    """Return a dlt SQL client class with a mixin; created on demand, as it imports the database driver."""
    return type(client.__name__, (mixin, client), {"held": held})


def check_hook(base: type, name: str) -> None:
    """Check that dlt still has a method that we override, or raise `DestinationError`."""
    if not hasattr(base, name):
        raise DestinationError(
            f"dlt {dlt.__version__} has no {base.__name__}.{name}, so loads would not change all tables in one "
            f"transaction; install the dlt that letters-source requires: {how_to_install(installed_from())}"
        )


check_hook(SqlJobClientWithStagingDataset, "create_table_chain_completed_followup_jobs")
check_hook(SqlJobClientWithStagingDataset, "create_load_job")
check_hook(duckdb, "client_class")
check_hook(postgres, "client_class")
