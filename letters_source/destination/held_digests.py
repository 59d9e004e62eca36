"""Reads which rows a table holds, by the digests in their hashes."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.destination.audits import read_columns
from letters_source.destination.sql import SqlClient
from letters_source.tables import VALID_TO
from letters_source.transform.row_hash import ROW_HASH, VALUES

MOST_ROWS = 50_000
"""The most rows in memory as the database returns them."""


def held_digests(client: SqlClient | None, name: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the ids of a table's current rows, and the digest of each, null for those without one."""
    columns = read_columns(client, name)
    if client is None or ROW_HASH.name not in columns:
        return
    current = f" WHERE {VALID_TO} IS NULL" if VALID_TO in columns else ""
    query = f"SELECT id, {ROW_HASH.name} FROM {client.make_qualified_table_name(name)}{current}"
    with client.execute_query(query) as cursor:
        found: Any = cursor
        for rows in found.iter_arrow(MOST_ROWS):
            ids, hashes = (column.cast(pa.string()).combine_chunks() for column in rows.columns)
            digests = pc.utf8_slice_codeunits(hashes, VALUES, VALUES + 32)
            yield ids, pc.if_else(pc.equal(pc.utf8_length(digests), 32), digests, None)
