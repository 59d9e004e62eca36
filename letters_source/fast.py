"""How are the rows of a page that fits read without making a Python object of each value?"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from letters_source.shape import Notes, part_type
from letters_source.strangers import all_names, is_plain, read_free, read_strangers
from letters_source.tables import UNDOCUMENTED, Column, Kind, Table, tables_of
from letters_source.values import parse_timestamps

# Arrow descends recursively and overruns the stack past some 5,000 levels; documented pages have 6
MAX_DEPTH = 500
# each undocumented field takes an object a row here, whether the row has it or not
MOST_STRANGERS = 200
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_WIRE_TYPES: dict[Kind, pa.DataType] = {"text": pa.string(), "bool": pa.bool_(), "timestamp": pa.string()}
# by how its JSON begins
_SCALARS = {
    b'"': pa.string(),
    b"t": pa.bool_(),
    b"f": pa.bool_(),
    b"n": pa.null(),
    **dict.fromkeys((b"-", *(b"%d" % digit for digit in range(10))), pa.float64()),
}
_ROW = msgspec.json.Decoder(dict[str, msgspec.Raw])


class DoesNotFit(Exception):
    """The page needs the tolerant way."""


def read_rows(body: bytes, raws: Sequence[msgspec.Raw], listing: str) -> tuple[dict[str, pa.Array], Notes]:
    """The columns of a page's rows.

    Args:
        body: the page.
        raws: its rows as they came.
        listing: which listing it is of.

    Raises:
        DoesNotFit: something in the page is not of its documented type, or a row has no usable id.
    """
    if is_deep(body, raws):
        raise DoesNotFit
    root, *children = tables_of(listing)
    rows, strangers = read_json(body, raws, listing)
    if rows.null_count or has_gaps(rows.field("id")) or holds_nul(rows):
        raise DoesNotFit
    columns = {column.name: read_column(rows.field(column.wire), column.kind) for column in root.documented}
    columns |= {child.short: read_part(rows.field(child.wire), child, body) for child in children}
    if not strangers:
        return columns, Notes()
    texts, kept = read_strangers(body, tuple(sorted(strangers)))
    return columns | {UNDOCUMENTED.name: texts}, Notes(kept)


def is_deep(body: bytes, raws: Sequence[msgspec.Raw]) -> bool:
    """Whether a page nests deeper than `MAX_DEPTH`, give or take the levels of the envelope.

    A level takes two brackets, for which most rows, and what is around them, have not the length.
    """
    lengths, commas = list(map(len, raws)), len(raws) - 1
    around = len(body) - sum(lengths) - commas
    return max([around, *lengths]) > 2 * MAX_DEPTH and nesting(body) > MAX_DEPTH


def nesting(body: bytes) -> int:
    """How deep brackets nest. Those in texts count too, so the depth may be another."""
    brackets = np.frombuffer(body.translate(None, _NOT_BRACKETS), np.uint8)
    # the codes of closing brackets, 0x5D and 0x7D, have a bit that the opening 0x5B and 0x7B lack
    return int(np.where(brackets & 0x04, -1, 1).cumsum().max(initial=0))


def read_json(body: bytes, raws: Sequence[msgspec.Raw], listing: str) -> tuple[pa.StructArray, set[str]]:
    """The rows as Arrow reads them, and the names of their undocumented fields.

    Arrow is told those of the first row, and refuses a page with another, or with free contents. Then it passes all of
    them over, and msgspec tells the names. Arrow never infers what they are: where objects have keys of their own in
    each row, that would take gigabytes.
    """
    expected = first_strangers(raws, listing)
    try:
        return parse(body, wire_schema(listing, expected), "error"), {field.name for field in expected}
    except pa.ArrowInvalid:
        pass
    try:
        strangers = all_names(body, listing) - wire_names(listing)
        check_strangers(strangers)
        return parse(body, wire_schema(listing, None), "ignore"), strangers
    except (pa.ArrowInvalid, msgspec.DecodeError):
        raise DoesNotFit from None


def first_strangers(raws: Sequence[msgspec.Raw], listing: str) -> frozenset[pa.Field]:
    """The undocumented fields of the first row, but for objects and lists."""
    try:
        row = _ROW.decode(raws[0]) if raws else {}
    except msgspec.ValidationError:
        raise DoesNotFit from None
    strangers = row.keys() - wire_names(listing)
    check_strangers(strangers)
    kinds = {name: _SCALARS.get(bytes(row[name])[:1]) for name in strangers}
    return frozenset(pa.field(name, kind) for name, kind in kinds.items() if kind)


def check_strangers(names: Collection[str]) -> None:
    """Raise `DoesNotFit` where undocumented fields are too many, or not written in JSON as they are."""
    if len(names) > MOST_STRANGERS or not all(map(is_plain, names)):
        raise DoesNotFit


def parse(body: bytes, schema: pa.Schema, unexpected: str) -> pa.StructArray:
    """The rows of a page; raises `pa.ArrowInvalid` where something is not as the schema has it."""
    table = pj.read_json(
        pa.BufferReader(body),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, newlines_in_values=b"\n" in body, unexpected_field_behavior=unexpected
        ),
    )
    return table.column("data").chunk(0).field("rows").flatten()


@lru_cache(maxsize=64)
def wire_schema(listing: str, strangers: frozenset[pa.Field] | None) -> pa.Schema:
    """The documented envelope as an Arrow schema, without its message and fields of free contents.

    With undocumented fields, if only none, it has these and all else: the message, and fields of free contents as null.
    """
    root, *children = tables_of(listing)
    whole = strangers is not None
    parts = [pa.field(child.wire, wire_type(child, whole=whole)) for child in children]
    row = pa.struct([*wire_fields(root), *parts, *(strangers or ())])
    data = pa.field("data", pa.struct([("count", pa.int64()), ("rows", pa.list_(row))]))
    return pa.schema([pa.field("message", pa.string()), data] if whole else [data])


def wire_type(table: Table, *, whole: bool) -> pa.DataType:
    """The documented type of a nested part."""
    free = [pa.field(column.wire, pa.null()) for column in table.documented if column.kind == "json" and whole]
    part = pa.struct([*wire_fields(table), *free])
    return pa.list_(part) if table.part == "list" else part


def wire_fields(table: Table) -> list[pa.Field]:
    """The documented fields of one object."""
    return [pa.field(c.wire, _WIRE_TYPES[c.kind]) for c in table.documented if c.kind in _WIRE_TYPES]


@cache
def wire_names(listing: str) -> frozenset[str]:
    """The documented names of a row's fields."""
    root, *children = tables_of(listing)
    return root.wires | {child.wire for child in children}


