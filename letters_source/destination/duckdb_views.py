"""Creates the views of one DuckDB file in another, where the first file's name is unknown. Imports no dlt."""

import json
import re
from collections.abc import Sequence
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from letters_source.destination.duckdb_copies import Entry, works

FIND_VIEWS = (
    "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = ? AND NOT internal ORDER BY ALL"
)
LONG_NAME = 4
"""The parts of a column's name that begins with a catalog."""
WHOLE_NAME = 3
"""The parts of a table's name that begins with a catalog."""


def mentions(view: Entry, catalog: str) -> bool:
    """Return whether a view may name the catalog that it is in; dbt's views do."""
    return re.search(rf"(?<!\w){re.escape(catalog)}(?!\w)", view.sql, re.IGNORECASE) is not None


def create_views(connection: DuckDBPyConnection, views: Sequence[Entry], source: str, target: str) -> list[Entry]:
    """Create or replace views of one catalog in another; return those that work there, as they were created."""
    created: list[Entry] = []
    found: list[Entry] | None = None
    # one view may query another
    while found is None or found:
        waiting = (view for view in views if view not in created)
        found = [view for view in waiting if works(connection, moved(connection, view, source, target))]
        created += found
    return created


def moved(connection: DuckDBPyConnection, view: Entry, source: str, target: str) -> str:
    """Return the SQL that creates or replaces a view of one catalog in another."""
    return Entry(view.schema, view.name, portable(connection, view.sql, source)).creation(target)


def portable(connection: DuckDBPyConnection, sql: str, catalog: str) -> str:
    """Return the statement that creates or replaces a view, with names that do not begin with the catalog."""
    start = query_start(sql)
    head, query = sql[:start].replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1), sql[start:].rstrip(";")
    [[parsed]] = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    tree = without_catalog(json.loads(parsed), catalog.lower())
    if tree["error"]:
        return f"{head}{query}"
    [[written]] = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
    return f"{head}{written}"


def query_start(sql: str) -> int:
    """Return where the query begins in DuckDB's own CREATE VIEW statement: after the first keyword AS."""
    # DuckDB counts bytes, not characters
    text = sql.encode()
    offsets = (offset for offset, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.keyword)
    start = next(offset for offset in offsets if re.match(rb"AS\b", text[offset:])) + len("AS ")
    return len(text[:start].decode())


def without_catalog(node: Any, catalog: str) -> Any:
    """Return a query, as DuckDB parses it, with names that do not begin with the catalog, given in lower case."""
    if isinstance(node, list):
        return [without_catalog(each, catalog) for each in node]
    if not isinstance(node, dict):
        return node
    return {key: shortened(key, without_catalog(value, catalog), catalog) for key, value in node.items()}


def shortened(key: str, value: Any, catalog: str) -> Any:
    """Return the value of a node's key without the catalog."""
    if key == "column_names" and len(value) >= LONG_NAME and value[0].lower() == catalog:
        return value[1:]
    # DuckDB 2 has the parts of a table's name in a list too
    if key == "path" and value and value[0].lower() == catalog:
        return value[1:] if len(value) >= WHOLE_NAME else ["main", *value[1:]]
    if isinstance(value, str) and value.lower() == catalog:
        # `letters.contacts` can be a table in the schema main
        return {"catalog_name": "", "catalog": "", "schema_name": "main", "schema": "main"}.get(key, value)
    return value
