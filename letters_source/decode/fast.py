"""How are the rows of a page that fits read without making a Python object of each value?"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from letters_source.decode.row_schema import Notes, part_type
from letters_source.decode.undocumented import all_names, is_plain, read_free, read_strangers
from letters_source.decode.values import NUMBER_STARTS, OBJECT, parse_timestamps
from letters_source.decode.wire import parse_documented, parse_whole, wire_names
from letters_source.tables import UNDOCUMENTED, Column, Kind, Table, tables_of

# Arrow descends recursively and overruns the stack past some 5,000 levels; documented pages have 6
MAX_DEPTH = 500
# each undocumented field takes an object a row here, whether the row has it or not
MOST_STRANGERS = 200
# those whose undocumented fields are looked at ahead; in one alone they may be null
FIRST_ROWS = 10
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Arrow's types of scalars but null, by the first byte of their JSON
_SCALARS: dict[int, pa.DataType] = {
    ord('"'): pa.string(),
    ord("t"): pa.bool_(),
    ord("f"): pa.bool_(),
    **dict.fromkeys(NUMBER_STARTS, pa.float64()),
}


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
    """Whether a page nests deeper than `MAX_DEPTH`, give or take the levels of the envelope."""
    return may_nest(body, raws, MAX_DEPTH) and nesting(body) > MAX_DEPTH


def may_nest(body: bytes, raws: Sequence[msgspec.Raw], depth: int) -> bool:
    """Whether a row, or what is around the rows, is long enough to nest so deep: a level takes two brackets."""
    lengths, commas = list(map(len, raws)), len(raws) - 1
    around = len(body) - sum(lengths) - commas
    return max([around, *lengths]) > 2 * depth


def nesting(body: bytes) -> int:
    """How deep brackets nest. Those in texts count too, so the depth may be another."""
    brackets = np.frombuffer(body.translate(None, _NOT_BRACKETS), np.uint8)
    # the codes of closing brackets, 0x5D and 0x7D, have a bit that the opening 0x5B and 0x7B lack
    return int(np.where(brackets & 0x04, -1, 1).cumsum().max(initial=0))


def read_json(body: bytes, raws: Sequence[msgspec.Raw], listing: str) -> tuple[pa.StructArray, set[str]]:
    """The rows as Arrow reads them, and the names of their undocumented fields.

    Arrow is told the scalars among those of the first rows, and refuses a page with another, or with free contents.
    Then it passes all of them over, and msgspec tells the names. Arrow never infers what they are: where objects have
    keys of their own in each row, that would take gigabytes.
    """
    first = first_strangers(raws, listing)
    check_strangers(first, body, raws)
    try:
        return parse_whole(body, listing, first), set(first)
    except pa.ArrowInvalid:
        pass
    try:
        strangers = all_names(body, listing) - wire_names(listing)
        check_strangers(strangers, body, raws)
        return parse_documented(body, listing), strangers
    except (pa.ArrowInvalid, msgspec.DecodeError):
        raise DoesNotFit from None


def first_strangers(raws: Sequence[msgspec.Raw], listing: str) -> dict[str, pa.DataType]:
    """The undocumented fields of the first rows, each with Arrow's type, which is null for objects and lists."""
    kinds: dict[str, pa.DataType] = {}
    for raw in raws[:FIRST_ROWS]:
        try:
            row = OBJECT.decode(raw)
        except msgspec.ValidationError:
            raise DoesNotFit from None
        for name in row.keys() - wire_names(listing):
            if kinds.get(name, pa.null()) == pa.null():
                kinds[name] = _SCALARS.get(memoryview(row[name])[0], pa.null())
    return kinds


def check_strangers(names: Collection[str], body: bytes, raws: Sequence[msgspec.Raw]) -> None:
    """Raise `DoesNotFit` where undocumented fields are too many for their page, or not written in JSON as they are."""
    cells = len(names) * len(raws)
    if len(names) > MOST_STRANGERS or cells > len(body) or not all(map(is_plain, names)):
        raise DoesNotFit


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
