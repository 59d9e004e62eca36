"""What if a table that dlt made was dropped since, or one of its columns? It is made again before rows go into it."""

from typing import Any

from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset


class Restored(SqlJobClientWithStagingDataset):
    """A client of dlt's for a database, to be mixed into one: it looks whether all tables and columns are there."""

    def update_stored_schema(self, only_tables: Any = None, expected_update: Any = None, force: Any = None) -> Any:
        """As dlt does where tables change; elsewhere it would trust its note of what it made once.

        Where rows are merged it stays so, and the load fails: rows that it leaves alone would not come back.
        """
        merged = any(table.get("write_disposition") == "merge" for table in self.schema.tables.values())
        return super().update_stored_schema(only_tables, expected_update, force=bool(force) or not merged)
