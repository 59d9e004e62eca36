"""In which shape do a listing's rows travel between decode and tables?

One Arrow row for each wire row, in wire order, children nested: what the spool holds.
A row without a usable id has a null id and its `reason` and `raw` text instead.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from letters_source.tables import ARROW_TYPES, Table, tables_of

MOST_NAMES = 200
"""The fields of a listing that are told by name, at most."""
OTHERS = "other fields"
"""What the rest of them are called together."""

PAGE, POSITION, REASON, RAW = "page", "position", "reason", "raw"


@dataclass(frozen=True, slots=True)
class Notes:
    """What decoding noticed.

    Args:
        kept: how often each field was kept as `undocumented`.
        misfits: how many of those values were of documented fields.
        numbers: how often a number came where text is documented, and became its text, by field.
        halves: how many halves of surrogate pairs became U+FFFD; they are misfits too.
    """

    kept: Counter[str] = field(default_factory=Counter)
    misfits: int = 0
    numbers: Counter[str] = field(default_factory=Counter)
    halves: int = 0

    def __add__(self, other: "Notes") -> "Notes":
        return Notes(
            few(self.kept + other.kept),
            self.misfits + other.misfits,
            few(self.numbers + other.numbers),
            self.halves + other.halves,
        )


def few(times: Counter[str]) -> Counter[str]:
    """How often each field came: so many fields by their names, and all others together."""
    if len(times) <= MOST_NAMES:
        return times
    told = Counter({name: times[name] for name in list(times)[:MOST_NAMES] if name != OTHERS})
    told[OTHERS] = times.total() - told.total()
    return told


def part_type(table: Table) -> pa.DataType:
    """The Arrow type of a child as it lies nested in its parent's row: without the parent's key and its position."""
    inner = [pa.field(column.name, ARROW_TYPES[column.kind]) for column in table.columns if not column.key]
    return pa.list_(pa.struct(inner)) if table.part == "list" else pa.struct(inner)


@cache
def row_schema(listing: str) -> pa.Schema:
    """The Arrow schema of a listing's rows: the root's columns, its children, and where each row lay."""
    root, *children = tables_of(listing)
    return pa.schema(
        [
            *(pa.field(column.name, ARROW_TYPES[column.kind]) for column in root.columns),
            *(pa.field(child.short, part_type(child)) for child in children),
            pa.field(PAGE, pa.int64()),
            pa.field(POSITION, pa.int64()),
            pa.field(REASON, pa.string()),
            pa.field(RAW, pa.string()),
        ]
    )


def to_batch(columns: Mapping[str, pa.Array], listing: str, page: int) -> pa.RecordBatch:
    """The columns of one page as a batch of the row schema; a column that is not given is null throughout."""
    length = len(columns["id"])
    placed = {PAGE: pa.repeat(pa.scalar(page, pa.int64()), length), POSITION: to_int64(np.arange(length))}
    given = {**columns, **placed}
    schema = row_schema(listing)
    arrays = [given[name] if name in given else pa.nulls(length, schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_int64(values: npt.NDArray[np.int64]) -> pa.Array:
    """As Arrow's, without a copy; `pa.array` would import NumPy's masked arrays, which takes longer than a page."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
