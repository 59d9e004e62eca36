"""What if a table of a listing was dropped since, or one of its columns? It is made again before rows go into it."""

from typing import Any

from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset
from typing_extensions import override


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
