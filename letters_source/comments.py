"""How do the descriptions of tables and columns reach a DuckDB file? As comments, which dlt does not write."""

from collections.abc import Iterable, Iterator

import dlt

from letters_source.tables import LOAD_ID, Table


def describe_tables(pipeline: dlt.Pipeline, tables: Iterable[Table]) -> None:
    """Write the comments that a DuckDB destination lacks; others have dlt's schema alone."""
    if not pipeline.destination.destination_type.endswith(".duckdb"):
        return
    with pipeline.sql_client() as client:
        found = client.execute_sql(
            "SELECT table_name || '.', comment FROM duckdb_tables() WHERE schema_name = %s"
            " UNION ALL SELECT table_name || '.' || column_name, comment FROM duckdb_columns() WHERE schema_name = %s",
            client.dataset_name,
            client.dataset_name,
        )
        present = dict(found)
        statements = [
            f"COMMENT ON {kind} {client.make_qualified_table_name(table)}{column and '.' + client.escape_column_name(column)}"
            f" IS {quoted(text)};"
            for kind, table, column, text in descriptions(tables)
            if present.get(f"{table}.{column}") != text
        ]
        if statements:
            client.execute_sql("\n".join(statements))


def descriptions(tables: Iterable[Table]) -> Iterator[tuple[str, str, str, str]]:
    """What is described (TABLE or COLUMN), the table, the column (empty for the table), and the text."""
    for table in tables:
        yield "TABLE", table.name, "", table.description
        for column in (*table.columns, LOAD_ID):
            yield "COLUMN", table.name, column.name, column.description


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
