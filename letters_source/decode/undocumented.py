"""What exactly did the service write in a page's fields without a type, undocumented ones and those of free contents?

msgspec reads a page again and makes objects of the wanted fields alone, each as the bytes that the service wrote.
"""

from collections import Counter
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from letters_source.decode.values import json_texts
from letters_source.tables import Table, tables_of

_ABSENT = msgspec.Raw(b"")


def read_strangers(body: bytes, names: tuple[str, ...]) -> tuple[pa.Array, Counter[str]]:
    """The named fields of each row as one JSON object, null where a row has none; and how often each field came."""
    rows = rows_decoder(names).decode(body).data.rows
    members, kept = [], Counter[str]()
    for slot, name in enumerate(names):
        values = list(map(attrgetter(f"field_{slot}"), rows))
        kept[name] = len(values) - values.count(_ABSENT)
        key = msgspec.json.encode(name).decode()
        members.append([text and f"{key}:{text}" for text in json_texts(values)])
    objects = [",".join(filter(None, row)) for row in zip(*members, strict=True)]
    return pa.array(["{" + text + "}" if text else None for text in objects], pa.string()), kept


def read_free(body: bytes, part: str, name: str) -> pa.Array:
    """A field of free contents in the one nested object of each row, as JSON; null where a row has none."""
    rows = free_decoder(part, name).decode(body).data.rows
    texts = json_texts([row.part.value if row.part else _ABSENT for row in rows])
    return pa.array([None if text in ("", "null") else text for text in texts], pa.string())


def is_plain(name: str) -> bool:
    """Whether a name is written in JSON as it is; others msgspec cannot make a field of."""
    return msgspec.json.encode(name) == f'"{name}"'.encode()


def all_names(body: bytes, listing: str) -> set[str]:
    """The names of all fields of all rows.

    Raises:
        msgspec.DecodeError: a nested object has an undocumented field.
    """
    parts_decoder(listing).decode(body)
    names: set[str] = set()
    return names.union(*names_decoder().decode(body).data.rows)


@cache
def names_decoder() -> msgspec.json.Decoder[Any]:
    """A decoder of pages that leaves each field of a row as it is."""
    return page_decoder(dict[str, msgspec.Raw])


@lru_cache(maxsize=64)
def rows_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of pages that keeps the named fields of rows alone."""
    slots = {f"field_{slot}": name for slot, name in enumerate(names)}
    return page_decoder(msgspec.defstruct("Row", [(s, msgspec.Raw, _ABSENT) for s in slots], rename=slots, gc=False))


@cache
def free_decoder(part: str, name: str) -> msgspec.json.Decoder[Any]:
    """A decoder of pages that keeps one field of a nested object alone."""
    struct = msgspec.defstruct("Part", [("value", msgspec.Raw, _ABSENT)], rename={"value": name}, gc=False)
    return page_decoder(msgspec.defstruct("Row", [("part", struct | None, None)], rename={"part": part}))


@cache
def parts_decoder(listing: str) -> msgspec.json.Decoder[Any]:
    """A decoder of pages that accepts documented fields alone in nested objects."""
    _, *children = tables_of(listing)
    fields = [(child.short, strict_part(child), None) for child in children]
    return page_decoder(msgspec.defstruct("Row", fields, rename={child.short: child.wire for child in children}))


def strict_part(table: Table) -> Any:
    """The type of a nested part, in which undocumented fields are not allowed."""
    fields = [(column.name, msgspec.Raw, None) for column in table.documented]
    names = {column.name: column.wire for column in table.documented}
    struct = msgspec.defstruct("Part", fields, rename=names, forbid_unknown_fields=True)
    part: Any = struct | None
    return list[part] | None if table.part == "list" else part


def page_decoder(row: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of pages with rows of the given type."""
    data = msgspec.defstruct("Data", [("rows", list[row])])
    return msgspec.json.Decoder(msgspec.defstruct("Page", [("data", data)]))
