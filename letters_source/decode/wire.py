"""How does Arrow read a page's JSON, told what the service documents?"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Literal

import pyarrow as pa
import pyarrow.json as pj

from letters_source.tables import Kind, Table, tables_of

_TYPES: dict[Kind, pa.DataType] = {"text": pa.string(), "bool": pa.bool_(), "timestamp": pa.string()}


def parse_whole(body: bytes, listing: str, strangers: Mapping[str, pa.DataType]) -> pa.StructArray:
    """The rows of a page that has nothing else than what is documented and the given undocumented fields.

    Raises:
        pa.ArrowInvalid: it has, or a value is of another type, as is all that is not null in a field of free contents.
    """
    return parse(body, whole_schema(listing, frozenset(strangers.items())), "error")


def parse_documented(body: bytes, listing: str) -> pa.StructArray:
    """The rows of a page without undocumented fields and those of free contents.

    Raises:
        pa.ArrowInvalid: a value is not of its documented type.
    """
    return parse(body, documented_schema(listing), "ignore")


def parse(body: bytes, schema: pa.Schema, unexpected: Literal["error", "ignore"]) -> pa.StructArray:
    """The rows of a page, of which nothing is inferred."""
    table = pj.read_json(
        pa.BufferReader(body),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, newlines_in_values=b"\n" in body, unexpected_field_behavior=unexpected
        ),
    )
    return table.column("data").chunk(0).field("rows").flatten()


# names of undocumented fields may be long
@lru_cache(maxsize=16)
def whole_schema(listing: str, strangers: frozenset[tuple[str, pa.DataType]]) -> pa.Schema:
    """All of an envelope, and the given undocumented fields of rows."""
    row = [*row_fields(listing, all_fields), *(pa.field(name, kind) for name, kind in strangers)]
    return pa.schema([pa.field("message", pa.string()), data_field(row)])


@cache
def documented_schema(listing: str) -> pa.Schema:
    """What has a documented type in an envelope, but for its message, which is not needed."""
    return pa.schema([data_field(row_fields(listing, typed_fields))])


def data_field(row: list[pa.Field]) -> pa.Field:
    """The `data` of an envelope with rows of such fields."""
    return pa.field("data", pa.struct([("count", pa.int64()), ("rows", pa.list_(pa.struct(row)))]))


def row_fields(listing: str, fields_of: Callable[[Table], list[pa.Field]]) -> list[pa.Field]:
    """The fields of a row, nested parts among them."""
    root, *children = tables_of(listing)
    return [*fields_of(root), *(pa.field(child.wire, wire_type(child, fields_of(child))) for child in children)]


def wire_type(table: Table, fields: list[pa.Field]) -> pa.DataType:
    """A nested object of such fields, or a list of them."""
    part = pa.struct(fields)
    return pa.list_(part) if table.part == "list" else part


def all_fields(table: Table) -> list[pa.Field]:
    """The documented fields of one object, those of free contents as null."""
    return [*typed_fields(table), *(pa.field(c.wire, pa.null()) for c in table.documented if c.kind == "json")]


def typed_fields(table: Table) -> list[pa.Field]:
    """The fields of one object that have a documented type."""
    return [pa.field(c.wire, _TYPES[c.kind]) for c in table.documented if c.kind in _TYPES]


@cache
def wire_names(listing: str) -> frozenset[str]:
    """The documented names of a row's fields."""
    root, *children = tables_of(listing)
    return root.wires | {child.wire for child in children}
