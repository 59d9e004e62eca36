"""All that we override in dlt: how its SQL clients leave staging, and how it asks what a database can do.

dlt moves each table out of staging in a separate transaction, as soon as the table and its children are complete. After
a crash, readers can see new rows of one table next to old rows of another (9 of 45 killed loads). Importing this module
fails if a dlt release has renamed a method on which the transaction depends.
"""

from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dlt
from dlt.common.configuration.container import Container
from dlt.common.destination import Destination, DestinationCapabilitiesContext, PreparedTableSchema
from dlt.common.destination.client import DestinationClientConfiguration, FollowupJobRequest
from dlt.common.normalizers.naming import NamingConvention
from dlt.common.schema.typing import TTableSchema
from dlt.common.schema.utils import get_root_table
from dlt.common.storages.load_package import LoadJobInfo, LoadPackageStateInjectableContext
from dlt.destinations import duckdb, postgres
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset
from dlt.load.utils import get_completed_table_chain

from letters_source.config.installation import how_to_install, installed_from
from letters_source.errors import DestinationError

if TYPE_CHECKING:
    from dlt.destinations.impl.duckdb.duck import DuckDbClient
    from dlt.destinations.impl.postgres.postgres import PostgresClient


class OneTransaction(SqlJobClientWithStagingDataset):
    """A mixin for dlt's SQL clients that moves rows out of staging once all tables are in staging."""

    last_statement = ""
    """SQL that ends the transaction."""

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
        for chain in self.staged_chains(names):
            jobs += create([self.prepare_load_table(str(table["name"])) for table in chain], None)
        files = [Path(job.new_file_path()) for job in jobs]
        statements = "\n".join([*(file.read_text("utf-8") for file in files), self.last_statement])
        for file in files[:1]:
            file.write_text(statements, "utf-8")
        for file in files[1:]:
            file.unlink()
        return jobs[:1]

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

    @property
    def client_class(self) -> "type[DuckDbClient]":
        """dlt's client with `OneTransaction`."""
        return in_one_transaction(super().client_class, "")


class Postgres(FixedCapabilities, postgres):
    """dlt's postgres destination, with all tables changed in one transaction while the load holds its lock."""

    destination_type = "dlt.destinations.postgres"
    last_statement = ""

    @property
    def client_class(self) -> "type[PostgresClient]":
        """dlt's client with `OneTransaction`."""
        return in_one_transaction(super().client_class, self.last_statement)


@cache
def in_one_transaction(client: type[SqlJobClientWithStagingDataset], last_statement: str) -> type[Any]:
    """Return a dlt SQL client class with `OneTransaction`; created on demand, as it imports the database driver."""
    return type(client.__name__, (OneTransaction, client), {"last_statement": last_statement})


def check_hook(base: type, name: str) -> None:
    """Check that dlt still has a method that we override, or raise `DestinationError`."""
    if not hasattr(base, name):
        raise DestinationError(
            f"dlt {dlt.__version__} has no {base.__name__}.{name}, so loads would not change all tables in one "
            f"transaction; install the dlt that letters-source requires: {how_to_install(installed_from())}"
        )


check_hook(SqlJobClientWithStagingDataset, "create_table_chain_completed_followup_jobs")
check_hook(duckdb, "client_class")
check_hook(postgres, "client_class")
