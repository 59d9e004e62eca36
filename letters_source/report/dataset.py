"""Opens the tables of a loaded dataset for reading only."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import duckdb

from letters_source.destination.duckdb_file import is_held, why_closed
from letters_source.destination.local_files import LAKE_FOLDERS, format_of, listed_loads
from letters_source.destination.sql import literal
from letters_source.errors import DestinationInUse, SettingsError, UnusableFile
from letters_source.tables import DATASET, LISTING_AUDIT, LOAD_ID, LOADS, TABLES, VALID_TO, Table
from letters_source.wording import reason

logger = logging.getLogger("letters_source")

LOAD_AGAIN = "name another $source, or load again."
STORED = "stored"
ACCOUNT = "account_id"
READ = {LOADS, *(table.name for table in TABLES)}
"""The tables that are read of a dataset, whatever else it holds."""
FIND_TABLES = "SELECT DISTINCT schema_name, table_name FROM duckdb_columns()"
FINISHED = "finished_loads"
"""The view of the finished loads, as `load_id`; a single null where dlt's own list of them is missing."""
UNREADABLE = "unreadable_tables"
"""The view of the stored tables that cannot be read: `name` and `reason`."""


def open_tables(path: Path | str, dataset: str = DATASET, *, every_table: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a read-only connection with a view of each table of a dataset: a schema in a file, or a subfolder.

    `path` is a DuckDB file, also a published copy, or a folder of Parquet files. Views hold current rows and finished
    loads only. A table that was not loaded does not exist, or with `every_table` is empty. A warning names tables that
    cannot be read. What cannot be opened raises `SettingsError`.
    """
    place = Path(path).absolute()
    # no query can make DuckDB download an extension
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    try:
        found, unreadable = stored_tables(connection, place, dataset)
        finished = (
            f"SELECT load_id FROM ({found[LOADS]}) WHERE status = 0" if LOADS in found else "SELECT NULL AS load_id"
        )
        # named as in a plain connection to the file, so that the same queries run in both
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{dataset}"')
        connection.execute(f'USE "{dataset}"')
        connection.execute(f"CREATE VIEW {FINISHED} AS {finished}")
        connection.execute(f"CREATE VIEW {UNREADABLE} AS {pairs(unreadable)}")
        for table in TABLES:
            if every_table or table.name in found:
                connection.execute(f"CREATE VIEW {table.name} AS {table_query(table, found)}")
    except (duckdb.Error, SettingsError) as error:
        connection.close()
        if isinstance(error, SettingsError):
            raise
        if is_held(error):
            later = "read it again when that program has ended, or read the copy that a load with publish makes."
            raise DestinationInUse(f"{place} is in use: {reason(error)}", advice=later) from None
        why = why_closed(place, error)
        raise UnusableFile(f"{place} cannot be read: {why}", advice=LOAD_AGAIN, file=str(place)) from None
    return connection


def stored_tables(
    connection: duckdb.DuckDBPyConnection, place: Path, dataset: str
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the query of the current rows of each stored table, and why others cannot be read."""
    if not os.path.exists(place):
        raise SettingsError(f"{place} does not exist", advice="load first, or name another $source.", key="source")
    relations = folder_relations(place, dataset) if place.is_dir() else file_relations(connection, place, dataset)
    found, unreadable = {}, {}
    for name, relation in relations.items():
        try:
            found[name] = f"FROM {relation}{current(connection, relation)}"
        except duckdb.Error as error:
            unreadable[name] = reason(error)
    if unreadable:
        names, why = ", ".join(unreadable), next(iter(unreadable.values()))
        if not found.keys() - {LOADS}:
            raise UnusableFile(f"{place}: {names} cannot be read: {why}", advice=LOAD_AGAIN, file=str(place))
        logger.warning("%s, dataset %s: %s cannot be read: %s", place, dataset, names, why)
    return found, unreadable


def pairs(reasons: Mapping[str, str]) -> str:
    """Return the query of names and reasons."""
    rows = (f"({literal(name)}, {literal(why)})" for name, why in reasons.items())
    return f"SELECT * FROM (VALUES {', '.join((*rows, '(NULL, NULL)'))}) AS found (name, reason) WHERE name IS NOT NULL"


def file_relations(connection: duckdb.DuckDBPyConnection, file: Path, dataset: str) -> dict[str, str]:
    """Attach a DuckDB file for reading only, and return its tables."""
    connection.execute(f"ATTACH {literal(str(file))} AS {STORED} (READ_ONLY)")
    # without bound values, which make DuckDB import pandas if it is installed: slower than all the rest here
    tables = connection.execute(f"{FIND_TABLES} WHERE database_name = '{STORED}' ORDER BY ALL").fetchall()
    if dataset not in (schema for schema, _ in tables):
        raise no_dataset(file, dataset, [schema for schema, _ in tables])
    return {name: f'{STORED}."{schema}"."{name}"' for schema, name in tables if schema == dataset and name in READ}


def folder_relations(folder: Path, dataset: str) -> dict[str, str]:
    """Return the tables of a folder of Parquet files."""
    if not (folder / dataset).is_dir():
        raise no_dataset(folder, dataset, [each.name for each in folder.iterdir() if each.is_dir()])
    places = [folder / dataset / table.name for table in TABLES]
    if any(format_of(place) in LAKE_FOLDERS for place in places):
        raise SettingsError(
            f"{folder} holds Delta or Iceberg tables: name a DuckDB file or a folder of plain Parquet.", key="source"
        )
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
    """Return the error for a missing dataset, which names the datasets that exist."""
    found = ", ".join(sorted({name for name in others if not name.endswith("_staging")})) or "none"
    return SettingsError(
        f"{place} holds no dataset {dataset} (found: {found})", advice="name another $dataset.", key="dataset"
    )


def current(connection: duckdb.DuckDBPyConnection, relation: str) -> str:
    """Return the condition that leaves out old versions of rows, if the table has history."""
    columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {relation}").fetchall()]
    return f" WHERE {VALID_TO} IS NULL" if VALID_TO in columns else ""


def table_query(table: Table, found: Mapping[str, str]) -> str:
    """Return the query of a table's rows with all its columns; columns that are not stored are null.

    Rows also have their account, as in the views over several, so that joins can always name it; elsewhere it is empty.
    """
    # DuckDB has all other types under the same names
    kinds = {column.name: column.kind.replace("timestamp", "timestamptz") for column in table.loaded}
    kinds = kinds if ACCOUNT in kinds else {ACCOUNT: "text", **kinds}
    rows = f"SELECT {', '.join(f'NULL::{kind} AS {name}' for name, kind in kinds.items())} WHERE false"
    if table.name in found:
        rows = f"{rows} UNION ALL BY NAME {found[table.name]}"
    # rows of killed loads stay in Parquet files
    is_finished = f"coalesce({LOAD_ID.name} IN (FROM {FINISHED}), true)"
    if table == LISTING_AUDIT:
        return f"FROM ({rows}) WHERE {is_finished}"
    return f"SELECT * REPLACE (coalesce({ACCOUNT}, '') AS {ACCOUNT}) FROM ({rows})"
