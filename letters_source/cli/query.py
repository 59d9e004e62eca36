"""Runs a SQL query on loaded tables and prints its rows: as a table, as CSV or as JSON."""

import csv
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import duckdb
from click import echo

from letters_source.errors import SettingsError
from letters_source.report.dataset import UNREADABLE, open_tables
from letters_source.tables import TABLES, Table
from letters_source.wording import reason

QueryForm = Literal["table", "csv", "json"]
MOST_ROWS_SHOWN = 40
BATCH_ROWS = 10_000
MISSING = re.compile(r"Table with name (\w+) does not exist")
"""How DuckDB names a table that does not exist."""
CHANGES = {"ALTER", "DELETE", "DROP", "INSERT", "MERGE_INTO", "UPDATE"}
"""DuckDB's types of statements that change tables."""


def print_rows(query: str, source: Path, dataset: str, form: QueryForm) -> None:
    """Run a query on the tables of a dataset, read-only, and print its rows; `SettingsError` if DuckDB refuses it."""
    with open_tables(source, dataset) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            check_reads_only(query)
            rows = connection.sql(query)
            if rows is not None:
                {"table": show_table, "csv": write_csv, "json": write_json}[form](connection, rows)
        except duckdb.Error as error:
            why = why_missing(connection, error) or f"{reason(error)}{suggestion(error)}"
            raise SettingsError(f"the query failed: {why}", key="sql") from None


def check_reads_only(query: str) -> None:
    """Raise `SettingsError` if the query changes tables, or creates some at its end that no file would keep."""
    types = [statement.type.name for statement in duckdb.extract_statements(query)]
    for name in types:
        if name in CHANGES or (types[-1] == name == "CREATE" and "ATTACH" not in types):
            words = name.partition("_")[0]
            raise SettingsError(f"the query failed: loaded tables are read-only, so {words} is refused.", key="sql")


def why_missing(connection: duckdb.DuckDBPyConnection, error: duckdb.Error) -> str:
    """Return why a table of ours does not exist in the dataset, and what loads it; empty for other errors."""
    found = MISSING.search(str(error))
    table = next((table for table in TABLES if found and table.name == found[1].lower()), None)
    if table is None:
        return ""
    unreadable = connection.execute(f"SELECT reason FROM {UNREADABLE} WHERE name = '{table.name}'").fetchone()
    if unreadable:
        return f"{table.name} cannot be read: {unreadable[0]}"
    return f"{table.name} was not loaded; {what_loads(table)} loads it."


def what_loads(table: Table) -> str:
    """Return the command that loads a table."""
    options = {"facet": " --facets", "dates": " --mailings --mailings-since DAY"}
    usual = f" --only {table.listing}" if table.listing else ""
    return f"`letters load{options.get(table.origin, usual)}`"


def suggestion(error: duckdb.Error) -> str:
    """Return the names that DuckDB suggests in place of an unknown one, after a space; empty where it has none."""
    lines = str(error).splitlines()
    return "".join(f" {line}" for line in lines if line.startswith(("Did you mean", "Candidate bindings")))


def show_table(_connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation) -> None:
    """Print the first rows as DuckDB draws them, within the terminal's width."""
    rows.show(max_width=shutil.get_terminal_size((120, 24)).columns, max_rows=MOST_ROWS_SHOWN)


def write_csv(connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation) -> None:
    """Print all rows as CSV, quoted as in RFC 4180, with a header line; lines end in LF, nulls are empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.columns)
    for batch in batches(connection, rows, "COLUMNS(*)::VARCHAR"):
        writer.writerows(batch)


def batches(
    connection: duckdb.DuckDBPyConnection,
    letters_query_row: duckdb.DuckDBPyRelation,  # noqa: ARG001 -- DuckDB's SQL finds variables by their names
    columns: str,
) -> Iterator[list[Any]]:
    """Yield columns of rows in batches; relations cannot do so in DuckDB 2."""
    found = connection.execute(f"SELECT {columns} FROM letters_query_row")
    while batch := found.fetchmany(BATCH_ROWS):
        yield batch


def without_nan(text: str) -> str:
    """Return a JSON object with null for NaN and infinity, which DuckDB writes but JSON does not have."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False, separators=(",", ":"))


def write_json(connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation) -> None:
    """Print all rows as a JSON array with one object a line."""
    before = "["
    for batch in batches(connection, rows, "to_json(letters_query_row)"):
        for [text] in batch:
            echo(f"{before}\n{without_nan(text)}", nl=False)
            before = ","
    echo("[]" if before == "[" else "\n]")
