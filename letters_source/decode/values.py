"""Turn one JSON value into a value of a column."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from math import isinf

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.tables import ARROW_TYPES, ColumnKind

NUMBER_STARTS = frozenset(b"-0123456789")
NUL, REPLACEMENT = "\x00", "\ufffd"
NAIVE_TIMESTAMP = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$"
# a double has up to 309 digits before its point; digits in strings count too, because telling them apart costs more
_LONG_NUMBER = re.compile(rb"\d{300}")
_SUSPECT = re.compile(rb"\\u|\d[eE]|\d{300}")
_TEXT = msgspec.json.Decoder(str)
FIRST, LAST = (
    pa.scalar(moment, ARROW_TYPES["timestamp"])
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)
# PostgreSQL's numeric allows this many digits after the point, and more before it
MOST_DECIMALS = 16_383


class Misfit(Exception):
    """The value does not fit its column; `stands_in` goes into the column instead."""

    def __init__(self, stands_in: str | None = None) -> None:
        self.stands_in = stands_in


def is_number(raw: bytes) -> bool:
    """Return whether the JSON is a number."""
    return raw[0] in NUMBER_STARTS


def read_text(raw: bytes) -> str:
    """Return a string's text or a number's digits; raise `Misfit` for other JSON and for text with NUL."""
    if is_number(raw):
        return raw.decode()
    if raw[:1] != b'"':
        raise Misfit
    text = _TEXT.decode(raw)
    if NUL in text:
        raise Misfit(text.replace(NUL, REPLACEMENT))
    return text


def read_value(raw: bytes, kind: ColumnKind) -> str | bool | None:
    """Return the value of a column; timestamps stay text here and are parsed a whole column at a time.

    Raises:
        Misfit: the value is not of the column's kind.
    """
    if raw == b"null":
        return None
    if kind == "text":
        return read_text(raw)
    if kind == "bool" and raw in (b"true", b"false"):
        return raw == b"true"
    if kind == "timestamp" and raw[:1] == b'"' and NUL not in (text := _TEXT.decode(raw)):
        return text
    raise Misfit


def json_text(raw: bytes) -> str:
    """Return the JSON as the service wrote it; where an engine could not hold it, a JSON string of that text."""
    text = raw.decode()
    return text if is_portable(raw) else msgspec.json.encode(text).decode()


def json_texts(raws: Sequence[msgspec.Raw]) -> list[str]:
    """Return `json_text` of many values, all at once if none of them needs a closer look."""
    joined = b"\x00".join(raws)  # no JSON holds a bare NUL
    if is_suspect(joined):
        return [json_text(bytes(raw)) for raw in raws]
    return joined.decode().split(NUL) if raws else []


def check_float(text: str) -> None:
    """Raise if there is an engine that cannot hold this number, which has a fraction or an exponent.

    Raises:
        ArithmeticError: it is beyond a double, or its exponent beyond PostgreSQL.
    """
    if isinf(float(text)) or abs(int(Decimal(text).as_tuple().exponent)) > MOST_DECIMALS:
        raise OverflowError


_ANY = msgspec.json.Decoder(float_hook=check_float)


def is_suspect(raw: bytes) -> bool:
    """Return whether JSON has escapes, exponents or very long numbers, which not every engine may hold."""
    return _SUSPECT.search(raw) is not None


def is_portable(raw: bytes) -> bool:
    """Return whether every engine can hold the JSON; NUL and numbers beyond a double break some."""
    if not is_suspect(raw):
        return True
    try:
        _ANY.decode(raw)
    except (msgspec.DecodeError, ArithmeticError):
        return False
    return b"\\u0000" not in raw and not _LONG_NUMBER.search(raw)


def parse_timestamps(texts: pa.Array) -> pa.Array:
    """Return ISO 8601 texts as UTC timestamps in microseconds; null for other texts, and outside the years 1 to 9999.

    Service-interface 2.4 documents UTC, so a text without offset is read as UTC. A date alone is no timestamp.
    """
    try:
        stamps = pc.cast(texts, ARROW_TYPES["timestamp"])
    except pa.ArrowInvalid:
        stamps = parse_odd_timestamps(texts)
    ends = pc.min_max(stamps)
    if ends["min"].is_valid and (pc.less(ends["min"], FIRST).as_py() or pc.greater(ends["max"], LAST).as_py()):
        known = pc.and_(pc.greater_equal(stamps, FIRST), pc.less_equal(stamps, LAST))
        return pc.if_else(known, stamps, None)
    return stamps


def parse_odd_timestamps(texts: pa.Array) -> pa.Array:
    """Return texts as UTC timestamps, also texts without an offset; null for texts that are not timestamps."""
    naive = pc.match_substring_regex(texts, NAIVE_TIMESTAMP)
    zoned = pc.if_else(naive, pc.binary_join_element_wise(texts, "Z", ""), texts)
    try:
        return pc.cast(zoned, ARROW_TYPES["timestamp"])
    except pa.ArrowInvalid:
        return pa.concat_arrays([parse_timestamp(zoned.slice(row, 1)) for row in range(len(zoned))])


def parse_timestamp(text: pa.Array) -> pa.Array:
    """Return an array of one text as an array of one timestamp."""
    try:
        return pc.cast(text, ARROW_TYPES["timestamp"])
    except pa.ArrowInvalid:
        return pa.nulls(1, ARROW_TYPES["timestamp"])
