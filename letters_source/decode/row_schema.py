"""Define the row shape: the Arrow schema in which decoded rows travel to the tables, children nested."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from letters_source.tables import ARROW_TYPES, Table, tables_of

MOST_NAMES = 200  # how many fields of a listing are counted by name
OTHERS = "other fields"  # the name under which all further fields are counted

# a row without a usable id has a null id, the reason, and its raw text
PAGE, POSITION, REASON, RAW = "page", "position", "reason", "raw"
# of the row's bytes in hexadecimal digits, a further column where a load recognizes rows by it
DIGEST = pa.field("digest", pa.string())


@dataclass(frozen=True, slots=True)
class Notes:
    """What decoding noticed."""

    # how often each undocumented field came, and each whose value did not fit
    kept: Counter[str] = field(default_factory=Counter)
    misfits: int = 0  # how many of those values were of documented fields
    numbers: Counter[str] = field(default_factory=Counter)  # how often a number became text, by field
    surrogates: int = 0  # how many unpaired surrogates became U+FFFD; they count as misfits too

    def __add__(self, other: "Notes") -> "Notes":
        return Notes(
            few(self.kept + other.kept),
            self.misfits + other.misfits,
            few(self.numbers + other.numbers),
            self.surrogates + other.surrogates,
        )


def few(times: Counter[str]) -> Counter[str]:
    """Count the first `MOST_NAMES` fields by name and all others together."""
    if len(times) <= MOST_NAMES:
        return times
    named = Counter({name: times[name] for name in list(times)[:MOST_NAMES] if name != OTHERS})
    named[OTHERS] = times.total() - named.total()
    return named


def to_counter(kind: type[Counter[str]], value: dict[str, int]) -> Counter[str]:
    """Return a JSON object as a `Counter`, the only type of `Notes` that msgspec does not know."""
    return kind(value)


def nested_type(table: Table) -> pa.DataType:
    """Return the Arrow type of a child nested in its parent's row, without the parent's key and the position."""
    inner = [pa.field(column.name, ARROW_TYPES[column.kind]) for column in table.columns if not column.key]
    return pa.list_(pa.struct(inner)) if table.origin == "list" else pa.struct(inner)


@cache
def row_schema(listing: str) -> pa.Schema:
    """Return the schema of a listing's rows: the root's columns, its children, and the place of each row."""
    root, *children = tables_of(listing)
    return pa.schema(
        [
            *(pa.field(column.name, ARROW_TYPES[column.kind]) for column in root.columns),
            *(pa.field(child.short, nested_type(child)) for child in children),
            *((PAGE, pa.int64()), (POSITION, pa.int64()), (REASON, pa.string()), (RAW, pa.string())),
        ]
    )


def to_batch(columns: Mapping[str, pa.Array], listing: str, page: int) -> pa.RecordBatch:
    """Return the columns of one page as a batch of the row schema; a column that is not given is null throughout."""
    length = len(columns["id"])
    placed = {PAGE: pa.repeat(pa.scalar(page, pa.int64()), length), POSITION: to_int64(np.arange(length))}
    given = {**columns, **placed}
    schema = row_schema(listing)
    arrays = [given[name] if name in given else pa.nulls(length, schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def objects_in(values: Sequence[Any], table: Table) -> list[Any]:
    """Return all nested objects of a child table in the order of their rows, with None for each misfit."""
    return list(chain.from_iterable(filter(None, values))) if table.origin == "list" else list(values)


def nest(values: Sequence[Any], objects: Sequence[Any], columns: Mapping[str, pa.Array], table: Table) -> pa.Array:
    """Return a child table as a nested column of the row shape.

    `values` has each row's object, list of objects, or None; `objects` is `objects_in(values, table)`, and `columns`
    are the columns of these objects. A column that is not given is null throughout.
    """
    kind = nested_type(table)
    fields = list(kind.value_type if table.origin == "list" else kind)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(len(objects), f.type) for f in fields]
    structs = pa.StructArray.from_arrays(arrays, fields=fields, mask=absent(objects))
    if table.origin == "object":
        return structs
    missing = absent(values)
    lengths = map(len, values) if missing is None else (len(value or ()) for value in values)
    offsets = pa.array(list(accumulate(lengths, initial=0)), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs, type=kind, mask=missing)


def absent(values: Sequence[Any]) -> pa.Array | None:
    """Return a mask of the missing values, or None if none is missing, as Arrow expects."""
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None


def to_int64(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return integers as an Arrow array without a copy; `pa.array` would import `numpy.ma`, slower than a page."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
