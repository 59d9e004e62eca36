"""Hash rows, to see which of them changed since the last load. Pure."""

import json
from hashlib import blake2b
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.tables import UNDOCUMENTED, Column, ColumnKind, Mode, Table

ROW_HASH = Column("row_hash", "", "Hash of the row, which tells whether it changed.", required=True)
"""A column of tables that are loaded in mode history or sync."""

LISTED = "listed"
"""A marker instead of a hash: such a row only says whose rows in the destination are superseded, and is not loaded."""

# bytes that never occur in UTF-8
_SEPARATOR, _NULL = b"\xff", b"\xfe"
_FILLINGS: dict[ColumnKind, Any] = {"text": "", "bigint": -1, "bool": False}


def listed_rows(ids: pa.Array, table: Table) -> pa.Table:
    """Return a marker row in a table for each of these contacts or templates, of which no rows may be left."""
    key, *others = table.columns
    columns = [*others, ROW_HASH]
    fillings = {column.name: None if column.nullable else _FILLINGS[column.kind] for column in columns}
    fillings[ROW_HASH.name] = LISTED
    values = (pa.repeat(pa.scalar(fillings[column.name], column.field.type), len(ids)) for column in columns)
    return pa.Table.from_arrays([ids, *values], schema=pa.schema([column.field for column in (key, *columns)]))


def with_hash(rows: pa.Table, table: Table, mode: Mode, digests: pa.ChunkedArray | None = None) -> pa.Table:
    """Return the rows with their digests, or a hash: of all columns for sync, of the documented columns for history."""
    if mode == "replace":
        return rows
    hashes = hash_rows(rows, table, mode) if digests is None else digests
    return rows.append_column(pa.field(ROW_HASH.name, pa.string(), nullable=False), hashes)


def hash_rows(rows: pa.Table, table: Table, mode: Mode) -> pa.StringArray:
    """Return the hash of each row's values."""
    names = [name for name in table.schema.names if mode == "sync" or name != UNDOCUMENTED.name]
    compared = rows.select(names) if mode == "sync" else with_even_json(rows.select(names), table)
    return pa.array(map(hash_text, row_texts(compared)), pa.string())


def with_even_json(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows with equal JSON values as equal texts, so that a space makes no version."""
    for name in {column.name for column in table.columns if column.kind == "json"}.intersection(rows.column_names):
        texts = pa.array([text and even_json(text) for text in rows[name].to_pylist()], pa.string())
        rows = rows.set_column(rows.column_names.index(name), name, texts)
    return rows


def even_json(text: str) -> str:
    """Return JSON without spaces and with sorted keys; or the text, if Python cannot read a number of that length."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def row_texts(rows: pa.Table) -> list[bytes]:
    """Return each row as one text; different rows have different texts."""
    columns = [pc.fill_null(value_texts(column), _NULL) for column in rows.columns]
    return cast("list[bytes]", pc.binary_join_element_wise(*columns, _SEPARATOR).to_pylist())


def value_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return each value as text; timestamps as microseconds, as dates take longer than all other columns."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.cast(pa.string()).cast(pa.binary())


def hash_text(text: bytes) -> str:
    """Return a hash of 128 bits; two of a hundred million rows collide with a probability of 10^-22."""
    return blake2b(text, digest_size=16).hexdigest()
