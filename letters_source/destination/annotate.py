"""Comments on tables and columns, in databases that have them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination.cleanup import adopt_unfinished
from letters_source.destination.place import Written
from letters_source.destination.sql import fetch_rows, literal
from letters_source.results import Audit
from letters_source.tables import Table
from letters_source.transform.row_hash import ROW_HASH


def adopt_and_describe(
    client: SqlClientBase[Any], written: Written, audits: Sequence[Audit], find_comments: str
) -> None:
    """Take over unchanged rows of unfinished loads, and write comments that the query `find_comments` does not find."""
    adopt_unfinished(client, written.load_id, written.tables, {audit["listing"]: audit["mode"] for audit in audits})
    describe_tables(client, find_comments, written.tables)


def describe_tables(client: SqlClientBase[Any], find_comments: str, tables: Iterable[Table]) -> None:
    """Write missing comments of the tables and columns that exist, in one transaction."""
    found = fetch_rows(client, find_comments, client.dataset_name, client.dataset_name)
    present = {(table, column): comment for table, column, comment in found}
    missing = [item for item in descriptions(tables) if item[1:3] in present and present[item[1:3]] != item[3]]
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
        for column in (*table.loaded, ROW_HASH):
            yield "COLUMN", table.name, column.name, column.description
