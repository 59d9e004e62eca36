"""The tables in files, as deltalake, pyiceberg and DuckDB read them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from holdings import COLUMNS, DATASET, Rows, in_order, parsed
from pyiceberg.table import StaticTable

Settings = Mapping[str, str]
NONE: Settings = {}


def read_arrow(form: str, folder: str, settings: Settings = NONE) -> pa.Table:
    """All rows of a Delta or Iceberg table below a folder or a URL; for Iceberg, the URL of its newest metadata."""
    if form == "delta":
        return DeltaTable(folder, storage_options=dict(settings)).to_pyarrow_table()
    return StaticTable.from_metadata(folder, dict(settings)).scan().to_arrow()


def newest_metadata(folder: Path) -> str:
    """The URL of the newest metadata of an Iceberg table."""
    return max(folder.glob("metadata/*.metadata.json")).as_uri()


def read_table(form: str, place: Path, table: str, dataset: str = DATASET) -> pa.Table:
    """All rows of a table in a folder."""
    folder = place / dataset / table
    return read_arrow(form, newest_metadata(folder) if form == "iceberg" else str(folder))


def read_lake(form: str, place: Path, dataset: str = DATASET) -> dict[str, Rows]:
    """All our tables in a folder."""
    names = {folder.name for folder in (place / dataset).iterdir() if folder.is_dir() and folder.name in COLUMNS}
    return {name: rows_of(name, read_table(form, place, name, dataset)) for name in names}


def rows_of(name: str, table: pa.Table) -> Rows:
    """A table's rows by its key, JSON parsed, without the load's id."""
    return in_order(name, map(parsed, table.to_pylist()))


def described(table: pa.Table) -> list[tuple[str, str]]:
    """A table's columns in order, each with its type in DuckDB."""
    with duckdb.connect() as connection:
        connection.register("described", table)
        found: list[tuple[Any, ...]] = connection.sql("describe described").fetchall()
    return [(row[0], row[1]) for row in found]
