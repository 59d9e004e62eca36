"""How much memory may DuckDB take for the rows of a load? Little, and more for large ones."""

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
from dlt.common.configuration.container import Container
from dlt.common.destination import PreparedTableSchema
from dlt.common.storages.load_package import LoadPackageStateInjectableContext
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset

from letters_source.destination.pipeline import MEMORY_MB

# rows up to here fit into the limit, however many
SMALL_ROW_BYTES = 1024
# of larger ones DuckDB holds so many before it writes them out
ROWS_TOGETHER = 122_880
# what it takes to hold them, as a multiple of their bytes: from 3 for rows of 20 kB to 8 for those of 4 MB
TIMES = 8


class EnoughMemory(SqlJobClientWithStagingDataset):
    """A client of dlt's for DuckDB, to be mixed into one: where rows are large, our limit of memory is higher."""

    def verify_schema(self, only_tables: Any = None, new_jobs: Any = None) -> list[PreparedTableSchema]:
        """As dlt does, before any job has its connection; a limit that is not ours stays as it is."""
        tables = super().verify_schema(only_tables, new_jobs)
        credentials: Any = self.config.credentials
        is_ours = (credentials.global_config or {}).get("memory_limit") == f"{MEMORY_MB}MB"
        if is_ours and (large := sum(large_rows())):
            limit = MEMORY_MB + TIMES * large // 10**6
            credentials.pragmas = [f"memory_limit='{limit}MB'", *(credentials.pragmas or ())]
        return tables


def large_rows() -> Iterator[int]:
    """For each file to load, by how many bytes the rows that DuckDB holds at once exceed small ones."""
    package = Container()[LoadPackageStateInjectableContext]
    storage = package.storage
    for file in storage.list_new_jobs(package.load_id):
        if file.endswith(".parquet"):
            found = pq.read_metadata(storage.storage.make_full_path(file))
            size = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
            large = max(0, size - SMALL_ROW_BYTES * found.num_rows)
            yield large * ROWS_TOGETHER // max(ROWS_TOGETHER, found.num_rows)
