"""How do all tables of a load change at once? In one transaction, where dlt has one for each table."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.destination import PreparedTableSchema
from dlt.common.destination.client import FollowupJobRequest
from dlt.common.schema.typing import TTableSchema
from dlt.common.schema.utils import get_root_table
from dlt.common.storages.load_package import LoadPackageStateInjectableContext
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset
from dlt.load.utils import get_completed_table_chain
from typing_extensions import override


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
