"""How does DuckDB write the rows of a load into its file? At once, where they stay where they are written."""

from collections.abc import Iterable
from typing import Any

from dlt.common.destination import PreparedTableSchema
from dlt.common.storages.load_package import ParsedLoadJobFileName
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset

# DuckDB's own, where dlt sets 1gb and so sends most rows of a load through DuckDB's log: 3 % of a first load
THRESHOLD = "checkpoint_threshold='16MiB'"


class EarlyCheckpoint(SqlJobClientWithStagingDataset):
    """A client of dlt's for DuckDB, to be mixed into one: where nothing is staged, DuckDB writes its file early."""

    def verify_schema(
        self, only_tables: Any = None, new_jobs: Iterable[ParsedLoadJobFileName] = ()
    ) -> list[PreparedTableSchema]:
        """As dlt does, before any job has its connection; pragmas of users go last and hold, their statements do not.

        dlt makes these credentials anew for each load, from those of the user.
        """
        jobs = tuple(new_jobs)
        tables = super().verify_schema(only_tables, jobs)
        if not any(map(self.should_load_data_to_staging_dataset, {job.table_name for job in jobs})):
            credentials: Any = self.config.credentials
            credentials.pragmas = [THRESHOLD, *(credentials.pragmas or ())]
        return tables
