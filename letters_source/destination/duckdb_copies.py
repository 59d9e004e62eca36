"""What a copy between DuckDB files must respect: foreign keys, generated columns, comments. Imports no dlt."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter

import duckdb
from duckdb import DuckDBPyConnection

from letters_source.destination.sql import literal, quoted

FIND_TABLES = "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL"
FIND_REFERENCES = """
    SELECT schema_name, table_name, referenced_table FROM duckdb_constraints()
    WHERE database_name = ? AND constraint_type = 'FOREIGN KEY'
"""
FIND_INDEXES = "SELECT schema_name, index_name, sql FROM duckdb_indexes() WHERE database_name = ? ORDER BY ALL"
FIND_OTHERS = """
    SELECT schema_name, sequence_name, sql FROM duckdb_sequences() WHERE database_name = $1
    UNION ALL SELECT schema_name, type_name, '' FROM duckdb_types() WHERE database_name = $1 AND NOT internal
    UNION SELECT schema_name, function_name, '' FROM duckdb_functions() WHERE database_name = $1 AND NOT internal
    ORDER BY ALL
"""
FIND_COLUMNS = """
    SELECT column_name FROM duckdb_columns()
    WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index
"""
FIND_COMMENTS = """
    SELECT 'TABLE', schema_name, table_name, '', comment FROM duckdb_tables() WHERE database_name = $1
    UNION ALL SELECT 'VIEW', schema_name, view_name, '', comment FROM duckdb_views() WHERE database_name = $1
    UNION ALL SELECT 'INDEX', schema_name, index_name, '', comment FROM duckdb_indexes() WHERE database_name = $1
    UNION ALL
    SELECT 'COLUMN', schema_name, table_name, column_name, comment FROM duckdb_columns() WHERE database_name = $1
"""

Comment = tuple[str, ...]
"""Kind, schema, name, column (empty except for columns), comment."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table, a view or an index in a DuckDB file."""

    schema: str
    name: str
    sql: str
    """The statement that creates it."""

    @property
    def quoted(self) -> str:
        """The name for SQL, without a catalog."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def shown(self) -> str:
        """The name for messages."""
        return f"{self.schema}.{self.name}"

    def creation(self, catalog: str) -> str:
        """Return the SQL that creates it in another catalog, which becomes the current one."""
        return f"USE {quoted(catalog)}.{quoted(self.schema)}; {self.sql}"


def opened_catalog(connection: DuckDBPyConnection) -> str:
    """Return DuckDB's name for the file that a connection has opened."""
    [[name]] = connection.execute("SELECT current_database()").fetchall()
    return str(name)


def find_entries(connection: DuckDBPyConnection, query: str, catalog: str) -> list[Entry]:
    """Return what a query finds in a catalog."""
    return [Entry(*row) for row in connection.execute(query, [catalog]).fetchall()]


def find_tables(connection: DuckDBPyConnection, catalog: str) -> tuple[list[Entry], list[Entry]]:
    """Return the tables that can be copied, referenced ones first, and those that cannot.

    DuckDB checks a foreign key while it inserts, so a table that references itself, or one that cannot be copied, takes
    no rows from a query.
    """
    tables = {(table.schema, table.name): table for table in find_entries(connection, FIND_TABLES, catalog)}
    references: dict[tuple[str, str], set[tuple[str, str]]] = {key: set() for key in tables}
    for schema, name, referenced in connection.execute(FIND_REFERENCES, [catalog]).fetchall():
        references[schema, name].add((schema, referenced))
    left_out = {key for key, others in references.items() if key in others}
    order = TopologicalSorter({key: others - {key} for key, others in references.items()})
    ordered = list(order.static_order())
    for key in ordered:
        if references[key] & left_out:
            left_out.add(key)
    return [tables[key] for key in ordered if key not in left_out], [tables[key] for key in ordered if key in left_out]


def written_columns(connection: DuckDBPyConnection, table: Entry, catalog: str) -> str:
    """Return the columns of a table, without generated ones, as in a list of SQL."""
    found = connection.execute(FIND_COLUMNS, [catalog, table.schema, table.name]).fetchall()
    names = [quoted(name) for [name] in found]
    if "GENERATED ALWAYS" in table.sql:
        # DuckDB lists no column as generated, but refuses to write one
        update = f"EXPLAIN UPDATE {quoted(catalog)}.{table.quoted} SET"
        names = [name for name in names if binds(connection, f"{update} {name} = NULL")]
    return ", ".join(names)


def insert_rows(connection: DuckDBPyConnection, table: Entry, columns: str, source: str, target: str) -> None:
    """Insert a table's rows into its empty copy in another catalog."""
    rows = f"SELECT {columns} FROM {quoted(source)}.{table.quoted}"
    connection.execute(f"INSERT INTO {quoted(target)}.{table.quoted} ({columns}) {rows}")


def works(connection: DuckDBPyConnection, statement: str) -> bool:
    """Run a statement; return whether it succeeds."""
    try:
        connection.execute(statement)
    except duckdb.Error:
        return False
    return True


def binds(connection: DuckDBPyConnection, statement: str) -> bool:
    """Run a statement; return whether all that it names is there."""
    try:
        connection.execute(statement)
    except (duckdb.BinderException, duckdb.CatalogException):
        return False
    return True


def find_comments(connection: DuckDBPyConnection, catalog: str) -> list[Comment]:
    """Return the comments in a catalog."""
    found = connection.execute(FIND_COMMENTS, [catalog]).fetchall()
    return [row for row in found if row[-1] is not None]


def write_comments(
    connection: DuckDBPyConnection, comments: Iterable[Comment], names: Collection[tuple[str, str]]
) -> None:
    """Write the comments of the named tables, views and indexes, each a schema and a name, in the current catalog."""
    for kind, schema, name, column, comment in comments:
        if (schema, name) in names:
            place = ".".join(quoted(part) for part in (schema, name, column) if part)
            # DuckDB lists columns of some views under names that it does not accept
            binds(connection, f"COMMENT ON {kind} {place} IS {literal(comment)}")


def shown_names(entries: Iterable[Entry]) -> str:
    """Return the names of entries for messages."""
    return ", ".join(entry.shown for entry in entries)
