"""How are the rows of a page that does not fit read, value by value, with nothing lost?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from letters_source.decode.row_schema import PAGE, POSITION, RAW, REASON, Notes, row_schema
from letters_source.decode.values import OBJECT, Misfit, is_number, json_object, json_text, parse_timestamps, read_value
from letters_source.tables import UNDOCUMENTED, Table, tables_of

Fields = Mapping[str, msgspec.Raw]

NULL = msgspec.Raw(b"null")
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(slots=True)
class Found:
    """What one object gave: column values, what was kept of it as JSON, and what was noticed."""

    values: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)

    def keep(self, name: str, raw: bytes, noticed: list[str]) -> None:
        """Keep a field's value as JSON and notice its name."""
        self.kept[name] = json_text(raw)
        noticed.append(name)

    def adopt(self, part: "Found", prefix: str) -> None:
        """Notice what was noticed in a nested object."""
        self.strangers += [f"{prefix}.{name}" for name in part.strangers]
        self.misfits += [f"{prefix}.{name}" for name in part.misfits]
        self.numbers += [f"{prefix}.{name}" for name in part.numbers]


def read_rows(rows: Sequence[msgspec.Raw], listing: str) -> tuple[dict[str, pa.Array], Notes]:
    """The columns of a page's rows, rejected rows among them."""
    root, *children = tables_of(listing)
    found = [read_row(bytes(raw), root, children) for raw in rows]
    stamps = {c.name: read_stamps(found, c.name, c.wire) for c in root.columns if c.kind == "timestamp"}
    for row in found:
        row.values[UNDOCUMENTED.name] = json_object(row.kept)
    columns = {
        field.name: pa.array([row.values.get(field.name) for row in found], field.type)
        for field in row_schema(listing)
        if field.name not in stamps and field.name not in (PAGE, POSITION)
    }
    return columns | stamps, sum_notes(found)


def sum_notes(found: Sequence[Found]) -> Notes:
    """What was noticed in all rows of a page, counted by field."""
    misfits = list(chain.from_iterable(row.misfits for row in found))
    strangers = chain.from_iterable(row.strangers for row in found)
    numbers = chain.from_iterable(row.numbers for row in found)
    return Notes(Counter(chain(misfits, strangers)), len(misfits), Counter(numbers))


def read_stamps(found: Sequence[Found], name: str, wire: str) -> pa.Array:
    """A column of timestamps, parsed together; a text that is none is kept as a misfit of its row."""
    texts = pa.array([row.values.get(name) for row in found], pa.string())
    stamps = parse_timestamps(texts)
    for row, text, bad in zip(found, texts.to_pylist(), stamps.is_null().to_pylist(), strict=True):
        if bad and text is not None:
            row.keep(wire, msgspec.json.encode(text), row.misfits)
    return stamps


def read_row(raw: bytes, root: Table, children: Sequence[Table]) -> Found:
    """One row: its values and its children's, or the reason why it is rejected and its whole text."""
    try:
        fields = OBJECT.decode(raw)
    except msgspec.ValidationError:
        return rejected(raw, "the row is not an object")
    found = read_object(fields, root, known={child.wire for child in children})
    if not found.values["id"] or "id" in found.misfits:
        return rejected(raw, id_problem(fields.get("id")))
    for child in children:
        read_part(found, child, bytes(fields.get(child.wire, b"null")))
    return found


def rejected(raw: bytes, reason: str) -> Found:
    """A row that cannot be loaded, kept whole."""
    return Found({REASON: reason, RAW: json_text(raw)})


def id_problem(raw: msgspec.Raw | None) -> str:
    """Why an id cannot be used."""
    if raw is None:
        return "the id is missing"
    return {b"null": "the id is null", b'""': "the id is empty"}.get(bytes(raw), "the id is not usable text")


def read_object(fields: Fields, table: Table, known: AbstractSet[str] = frozenset()) -> Found:
    """The documented columns of one object; undocumented fields and misfits are kept."""
    found = Found()
    for column in table.documented:
        raw = bytes(fields.get(column.wire, NULL))
        try:
            found.values[column.name] = read_value(raw, column.kind)
        except Misfit as misfit:
            found.values[column.name] = misfit.stands_in
            found.keep(column.wire, raw, found.misfits)
        if column.kind == "text" and is_number(raw):
            found.numbers.append(column.wire)
    for name in fields.keys() - table.wires - known:
        found.keep(name, bytes(fields[name]), found.strangers)
    return found


def read_part(parent: Found, table: Table, raw: bytes) -> None:
    """Add a nested object, or a list of them, to its parent; what is neither is a misfit of the parent."""
    if raw == b"null":
        return
    if table.part == "list" and raw[:1] == b"[":
        read_list(parent, table, raw)
    elif table.part == "object" and (part := read_nested(raw, table)):
        parent.values[table.short] = nested_values(part)
        parent.adopt(part, table.wire)
    else:
        parent.keep(table.wire, raw, parent.misfits)


def read_list(parent: Found, table: Table, raw: bytes) -> None:
    """Add a list's objects to their parent, which keeps the whole list when an element is no object."""
    parts = [read_nested(bytes(element), table) for element in _LIST.decode(raw)]
    parent.values[table.short] = [part and nested_values(part) for part in parts]
    for part in filter(None, parts):
        parent.adopt(part, table.wire)
    for _ in range(parts.count(None)):
        parent.keep(table.wire, raw, parent.misfits)


def nested_values(part: Found) -> dict[str, Any]:
    """The values of a nested object, what was kept of it among them."""
    return {**part.values, UNDOCUMENTED.name: json_object(part.kept)}


def read_nested(raw: bytes, table: Table) -> Found | None:
    """A nested object, or None when it is none."""
    try:
        return read_object(OBJECT.decode(raw), table)
    except msgspec.DecodeError:
        return None
