"""Removes what killed and failed loads left: rows of unlisted loads, empty staging schemas, truncated Parquet files."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from letters_source.tables import LISTING_AUDIT, LOAD_ID, LOADS, REJECTED_ROWS, TABLES, VALID_TO, Table

LOAD_OF_FILE = re.compile(r"\d+\.\d+(?=\.)")
"""The load id, with which dlt begins the names of its files."""


def drop_empty_staging(client: Any) -> None:
    """Drop a DuckDB schema for staging that a load created without using it: dlt would expect its tables there."""
    staging = client.staging_dataset_name
    if not client.execute_sql("SELECT 1 FROM duckdb_tables() WHERE schema_name = %s LIMIT 1", staging):
        client.execute_sql(f"DROP SCHEMA IF EXISTS {client.escape_column_name(staging)}")


def remove_unfinished(client: Any, tables: Collection[Table]) -> None:
    """Delete audits and rejected rows of loads that ended before dlt listed them in `_dlt_loads`.

    Audits of listings that were not loaded now stay, because they tell how rows were selected that may still be there.

    Args:
        client: SQL on a database.
        tables: the tables that were loaded.
    """
    loads = client.make_qualified_table_name(LOADS)
    listings = ", ".join(f"'{table.name}'" for table in tables)
    for table in {REJECTED_ROWS, LISTING_AUDIT}.intersection(tables):
        name = client.make_qualified_table_name(table.name)
        unlisted = f"{LOAD_ID.name} NOT IN (SELECT load_id FROM {loads})"
        client.execute_sql(f"DELETE FROM {name} WHERE listing IN ({listings}) AND {unlisted}")


def adopt_unfinished(client: Any, load_id: str, tables: Collection[Table], modes: Mapping[str, str]) -> None:
    """Assign rows that came with an unlisted load, and that this load found unchanged, to this load.

    Mailings stay as they are, because this load may not have requested their days.

    Args:
        client: SQL on a database whose tables change in one transaction.
        load_id: the load, which has been verified.
        tables: the tables that it loaded.
        modes: how it wrote each listing.
    """
    loads = client.make_qualified_table_name(LOADS)
    for table in tables:
        if modes.get(table.listing) in ("sync", "history") and table.part != "window":
            name = client.make_qualified_table_name(table.name)
            rows = f"{LOAD_ID.name} NOT IN (SELECT load_id FROM {loads})"
            if modes[table.listing] == "history":
                rows = f"{VALID_TO} IS NULL AND {rows}"
            if client.execute_sql(f"SELECT 1 FROM {name} WHERE {rows} LIMIT 1"):
                client.execute_sql(f"UPDATE {name} SET {LOAD_ID.name} = %s WHERE {rows}", load_id)


def remove_truncated_files(dataset: Path) -> None:
    """Delete Parquet files that a load was writing when it was killed or its disk was full; readers fail on them.

    Unreadable files of finished or unknown loads are left for manual inspection.

    Args:
        dataset: the folder of its tables.
    """
    finished = set(listed_loads(dataset / LOADS))
    for table in TABLES:
        for file in (dataset / table.name).glob("*.parquet"):
            load_id = LOAD_OF_FILE.match(file.name)
            if load_id and load_id[0] not in finished and is_truncated(file):
                file.unlink()


def listed_loads(folder: Path) -> list[str]:
    """The ids of finished loads by dlt's list in plain files, one file per load, named after its schema and id."""
    return [file.stem.rpartition("__")[2] for file in folder.glob("*.jsonl")]


def is_truncated(file: Path) -> bool:
    """Whether a Parquet file lacks its footer."""
    try:
        pq.read_metadata(file)
    except pa.ArrowInvalid:
        return True
    except OSError:
        # the footer is there; the file cannot be read for another reason
        return False
    return False
