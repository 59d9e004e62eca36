"""Which rows are left of loads that never finished? Those in tables that loads only add to; all others are replaced."""

from collections.abc import Collection

import dlt

from letters_source.destination.held import LOADS
from letters_source.destination.pipeline import is_files
from letters_source.destination.sql import open_sql
from letters_source.tables import LISTING_AUDIT, LOAD_ID, REJECTED_ROWS, Table


def remove_unfinished(pipeline: dlt.Pipeline, tables: Collection[Table]) -> None:
    """Delete the audits and rejected rows of loads that `_dlt_loads` does not list: what ended them came in between.

    Plain files cannot be deleted from, and keep them.

    Args:
        pipeline: where to.
        tables: those that were loaded, of which there are rows to look at.
    """
    if is_files(pipeline):
        return
    with open_sql(pipeline) as client:
        loads = client.make_qualified_table_name(LOADS)
        for table in {REJECTED_ROWS, LISTING_AUDIT}.intersection(tables):
            name = client.make_qualified_table_name(table.name)
            client.execute_sql(f"DELETE FROM {name} WHERE {LOAD_ID.name} NOT IN (SELECT load_id FROM {loads})")
