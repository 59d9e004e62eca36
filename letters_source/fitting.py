"""How is DuckDB set for a load? For what the load brings, which nobody knows before it has been read."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.destination import PreparedTableSchema
from dlt.common.storages.load_package import LoadPackageStateInjectableContext, ParsedLoadJobFileName
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset

from letters_source.destination import DUCKDB_CONFIG

# rows of 100,000 contacts are 40 MB; with one thread 300,000 take 5 to 8 % less time, and a million 4 to 6 % more
SMALL_BYTES = 200_000_000
# DuckDB's own, where dlt sets 1gb: rows that stay where they are written need not go through DuckDB's log
WRITE_EARLY = "checkpoint_threshold='16MiB'"


class Fitted(SqlJobClientWithStagingDataset):
    """A client of dlt's for DuckDB, to be mixed into one: the connections of a load's jobs are set for that load."""

    def verify_schema(
        self, only_tables: Any = None, new_jobs: Iterable[ParsedLoadJobFileName] = ()
    ) -> list[PreparedTableSchema]:
        """As dlt does, before any job has its connection; what users set for their own destinations stays."""
        tables = super().verify_schema(only_tables, new_jobs)
        credentials: Any = self.config.credentials
        if not any(map(self.should_load_data_to_staging_dataset, {job.table_name for job in new_jobs})):
            credentials.pragmas = [WRITE_EARLY, *(credentials.pragmas or ())]
        if credentials.global_config == DUCKDB_CONFIG and size_of_load() < SMALL_BYTES:
            credentials.global_config = {**DUCKDB_CONFIG, "threads": 1}
        return tables


def size_of_load() -> int:
    """How many bytes of rows the load under way brings to the destination."""
    package = Container()[LoadPackageStateInjectableContext]
    folder = Path(package.storage.storage.storage_path)
    return sum((folder / file).stat().st_size for file in package.storage.list_new_jobs(package.load_id))
