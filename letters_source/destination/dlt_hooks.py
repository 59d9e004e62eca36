"""Everything we override in dlt's clients, and why. A release of dlt that renames one of these methods is refused."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.destination import PreparedTableSchema
from dlt.common.destination.client import FollowupJobRequest
from dlt.common.schema.typing import TTableSchema
from dlt.common.schema.utils import get_root_table
from dlt.common.storages.load_package import LoadPackageStateInjectableContext, ParsedLoadJobFileName
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset
from dlt.load.utils import get_completed_table_chain
from typing_extensions import override

from letters_source.destination.kinds import DUCKDB_CONFIG
from letters_source.destination.postgres import DatasetLock
from letters_source.destination.writing import THRESHOLD, files_to_load, limits_for


class Together(SqlJobClientWithStagingDataset):
    """A client of dlt's for a database, to be mixed into one: it moves rows out of staging once all rows are there.

    dlt makes a job of SQL as soon as the rows of a table, and of those nested in it, are in staging. Whoever looks at
    the database then, or after a crash, may see the new rows of one table beside the old ones of another.
    """

    @override
    def create_table_chain_completed_followup_jobs(
        self, table_chain: Sequence[PreparedTableSchema], completed_table_chain_jobs: Any = None
    ) -> list[FollowupJobRequest]:
        """No job before the last table is in staging, then one for them all, which dlt runs in a transaction."""
        create = super().create_table_chain_completed_followup_jobs
        names = {str(table["name"]) for table in table_chain}
        if not any(map(self.should_load_data_to_staging_dataset, names)):
            return create(table_chain, completed_table_chain_jobs)
        jobs: list[FollowupJobRequest] = []
        for chain in self.staged_chains(names):
            jobs += create([self.prepare_load_table(str(table["name"])) for table in chain], None)
        files = [Path(job.new_file_path()) for job in jobs]
        statements = "\n".join(file.read_text("utf-8") for file in files)
        for file in files[:1]:
            file.write_text(statements, "utf-8")
        for file in files[1:]:
            file.unlink()
        return jobs[:1]

    def staged_chains(self, completed: Collection[str]) -> list[list[TTableSchema]]:
        """Tables that the load brings to staging, each with those nested in it; none as long as one is not there.

        Args:
            completed: tables that are there, although dlt did not yet write that down.
        """
        package = Container()[LoadPackageStateInjectableContext]
        states = package.storage.list_all_jobs_with_states(package.load_id)
        # dlt counts what failed as there, but its table in staging is empty
        if any(state == "failed_jobs" for state, _ in states):
            return []
        jobs = [("completed_jobs" if job.table_name in completed else state, job) for state, job in states]
        roots = {str(get_root_table(self.schema.tables, job.table_name)["name"]) for _, job in jobs}
        staged = sorted(filter(self.should_load_data_to_staging_dataset, roots))
        chains = [get_completed_table_chain(self.schema, jobs, self.schema.tables[name]) for name in staged]
        return chains if all(chains) else []


class Guarded(Together):
    """A client of dlt's for PostgreSQL, to be mixed into one: rows move out of staging only while the lock is held."""

    @override
    def create_table_chain_completed_followup_jobs(
        self, table_chain: Sequence[PreparedTableSchema], completed_table_chain_jobs: Any = None
    ) -> list[FollowupJobRequest]:
        """The job that moves all rows; its transaction fails where the lock was lost by its end."""
        jobs = super().create_table_chain_completed_followup_jobs(table_chain, completed_table_chain_jobs)
        if DatasetLock in Container():
            backend = Container()[DatasetLock].backend
            for job in jobs:
                with Path(job.new_file_path()).open("a", encoding="utf-8") as file:
                    file.write(f"\n{check_held(backend)};\n")
        return jobs


def check_held(backend: int) -> str:
    """A statement that divides by zero unless a process of the server holds an advisory lock."""
    return f"SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend}"


class Restored(SqlJobClientWithStagingDataset):
    """A client of dlt's for a database, to be mixed into one: it looks whether tables that are replaced are whole."""

    @override
    def update_stored_schema(self, only_tables: Any = None, expected_update: Any = None, force: Any = None) -> Any:
        """As dlt does, which trusts its note of what it made once; then it looks at the tables that are replaced.

        In others, rows that a load leaves alone would not come back, or what is told by them: that load shall fail.
        """
        applied = super().update_stored_schema(only_tables, expected_update, bool(force))
        names = self.schema.tables if only_tables is None else only_tables
        replaced = [name for name in names if self.schema.get_table(name).get("write_disposition") == "replace"]
        # what has just been changed was looked at; and an empty list is all tables to dlt
        if applied or not replaced:
            return applied
        return super().update_stored_schema(replaced, expected_update, force=True)


class Fitted(SqlJobClientWithStagingDataset):
    """A client of dlt's for DuckDB, to be mixed into one: how DuckDB writes fits the rows of a load."""

    @override
    def verify_schema(
        self, only_tables: Any = None, new_jobs: Iterable[ParsedLoadJobFileName] = ()
    ) -> list[PreparedTableSchema]:
        """As dlt does, before any job has its connection; pragmas of users go last and hold, their statements do not.

        dlt makes these credentials anew for each load, from those of the user. Limits that are not ours stay.
        """
        jobs = tuple(new_jobs)
        tables = super().verify_schema(only_tables, jobs)
        staged = any(map(self.should_load_data_to_staging_dataset, {job.table_name for job in jobs}))
        credentials: Any = self.config.credentials
        limits = limits_for(list(files_to_load()), staged=staged) if credentials.global_config == DUCKDB_CONFIG else {}
        ours = limits if staged else {**limits, "checkpoint_threshold": THRESHOLD}
        credentials.pragmas = [*(f"{name}='{value}'" for name, value in ours.items()), *(credentials.pragmas or ())]
        return tables
