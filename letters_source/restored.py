"""What if a table that dlt made was dropped since, or one of its columns? It is made again before rows go into it."""

from typing import Any

from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset


class Restored(SqlJobClientWithStagingDataset):
    """A client of dlt's for a database, to be mixed into one: it looks whether all tables and columns are there."""

    def update_stored_schema(self, only_tables: Any = None, expected_update: Any = None, *_: Any, **__: Any) -> Any:
        """As dlt does where tables change; elsewhere it would trust its note of what it made once."""
        return super().update_stored_schema(only_tables, expected_update, force=True)
