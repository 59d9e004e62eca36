"""Repairs a dataset: removes what killed and failed loads left, and has dlt recreate tables that were dropped."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset
from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination.local_files import listed_loads
from letters_source.destination.place import Place
from letters_source.destination.sql import SqlClient
from letters_source.tables import LISTING_AUDIT, LOAD_ID, LOADS, REJECTED_ROWS, TABLES, VALID_TO, Table, WriteMode

LOAD_OF_FILE = re.compile(r"\d+\.\d+(?=\.)")
"""The load id at the start of dlt's file names."""


def restore_tables(place: Place, names: Iterable[str]) -> None:
    """Have dlt recreate tables and columns that were dropped: those that the load replaces, and all in staging.

    Others are not recreated: a load that keeps old rows must fail if those rows are gone.
    """
    schema = place.pipeline.default_schema
    dispositions = {name: schema.get_table(name).get("write_disposition") for name in names}
    client = cast("SqlJobClientWithStagingDataset", place.pipeline.destination_client())
    with client:
        forget_dropped(client, [name for name, each in dispositions.items() if each == "replace"])
        with client.with_staging_dataset():
            forget_dropped(client, [name for name, each in dispositions.items() if each in ("replace", "merge")])


def forget_dropped(client: SqlJobClientWithStagingDataset, names: list[str]) -> None:
    """Delete dlt's record of the schema if tables in the dataset lack anything: dlt trusts that record."""
    if not client.is_storage_initialized():
        return
    schema = client.schema
    found = dict(client.get_storage_tables([schema.version_table_name, *names]))
    # a schema that was created for the user has no record yet
    if found.pop(schema.version_table_name) and any(
        schema.get_table_columns(name).keys() - columns.keys() for name, columns in found.items()
    ):
        record = client.sql_client.make_qualified_table_name(schema.version_table_name)
        client.sql_client.execute_sql(f"DELETE FROM {record} WHERE schema_name = %s", schema.name)


def drop_empty_staging(client: SqlClientBase[Any]) -> None:
    """Drop a DuckDB staging schema without tables, because dlt would expect its own tables in it."""
    staging = client.staging_dataset_name
    if not client.execute_sql("SELECT 1 FROM duckdb_tables() WHERE schema_name = %s LIMIT 1", staging):
        client.execute_sql(f"DROP SCHEMA IF EXISTS {client.escape_column_name(staging)}")


def remove_unfinished(client: SqlClientBase[Any], tables: Collection[Table]) -> None:
    """Delete audits and rejected rows of loads that ended before dlt recorded them in `_dlt_loads`."""
    # audits of other listings stay: they record how rows that may still be present were selected
    listings = ", ".join(f"'{table.name}'" for table in tables)
    for table in {REJECTED_ROWS, LISTING_AUDIT}.intersection(tables):
        name = client.make_qualified_table_name(table.name)
        client.execute_sql(f"DELETE FROM {name} WHERE listing IN ({listings}) AND {unfinished(client)}")


def adopt_unfinished(
    client: SqlClientBase[Any], load_id: str, tables: Collection[Table], modes: Mapping[str, WriteMode]
) -> None:
    """Assign unchanged rows of unfinished loads to this load, which is verified; `modes` has each listing's mode."""
    for table in tables:
        # not mailings, because this load may not have requested their days
        if modes.get(table.listing) in ("sync", "history") and table.origin != "dates":
            name, rows = client.make_qualified_table_name(table.name), unfinished(client)
            if modes[table.listing] == "history":
                rows = f"{VALID_TO} IS NULL AND {rows}"
            if client.execute_sql(f"SELECT 1 FROM {name} WHERE {rows} LIMIT 1"):
                client.execute_sql(f"UPDATE {name} SET {LOAD_ID.name} = %s WHERE {rows}", load_id)


def unfinished(client: SqlClient) -> str:
    """Return the SQL condition for rows of unfinished loads."""
    return f"{LOAD_ID.name} NOT IN (SELECT load_id FROM {client.make_qualified_table_name(LOADS)})"


def remove_truncated_files(dataset: Path) -> None:
    """Delete Parquet files that a load left truncated when it was killed or the disk was full; readers fail on them."""
    # unreadable files of finished or unknown loads are left for manual inspection
    finished = set(listed_loads(dataset / LOADS))
    for table in TABLES:
        for file in (dataset / table.name).glob("*.parquet"):
            load_id = LOAD_OF_FILE.match(file.name)
            if load_id and load_id[0] not in finished and is_truncated(file):
                file.unlink()


def is_truncated(file: Path) -> bool:
    """Return whether a Parquet file lacks its footer."""
    try:
        pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        # an OSError has another reason than truncation
        return isinstance(error, pa.ArrowInvalid)
    return False