def has_gaps(ids: pa.Array) -> bool:
    """Whether an id is null or empty."""
    if ids.null_count or not len(ids):
        return bool(ids.null_count)
    offsets = np.frombuffer(ids.buffers()[1], np.int32, len(ids) + 1)
    return not np.diff(offsets).all()


def holds_nul(values: pa.Array) -> bool:
    """Whether NUL is in any text, which engines could not hold.

    Columns are copied as bytes, for NumPy would let go of Python's lock and wait to get it again: a walk would take a
    tenth longer.
    """
    if pa.types.is_struct(values.type):
        return any(holds_nul(values.field(place)) for place in range(values.type.num_fields))
    if pa.types.is_list(values.type):
        return holds_nul(values.values)
    letters = values.buffers()[2] if pa.types.is_string(values.type) else None
    return letters is not None and b"\0" in letters.to_pybytes()


def read_column(values: pa.Array, kind: Kind) -> pa.Array:
    """A documented field as its column."""
    if kind != "timestamp":
        return values
    stamps = parse_timestamps(values)
    if stamps.null_count != values.null_count:
        raise DoesNotFit
    return stamps


def read_part(values: pa.Array, table: Table, body: bytes) -> pa.Array:
    """A nested object or list of objects as it lies in the row shape."""
    kind = part_type(table)
    if table.part == "object":
        return read_objects(values, table, kind, body)
    if values.values.null_count:
        raise DoesNotFit
    objects = read_objects(values.values, table, kind.value_type, body)
    return pa.ListArray.from_arrays(values.offsets, objects, type=kind, mask=values.is_null())


def read_objects(objects: pa.StructArray, table: Table, kind: pa.StructType, body: bytes) -> pa.StructArray:
    """Nested objects under their columns' names."""
    given = {field.name: objects.field(field.name) for field in objects.type}
    columns = {column.name: read_nested(given, column, table, body) for column in table.documented}
    arrays = [columns[f.name] if f.name in columns else pa.nulls(len(objects), f.type) for f in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=objects.is_null())


def read_nested(given: Mapping[str, pa.Array], column: Column, table: Table, body: bytes) -> pa.Array:
    """A documented field of nested objects; free contents come from the page, as the service wrote them."""
    values = given.get(column.wire)
    if values is None:
        return read_free(body, table.wire, column.wire)
    return values.cast(pa.string()) if column.kind == "json" else values
