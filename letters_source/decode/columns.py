"""Turn the fields of a page's objects, decoded into structs or raw JSON values, into Arrow arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from letters_source.decode.row_schema import nest, objects_in
from letters_source.decode.values import NUL, Misfit, is_number, json_texts, parse_timestamps, read_value
from letters_source.tables import ARROW_TYPES, Column, ColumnKind, Table, tables_of

StructType = type[msgspec.Struct]
StructField = tuple[str, Any] | tuple[str, Any, Any]
"""A field of a struct: its name, its type, and its default if it has one."""
NULL = msgspec.Raw(b"null")
# maximum nesting (RFC 8259, section 9, permits one): Python up to 3.13 recurses about this deep. A value of fewer bytes
# cannot nest deeper
DEEPEST = 950
_TYPES: dict[ColumnKind, Any] = {"text": str | None, "bool": bool | None, "timestamp": str | None, "json": msgspec.Raw}
_LISTS = {kind: msgspec.json.Decoder(GenericAlias(list, (item,))) for kind, item in _TYPES.items()}


class DoesNotFit(Exception):
    """A page does not fit its documented types."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of many objects as a column."""

    array: pa.Array
    misfits: Sequence[int]  # the positions of the values that do not fit
    numbers: int  # how many values were numbers and became text


def row_type(listing: str) -> StructType:
    """Return the struct of a listing's rows; decoding fails on undocumented fields and unusable ids."""
    root, *children = tables_of(listing)
    return struct_type(root, tuple(children))


@cache
def struct_type(table: Table, children: tuple[Table, ...] = ()) -> StructType:
    """Return the struct of a table's objects, with the nested objects of its children."""
    return msgspec.defstruct(
        table.name,
        [*map(struct_field, table.documented), *map(nested_field, children)],
        rename={column.name: column.wire for column in table.documented} | {c.short: c.wire for c in children},
        forbid_unknown_fields=True,
        gc=False,
    )


def nested_field(child: Table) -> StructField:
    """Return nested objects as the field of a struct."""
    struct = struct_type(child)
    kind = GenericAlias(list, (struct,)) if child.origin == "list" else struct
    return child.short, kind | None, None


def struct_field(column: Column) -> StructField:
    """Return a column as the field of a struct."""
    if column.key:
        return column.name, Annotated[str, msgspec.Meta(min_length=1)]
    return column.name, _TYPES[column.kind], NULL if column.kind == "json" else None


def read_structs(rows: Sequence[msgspec.Struct], listing: str) -> dict[str, pa.Array]:
    """Return the columns of rows that were decoded into structs, or raise `DoesNotFit`."""
    root, *children = tables_of(listing)
    fields = transpose(rows, row_type(listing))
    columns = struct_columns(fields, root)
    for child, values in zip(children, fields[len(root.documented) :], strict=True):
        kind = struct_type(child)
        objects, blank = objects_in(values, child), kind()
        nested = struct_columns(transpose([each or blank for each in objects], kind), child)
        columns[child.short] = nest(values, objects, nested, child)
    return columns


def transpose(objects: Sequence[msgspec.Struct], kind: StructType) -> list[Sequence[Any]]:
    """Return the values of structs field by field."""
    # a tuple for each struct would trigger garbage collection over and over
    return [list(map(attrgetter(name), objects)) for name in kind.__struct_fields__]


def struct_columns(fields: Sequence[Sequence[Any]], table: Table) -> dict[str, pa.Array]:
    """Return the documented columns of a table from the first fields of its structs."""
    columns = {}
    for column, values in zip(table.documented, fields, strict=False):
        if column.kind == "json" and max(map(len, values), default=0) > DEEPEST:
            raise DoesNotFit
        columns[column.name] = array = to_array(values, column.kind)
        if holds_nul(array) or unparsed(values, array, column.kind):
            raise DoesNotFit
    return columns


def holds_nul(array: pa.Array) -> bool:
    """Return whether a text column contains NUL; searching the whole page for its escape would take 0.3 ms."""
    letters = array.buffers()[2] if pa.types.is_string(array.type) else None
    return letters is not None and NUL.encode() in letters.to_pybytes()


def read_field(raws: Sequence[msgspec.Raw], kind: ColumnKind) -> Field:
    """Return one field's raw values as a column, and which of them do not fit."""
    values, misfits, numbers = read_values(raws, kind)
    array = to_array(values, kind)
    return Field(array, [*misfits, *unparsed(values, array, kind)], numbers)


def read_values(raws: Sequence[msgspec.Raw], kind: ColumnKind) -> tuple[list[Any], list[int], int]:
    """Return raw values decoded, one by one if any does not fit, and misfits and numbers as in `Field`."""
    joined = join(raws)
    if kind == "json" or b"\\u0000" not in joined:
        try:
            return _LISTS[kind].decode(joined), [], 0
        except msgspec.DecodeError:
            pass
    return read_each(raws, kind)


def read_each(raws: Sequence[msgspec.Raw], kind: ColumnKind) -> tuple[list[Any], list[int], int]:
    """Decode raw values one by one."""
    values: list[Any] = []
    misfits = []
    for position, raw in enumerate(map(bytes, raws)):
        try:
            values.append(read_value(raw, kind))
        except Misfit as misfit:
            values.append(misfit.stands_in)
            misfits.append(position)
    return values, misfits, sum(map(is_number, map(bytes, raws))) if kind == "text" else 0


def join(raws: Sequence[msgspec.Raw]) -> bytes:
    """Return JSON values as one JSON array."""
    return b"[" + b",".join(raws) + b"]"


def to_array(values: Sequence[Any], kind: ColumnKind) -> pa.Array:
    """Return values as a column; JSON columns take raw JSON, timestamps text."""
    if kind == "json":
        values = [None if text == "null" else text for text in json_texts(values)]
    if kind == "timestamp":
        return parse_timestamps(pa.array(values, pa.string()))
    return pa.array(values, ARROW_TYPES[kind])


def unparsed(values: Sequence[Any], array: pa.Array, kind: ColumnKind) -> list[int]:
    """Return the positions of texts that are not valid timestamps."""
    if kind != "timestamp" or array.null_count == values.count(None):
        return []
    valid = array.is_valid().to_pylist()
    return [position for position, text in enumerate(values) if text is not None and not valid[position]]
