"""Adds descriptions, primary keys, and views of current rows to a destination."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from dlt.common.schema import Schema
from dlt.common.schema.typing import TTableFormat
from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination.sql import fetch_rows, literal
from letters_source.tables import VALID_FROM, VALID_TO, Table
from letters_source.transform.row_hash import ROW_HASH

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from dlt.destinations.impl.filesystem.filesystem import FilesystemClient
    from pyiceberg.table import Table as IcebergTable

# each row: table, column (empty for the table itself), comment
FIND_COMMENTS = {
    "duckdb": """
        SELECT table_name, '', comment FROM duckdb_tables() WHERE schema_name = %s
        UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() WHERE schema_name = %s
    """,
    "postgres": """
        SELECT relname, '', obj_description(oid) FROM pg_class WHERE relnamespace = to_regnamespace(%s)
        UNION ALL SELECT relname, attname, col_description(attrelid, attnum)
        FROM pg_attribute JOIN pg_class ON oid = attrelid WHERE relnamespace = to_regnamespace(%s)
    """,
}


KEYS_IN, VIEWS_IN = ("postgres",), ("duckdb",)
"""The kinds of destinations with primary keys, and with views of current rows."""


def describe_tables(client: SqlClientBase[Any], kind: str, tables: Iterable[Table]) -> None:
    """Write missing comments to DuckDB or PostgreSQL (`kind`), in one transaction."""
    found = fetch_rows(client, FIND_COMMENTS[kind], client.dataset_name, client.dataset_name)
    present = {(table, column): comment for table, column, comment in found}
    missing = [item for item in descriptions(tables) if present.get(item[1:3]) != item[3]]
    if missing:
        statements = "".join(comment_statement(client, *item) for item in missing)
        # one commit per statement takes four times as long
        client.execute_sql(f"BEGIN;\n{statements}COMMIT;")


def comment_statement(client: SqlClientBase[Any], kind: str, table: str, column: str, text: str) -> str:
    """Return the SQL that sets a comment."""
    name = client.make_qualified_table_name(table)
    if column:
        name += f".{client.escape_column_name(column)}"
    return f"COMMENT ON {kind} {name} IS {literal(text)};\n"


def descriptions(tables: Iterable[Table]) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each description: TABLE or COLUMN, the table, the column (empty for a table), and the text."""
    for table in tables:
        yield "TABLE", table.name, "", table.description
        for column in table.loaded:
            yield "COLUMN", table.name, column.name, column.description


def describe_lake(client: "FilesystemClient", tables: Iterable[Table]) -> None:
    """Write missing descriptions to Delta and Iceberg tables; plain Parquet files have them in the Arrow schema."""
    for table in tables:
        for form, describe in DESCRIBE.items():
            if client.is_open_table(form, table.name):
                describe(client.load_open_table(form, table.name), table)


def describe_delta(found: "DeltaTable", table: Table) -> None:
    """Describe a Delta table, with one commit per description: deltalake cannot set several at once."""
    if found.metadata().description != table.description:
        found.alter.set_table_description(table.description)
    comments = {field.name: field.metadata.get("comment") for field in found.schema().fields}
    for column in table.loaded:
        if comments[column.name] != column.description:
            found.alter.set_column_metadata(column.name, {"comment": column.description})


def describe_iceberg(found: "IcebergTable", table: Table) -> None:
    """Describe an Iceberg table and set its identifier fields in one commit; pyiceberg skips an unchanged schema."""
    with found.transaction() as transaction:
        if found.properties.get("comment") != table.description:
            transaction.set_properties(comment=table.description)
        with transaction.update_schema() as update:
            for column in table.loaded:
                update.update_column(column.name, doc=column.description)
            update.set_identifier_fields(*table.key)


DESCRIBE: dict[TTableFormat, Callable[[Any, Table], None]] = {"delta": describe_delta, "iceberg": describe_iceberg}


FIND_KEYS = """
    SELECT table_name FROM information_schema.table_constraints
    WHERE table_schema = %s AND constraint_type = 'PRIMARY KEY'
"""


def create_keys(client: SqlClientBase[Any], schema: Schema, tables: Iterable[Table]) -> None:
    """Create missing primary keys in PostgreSQL; for other destinations, only dlt's schema records them."""
    found = fetch_rows(client, FIND_KEYS, client.dataset_name)
    present = {name for [name] in found}
    for table in tables:
        if table.key and table.name not in present:
            versions = [VALID_FROM] if VALID_FROM in schema.get_table_columns(table.name) else []
            names = ", ".join(map(client.escape_column_name, [*table.key, *versions]))
            client.execute_sql(f"ALTER TABLE {client.make_qualified_table_name(table.name)} ADD PRIMARY KEY ({names})")


def create_current_views(client: SqlClientBase[Any], tables: Iterable[Table]) -> None:
    """Create a view `<table>_current` for each table with history: its current rows, without the SCD2 columns."""
    for table in tables:
        view, name = (client.make_qualified_table_name(each) for each in (f"{table.name}_current", table.name))
        client.execute_sql(
            f"CREATE OR REPLACE VIEW {view} AS SELECT * EXCLUDE ({ROW_HASH.name}, {VALID_FROM}, {VALID_TO}) "
            f"FROM {name} WHERE {VALID_TO} IS NULL"
        )
