"""Which rows are left of loads that never finished? Those that later loads add to, or leave as they are."""

from collections.abc import Collection, Mapping

import dlt

from letters_source.destination.kinds import engine, is_files
from letters_source.destination.sql import open_sql
from letters_source.tables import LISTING_AUDIT, LOAD_ID, LOADS, REJECTED_ROWS, VALID_TO, Table


def drop_empty_staging(pipeline: dlt.Pipeline) -> None:
    """Drop the schema for staging that a load made without needing it: dlt would take it for one with its tables."""
    if engine(pipeline) != "duckdb":
        return
    with open_sql(pipeline) as client:
        staging = client.staging_dataset_name
        if not client.execute_sql("SELECT 1 FROM duckdb_tables() WHERE schema_name = %s LIMIT 1", staging):
            client.execute_sql(f"DROP SCHEMA IF EXISTS {client.escape_column_name(staging)}")


def remove_unfinished(pipeline: dlt.Pipeline, tables: Collection[Table]) -> None:
    """Delete the audits and rejected rows of loads that `_dlt_loads` does not list: what ended them came in between.

    Those of other listings stay, for they tell how the rows were chosen that may be there. Plain files cannot be
    deleted from, and keep them all.

    Args:
        pipeline: where to.
        tables: those that were loaded, of which there are rows to look at.
    """
    if is_files(pipeline):
        return
    with open_sql(pipeline) as client:
        loads = client.make_qualified_table_name(LOADS)
        listings = ", ".join(f"'{table.name}'" for table in tables)
        for table in {REJECTED_ROWS, LISTING_AUDIT}.intersection(tables):
            name = client.make_qualified_table_name(table.name)
            unlisted = f"{LOAD_ID.name} NOT IN (SELECT load_id FROM {loads})"
            client.execute_sql(f"DELETE FROM {name} WHERE listing IN ({listings}) AND {unlisted}")


def adopt_unfinished(pipeline: dlt.Pipeline, load_id: str, tables: Collection[Table], modes: Mapping[str, str]) -> None:
    """Give a load the rows that it found unchanged, and that came with one which `_dlt_loads` does not list.

    Mailings are left alone: it may not have asked for their days. So are other databases than DuckDB and PostgreSQL,
    where tables do not change together.

    Args:
        pipeline: where to.
        load_id: the load, which has been verified.
        tables: those that it loaded.
        modes: how it wrote each listing.
    """
    if engine(pipeline) not in ("duckdb", "postgres"):
        return
    merged = [table for table in tables if modes.get(table.listing) in ("sync", "history") and table.part != "window"]
    with open_sql(pipeline) as client:
        loads = client.make_qualified_table_name(LOADS)
        for table in merged:
            name = client.make_qualified_table_name(table.name)
            rows = f"{LOAD_ID.name} NOT IN (SELECT load_id FROM {loads})"
            if modes[table.listing] == "history":
                rows = f"{VALID_TO} IS NULL AND {rows}"
            if client.execute_sql(f"SELECT 1 FROM {name} WHERE {rows} LIMIT 1"):
                client.execute_sql(f"UPDATE {name} SET {LOAD_ID.name} = %s WHERE {rows}", load_id)
