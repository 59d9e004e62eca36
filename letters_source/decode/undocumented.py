"""Read the rows of a page that does not fit, and keep what is undocumented as the service wrote it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from letters_source.decode.columns import NULL, join, read_field, read_values
from letters_source.decode.row_schema import RAW, REASON, Notes, nest, objects_in
from letters_source.decode.values import NUL, REPLACEMENT, is_suspect, json_text
from letters_source.tables import UNDOCUMENTED, Table, tables_of

Fields = dict[str, msgspec.Raw]

_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(Fields)
_OBJECTS = msgspec.json.Decoder(list[Fields | None])
_ENCODER = msgspec.json.Encoder(order="sorted")
_LISTS_OF_OBJECTS = msgspec.json.Decoder(list[list[Fields] | None])


@dataclass(slots=True)
class Found:
    """The contents of a table's objects: columns, and values that do not fit (position, wire name, value)."""

    objects: Sequence[Fields]  # the fields that were not taken out
    columns: dict[str, pa.Array] = field(default_factory=dict)
    misfits: list[tuple[int, str, msgspec.Raw]] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)  # how often a number became text, by field

    def take(self, wire: str) -> list[msgspec.Raw]:
        """Take a field out of all objects."""
        return [fields.pop(wire, NULL) for fields in self.objects]

    def keep(self, wire: str, raws: Sequence[msgspec.Raw], positions: Sequence[int]) -> None:
        """Remember the values at these positions as misfits."""
        self.misfits += [(position, wire, raws[position]) for position in positions]


def read_rows(raws: Sequence[msgspec.Raw], listing: str) -> tuple[dict[str, pa.Array], Notes]:
    """Return the columns of a page's rows, rejected rows among them, and what was noticed."""
    root, *children = tables_of(listing)
    rows, _ = read_objects(raws)
    reasons = rejection_reasons(rows)
    found = Found([{} if position in reasons else row for position, row in enumerate(rows)])
    read_columns(found, root)
    notes = sum((read_nested(found, child) for child in children), Notes())
    notes += keep_rest(found)
    texts = {position: json_text(bytes(raws[position])) for position in reasons}
    for name, values in ((REASON, reasons), (RAW, texts)):
        found.columns[name] = pa.array(map(values.get, range(len(raws))), pa.string())
    return found.columns, notes


def rejection_reasons(rows: Sequence[Fields | None]) -> dict[int, str]:
    """Return why rows cannot be loaded, by position."""
    ids, misfits, _ = read_values([(row or {}).get("id", NULL) for row in rows], "text")
    unusable = chain(misfits, (position for position, row_id in enumerate(ids) if not row_id))
    return {position: why_rejected(rows[position]) for position in unusable}


def why_rejected(row: Fields | None) -> str:
    """Return why a row without a usable id cannot be loaded."""
    if row is None:
        return "the row is not an object"
    if "id" not in row:
        return "the id is missing"
    known = {b"null": "the id is null", b'""': "the id is empty"}
    return known.get(bytes(row["id"]), "the id is not usable text")


def read_columns(found: Found, table: Table) -> None:
    """Move the documented fields out of their objects into columns."""
    for column in table.documented:
        raws = found.take(column.wire)
        read = read_field(raws, column.kind)
        found.columns[column.name] = read.array
        found.numbers[column.wire] += read.numbers
        found.keep(column.wire, raws, read.misfits)


def read_nested(found: Found, child: Table) -> Notes:
    """Move nested objects, or lists of them, out of their rows into a column."""
    raws = found.take(child.wire)
    values, misfits = (read_lists if child.origin == "list" else read_objects)(raws)
    found.keep(child.wire, raws, misfits)
    objects = objects_in(values, child)
    nested = Found([fields or {} for fields in objects])
    read_columns(nested, child)
    notes = keep_rest(nested, f"{child.wire}.")
    found.columns[child.short] = nest(values, objects, nested.columns, child)
    return notes


def read_objects(raws: Sequence[msgspec.Raw]) -> tuple[list[Any], list[int]]:
    """Return the fields of each object, with None for other values, and the positions of misfits."""
    try:
        return _OBJECTS.decode(join(raws)), []
    except msgspec.ValidationError:
        objects = [read_object(raw) for raw in raws]
    return objects, [place for place, raw in enumerate(raws) if objects[place] is None and raw != NULL]


def read_object(raw: msgspec.Raw) -> Fields | None:
    """Return the fields of an object, or None for another value."""
    try:
        return _OBJECT.decode(raw)
    except msgspec.ValidationError:
        return None


def read_lists(raws: Sequence[msgspec.Raw]) -> tuple[list[Any], list[int]]:
    """Return the objects of each list, and the positions of misfits, once for each element that is not an object."""
    try:
        return _LISTS_OF_OBJECTS.decode(join(raws)), []
    except msgspec.ValidationError:
        lists = [read_list(raw) for raw in raws]
    times = [raw != NULL if objects is None else objects.count(None) for raw, objects in zip(raws, lists, strict=True)]
    return lists, [place for place, misfits in enumerate(times) for _ in range(misfits)]


def read_list(raw: msgspec.Raw) -> list[Fields | None] | None:
    """Return the objects of a list, with None for other elements; None for a value that is not a list."""
    try:
        return [read_object(element) for element in _LIST.decode(raw)]
    except msgspec.ValidationError:
        return None


def keep_rest(found: Found, prefix: str = "") -> Notes:
    """Collect leftover fields and misfits in `undocumented`; return counts by prefixed name."""
    undocumented = Counter(chain.from_iterable(found.objects))
    misfits = Counter(wire for _, wire, _ in found.misfits)
    for position, wire, raw in found.misfits:
        found.objects[position][wire] = raw
    if undocumented or misfits:
        found.columns[UNDOCUMENTED.name] = to_json(found.objects)
    kept = Counter({prefix + name: times for name, times in (misfits + undocumented).items()})
    numbers = Counter({prefix + name: times for name, times in (+found.numbers).items()})
    return Notes(kept, len(found.misfits), numbers)


def to_json(objects: Sequence[Fields]) -> pa.Array:
    """Return the fields of each object as one JSON object, keys in alphabetical order; null if it has none."""
    joined = b"\x00".join(chain.from_iterable(fields.values() for fields in objects))
    if is_suspect(joined) or any(NUL in name for name in set().union(*objects)):
        objects = [to_portable(fields) for fields in objects]
    return pa.array([_ENCODER.encode(fields) if fields else None for fields in objects], pa.string())


def to_portable(fields: Fields) -> Fields:
    """Return the fields with names and values that every engine can hold."""
    return {name.replace(NUL, REPLACEMENT): msgspec.Raw(json_text(bytes(raw))) for name, raw in fields.items()}
