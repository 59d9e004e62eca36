"""Hashes of rows, which tell whether a row changed since the last load. Pure."""

from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.tables import UNDOCUMENTED, Column, Kind, Mode, Table

ROW_HASH = Column("row_hash", "", "Hash of the row's values, which tells whether it changed.", required=True)
"""A column of tables that are loaded with history or sync."""

LISTED = "listed"
"""In place of a hash: such a row tells that its contact or template was listed, and is not loaded itself."""

# bytes that no UTF-8 text holds
_SEPARATOR, _NULL = b"\xff", b"\xfe"
_FILLINGS: dict[Kind, Any] = {"text": "", "bigint": -1, "bool": False}


def listed_rows(ids: pa.ChunkedArray, table: Table) -> pa.Table:
    """For each contact or template that is listed, a row that tells a child's table so: it may have no child left."""
    key, *others = table.columns
    columns = [*others, ROW_HASH]
    fillings = {column.name: None if column.nullable else _FILLINGS[column.kind] for column in columns}
    fillings[ROW_HASH.name] = LISTED
    values = (pa.repeat(pa.scalar(fillings[column.name], column.field.type), len(ids)) for column in columns)
    return pa.Table.from_arrays([ids, *values], schema=pa.schema([column.field for column in (key, *columns)]))


def with_hash(rows: pa.Table, table: Table, mode: Mode) -> pa.Table:
    """The rows with their hash; for history that of the documented columns, for sync of all."""
    if mode == "replace":
        return rows
    names = [name for name in table.schema.names if mode == "sync" or name != UNDOCUMENTED.name]
    hashes = pa.array(map(hash_text, row_texts(rows.select(names))), pa.string())
    return rows.append_column(pa.field(ROW_HASH.name, pa.string(), nullable=False), hashes)


def row_texts(rows: pa.Table) -> list[bytes]:
    """Each row as one text, different for different rows."""
    columns = [pc.fill_null(value_texts(column), _NULL) for column in rows.columns]
    joined: list[bytes] = pc.binary_join_element_wise(*columns, _SEPARATOR).to_pylist()
    return joined


def value_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each value as a text; moments as microseconds, as their dates would take longer than all other columns."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.cast(pa.string()).cast(pa.binary())


def hash_text(text: bytes) -> str:
    """A short hash; two of a hundred million rows share one with a chance of one in 10^22."""
    return blake2b(text, digest_size=16).hexdigest()
