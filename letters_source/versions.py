"""How is a row written that the destination may hold already? The modes of a load, and the hash that tells a change."""

from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.settings import Mode
from letters_source.tables import UNDOCUMENTED, Column, Table

ROW_HASH = Column("row_hash", "", "Hash of the row's values, which tells whether it changed.", required=True)
"""A column of tables that are loaded with history or sync."""

# bytes that no UTF-8 text holds
_SEPARATOR, _NULL = b"\xff", b"\xfe"


def write_disposition(mode: Mode) -> Any:
    """How dlt shall write a table of a listing.

    - replace: all rows anew.
    - sync: rows by their key; those that did not change are left untouched, those that are gone are deleted.
    - history: a row for each version, valid from and to.
    """
    if mode == "replace":
        return {"disposition": "replace"}
    version = {"disposition": "merge", "row_version_column_name": ROW_HASH.name}
    if mode == "sync":
        return {**version, "strategy": "cdc", "skip_unchanged_rows": True}
    return {**version, "strategy": "scd2"}


def merge_key(table: Table, mode: Mode, *, filtered: bool) -> str | tuple[str, ...]:
    """With filters, history ends former versions of listed rows only: what is not listed may just be left out."""
    return table.key[0] if mode == "history" and filtered else ()


def with_hash(rows: pa.Table, table: Table, mode: Mode) -> pa.Table:
    """The rows with their hash; for history that of the documented columns, for sync of all."""
    if mode == "replace":
        return rows
    names = [name for name in table.schema.names if mode == "sync" or name != UNDOCUMENTED.name]
    hashes = pa.array(map(hash_text, row_texts(rows.select(names))), pa.string())
    return rows.append_column(pa.field(ROW_HASH.name, pa.string(), nullable=False), hashes)


def row_texts(rows: pa.Table) -> list[bytes]:
    """Each row as one text, different for different rows."""
    columns = [pc.fill_null(column.cast(pa.string()).cast(pa.binary()), _NULL) for column in rows.columns]
    joined: list[bytes] = pc.binary_join_element_wise(*columns, _SEPARATOR).to_pylist()
    return joined


def hash_text(text: bytes) -> str:
    """A short hash; two of a hundred million rows share one with a chance of one in 10^22."""
    return blake2b(text, digest_size=16).hexdigest()
