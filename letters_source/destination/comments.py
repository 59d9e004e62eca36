"""How do the descriptions of tables and columns reach a destination? As comments, which dlt does not write."""

from collections.abc import Iterable, Iterator
from typing import Any

import dlt

from letters_source.destination.lake_comments import describe_lake
from letters_source.destination.quoting import literal
from letters_source.destination.sql import open_sql
from letters_source.destination.traits import engine, is_files
from letters_source.tables import Table

# the table, the column (empty for the table), and the comment
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


def describe_tables(pipeline: dlt.Pipeline, tables: Iterable[Table]) -> None:
    """Write the comments that DuckDB, PostgreSQL, Delta or Iceberg lacks.

    Parquet files have them from the start; other destinations have dlt's schema alone.
    """
    if is_files(pipeline):
        describe_lake(pipeline.destination_client(), tables)
    query = FIND_COMMENTS.get(engine(pipeline))
    if not query:
        return
    with open_sql(pipeline) as client:
        found: Any = client.execute_sql(query, client.dataset_name, client.dataset_name)
        present = {(table, column): comment for table, column, comment in found}
        lacking = [item for item in descriptions(tables) if present.get(item[1:3]) != item[3]]
        if lacking:
            statements = "".join(comment_statement(client, *item) for item in lacking)
            # one transaction: each statement on its own is written to the file by itself, at four times the time
            client.execute_sql(f"BEGIN;\n{statements}COMMIT;")


def comment_statement(client: Any, kind: str, table: str, column: str, text: str) -> str:
    """The SQL that sets a comment."""
    name = client.make_qualified_table_name(table)
    if column:
        name += f".{client.escape_column_name(column)}"
    return f"COMMENT ON {kind} {name} IS {literal(text)};\n"


def descriptions(tables: Iterable[Table]) -> Iterator[tuple[str, str, str, str]]:
    """What is described (TABLE or COLUMN), the table, the column (empty for the table), and the text."""
    for table in tables:
        yield "TABLE", table.name, "", table.description
        for column in table.loaded:
            yield "COLUMN", table.name, column.name, column.description
