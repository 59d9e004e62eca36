"""How are a dataset's tables opened to be read, and never written?"""

import os
from collections.abc import Mapping
from pathlib import Path

import duckdb

from letters_source.destination.cleanup import listed_loads
from letters_source.destination.formats import LAKE_FOLDERS, format_of
from letters_source.destination.sql import literal
from letters_source.errors import SettingsError, reason
from letters_source.tables import DATASET, LISTING_AUDIT, LOAD_ID, LOADS, TABLES, VALID_TO, Kind, Table

STORED = "stored"
FINISHED = "finished_loads"
"""The view of the loads that finished, as `load_id`; a single null where dlt's own list of them is not there."""
SQL_TYPES: dict[Kind, str] = {
    "text": "VARCHAR",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "date": "DATE",
    "json": "JSON",
    "bigint": "BIGINT",
    "double": "DOUBLE",
}
FIND_TABLES = (
    f"SELECT DISTINCT schema_name, table_name FROM duckdb_columns() WHERE database_name = '{STORED}' ORDER BY ALL"
)


def open_tables(path: Path | str, dataset: str = DATASET) -> duckdb.DuckDBPyConnection:
    """A connection on which every table of a dataset can be queried by its name, and none be written.

    A table that was not loaded, such as `mailings`, is there and empty; of one with history, the present rows are, and
    of `listing_audit` those of loads that finished.

    Args:
        path: a DuckDB file, also a published copy, or a folder of Parquet files.
        dataset: the schema in the file, or the folder in the folder.

    Raises:
        SettingsError: there is no such file, folder or dataset, or it cannot be opened.
    """
    place = Path(path).absolute()
    # nothing is fetched from anywhere, whatever a query asks for
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    try:
        found = stored_tables(connection, place, dataset)
        connection.execute(f"CREATE VIEW {FINISHED} AS {finished_loads(found)}")
        for table in TABLES:
            connection.execute(f"CREATE VIEW {table.name} AS {rows_of(table, found)}")
    except duckdb.Error as error:
        connection.close()
        raise SettingsError(f"{place} cannot be read: {reason(error)}") from None
    except SettingsError:
        connection.close()
        raise
    return connection


def stored_tables(connection: duckdb.DuckDBPyConnection, place: Path, dataset: str) -> Mapping[str, str]:
    """For each table that is stored, the query of its present rows."""
    if not os.path.exists(place):
        raise SettingsError(f"{place} does not exist: load first, or name another file or folder with --from.")
    relations = folder_relations(place, dataset) if place.is_dir() else file_relations(connection, place, dataset)
    return {name: f"FROM {relation}{present(connection, relation)}" for name, relation in relations.items()}


def file_relations(connection: duckdb.DuckDBPyConnection, file: Path, dataset: str) -> dict[str, str]:
    """The tables of a DuckDB file, which is attached for reading only."""
    connection.execute(f"ATTACH {literal(str(file))} AS {STORED} (READ_ONLY)")
    # values bound to a query would make DuckDB import pandas where it is installed, more than all else here takes
    tables = connection.execute(FIND_TABLES).fetchall()
    if dataset not in (schema for schema, _ in tables):
        raise no_dataset(file, dataset, [schema for schema, _ in tables])
    return {name: f'{STORED}."{schema}"."{name}"' for schema, name in tables if schema == dataset}


def folder_relations(folder: Path, dataset: str) -> dict[str, str]:
    """The tables of a folder of Parquet files."""
    if not (folder / dataset).is_dir():
        raise no_dataset(folder, dataset, [each.name for each in folder.iterdir() if each.is_dir()])
    places = [folder / dataset / table.name for table in TABLES]
    if any(format_of(place) in LAKE_FOLDERS for place in places):
        raise SettingsError(f"{folder} holds Delta or Iceberg tables: name a DuckDB file or a folder of plain Parquet.")
    relations = {
        place.name: f"read_parquet({literal(f'{place}/*.parquet')}, union_by_name = true)"
        for place in places
        if any(place.glob("*.parquet"))
    }
    if (loads := folder / dataset / LOADS).is_dir():
        names = ", ".join(map(literal, listed_loads(loads)))
        relations[LOADS] = f"(SELECT unnest([{names}]::VARCHAR[]) AS load_id, 0 AS status)"
    return relations


def no_dataset(place: Path, dataset: str, others: list[str]) -> SettingsError:
    """The error that tells which datasets there are."""
    there = ", ".join(sorted({name for name in others if not name.endswith("_staging")})) or "none"
    return SettingsError(f"{place} holds no dataset {dataset}: name one with --dataset (there: {there}).")


def present(connection: duckdb.DuckDBPyConnection, relation: str) -> str:
    """What leaves out the former versions of rows, where history was kept."""
    columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {relation}").fetchall()]
    return f" WHERE {VALID_TO} IS NULL" if VALID_TO in columns else ""


def finished_loads(found: Mapping[str, str]) -> str:
    """The query of the loads that finished."""
    return f"SELECT load_id FROM ({found[LOADS]}) WHERE status = 0" if LOADS in found else "SELECT NULL AS load_id"


def rows_of(table: Table, found: Mapping[str, str]) -> str:
    """The query of a table's rows: all its columns, those that are not stored empty."""
    columns = ", ".join(f"NULL::{SQL_TYPES[column.kind]} AS {column.name}" for column in table.loaded)
    rows = f"SELECT {columns} WHERE false"
    if table.name in found:
        rows = f"{rows} UNION ALL BY NAME {found[table.name]}"
    # of plain files, those of loads that were killed cannot be removed
    is_finished = f"coalesce({LOAD_ID.name} IN (FROM {FINISHED}), true)"
    return f"FROM ({rows}) WHERE {is_finished}" if table == LISTING_AUDIT else rows
