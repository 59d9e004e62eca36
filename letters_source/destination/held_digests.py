"""Reads which rows a table holds, by the digests in their hashes."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from letters_source.decode.known import DIGEST_SIZE
from letters_source.destination.audits import read_columns
from letters_source.destination.sql import SqlClient
from letters_source.tables import VALID_TO, Table, tables_of
from letters_source.transform.row_hash import ROW_HASH

MOST_ROWS = 50_000
"""The most rows in memory as the database returns them."""


def held_digests(client: SqlClient | None, name: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the ids of a listing's current rows, and the digest of each, null for those without one.

    Ids of which only child rows are left, as someone deleted their row, have none.
    """
    columns = read_columns(client, name)
    if client is None or ROW_HASH.name not in columns:
        return
    current = f" WHERE {VALID_TO} IS NULL" if VALID_TO in columns else ""
    # first, while there are no digests in memory; a child table may not exist yet
    for child in (child for child in tables_of(name)[1:] if read_columns(client, child.name)):
        for rows in arrow_batches(client, orphans_query(client, name, child, current)):
            yield rows.column(0).cast(pa.string()), pa.nulls(rows.num_rows, pa.string())
    query = f"SELECT id, {ROW_HASH.name} FROM {client.make_qualified_table_name(name)}{current}"
    for rows in arrow_batches(client, query):
        ids, hashes = (column.cast(pa.string()) for column in rows.columns)
        # a hash of values is as long, but no row has it as its digest
        yield ids, pc.if_else(pc.equal(pc.utf8_length(hashes), 2 * DIGEST_SIZE), hashes, None)


def orphans_query(client: SqlClient, parent: str, child: Table, current: str) -> str:
    """Return SQL for the ids of which a child table has current rows, and its parent none."""
    children, parents = (client.make_qualified_table_name(each) for each in (child.name, parent))
    return f"SELECT {child.key[0]} FROM {children}{current} EXCEPT SELECT id FROM {parents}{current}"


def arrow_batches(client: SqlClient, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query as Arrow."""
    connection = getattr(client, "native_connection", None)
    if isinstance(connection, DuckDBPyConnection):
        # through dlt's cursor, DuckDB 2 copies all rows, and warns
        yield from connection.sql(query).to_arrow_reader(MOST_ROWS)
        return
    with client.execute_query(query) as cursor:
        found: Any = cursor
        for rows in found.iter_arrow(MOST_ROWS):
            yield from rows.combine_chunks().to_batches()
