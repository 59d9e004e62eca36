"""Decode the bytes of one page into Arrow rows: as structs where it fits the documented types, else by columns."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from letters_source.decode.columns import DEEPEST, DoesNotFit, read_structs, row_type
from letters_source.decode.known import Digests, Known, Places, to_hex
from letters_source.decode.row_schema import DIGEST, POSITION, Notes, row_schema, to_batch, to_int64
from letters_source.decode.undocumented import read_rows
from letters_source.errors import MalformedResponse
from letters_source.wording import AROUND, page_title

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"
# larger integers are not exact in every JSON reader, and no listing is that long
MAX_COUNT = 2**53
# a typical row takes half a kilobyte; rows far larger than this exceed DuckDB's memory limit
MAX_ROW_BYTES = 16 * 2**20
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
# escapes of a surrogate pair, of an unpaired surrogate (group 1), and any other
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Page:
    """One decoded page: the service's count, the rows in the listing's row shape, and what decoding noticed.

    Where rows may be known, `rows` are only those that are not: `places` has a place in `known` for each row of the
    page, and -1 for those in `rows`.
    """

    count: int
    rows: pa.RecordBatch
    notes: Notes
    known: Known | None = None
    places: Places | None = None

    @property
    def length(self) -> int:
        """The number of rows of the page."""
        return self.rows.num_rows if self.places is None else len(self.places)


class Data(msgspec.Struct, Generic[T]):
    """The `data` of an envelope (service-interface 2.1)."""

    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
    rows: list[T]


class Envelope(msgspec.Struct, Generic[T]):
    """The envelope of both operations; its `message` is not needed."""

    data: Data[T]


class DocumentedData(Data[T], Generic[T], forbid_unknown_fields=True):
    """The `data` of an envelope without other fields."""


class Documented(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """The envelope without other fields."""

    data: DocumentedData[T]
    message: Any = None


_RAW_PAGE = msgspec.json.Decoder(Envelope[msgspec.Raw])
_DOCUMENTED_RAW_PAGE = msgspec.json.Decoder(Documented[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@cache
def struct_page(envelope: type, listing: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of pages whose rows fit a listing's documented types, in such an envelope."""
    return msgspec.json.Decoder(GenericAlias(envelope, (row_type(listing),)))


def decode_page(body: bytes, listing: str, number: int) -> Page:
    """Return the rows of one page of a listing, or raise `MalformedResponse`."""
    where, body = page_title(listing, number), body.removeprefix(BOM)
    if fitting := read_fitting(body, listing):
        count, columns = fitting
        return Page(count, to_batch(columns, listing, number), Notes())
    body, data, notes = read_envelope(body, where)
    check_rows(body, data.rows, where)
    if notes.kept and (fitting := read_fitting(body, listing, Envelope)):
        _, columns = fitting
        return Page(data.count, to_batch(columns, listing, number), notes)
    try:
        columns, found = read_rows(data.rows, listing)
    except RecursionError:
        raise too_deep(where) from None
    return Page(data.count, to_batch(columns, listing, number), notes + found)


def decode_changes(known: Known, body: bytes, listing: str, number: int) -> Page:
    """Return a page of which the known rows are not decoded, or raise `MalformedResponse`."""
    where, body = page_title(listing, number), body.removeprefix(BOM)
    data, notes = read_documented(body) or read_envelope(body, where)[1:]
    digests = known.digest(data.rows)
    places = known.find(digests)
    fresh = np.flatnonzero(places < 0)
    if not len(fresh):
        return Page(data.count, no_rows(listing), notes, known, places)
    if len(fresh) < len(places):
        rows = b",".join([data.rows[position] for position in fresh])
        body = b'{"data":{"count":%d,"rows":[%b]}}' % (data.count, rows)
    page = decode_page(body, listing, number)
    notes = page.notes if len(fresh) == len(places) else notes + page.notes
    return Page(data.count, with_digests(page.rows, digests[fresh], fresh), notes, known, places)


@cache
def no_rows(listing: str) -> pa.RecordBatch:
    """Return a page of which all rows are known."""
    return pa.RecordBatch.from_pylist([], row_schema(listing).append(DIGEST))


def with_digests(rows: pa.RecordBatch, digests: Digests, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return rows with their digests, and their positions in the page."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns |= {POSITION: to_int64(positions), DIGEST.name: to_hex(digests)}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema.append(DIGEST))


def read_documented(body: bytes) -> tuple[Data[msgspec.Raw], Notes] | None:
    """Return the count and the rows as bytes of a page whose envelope is as documented, else None."""
    if not is_utf8(body):
        return None
    try:
        return _DOCUMENTED_RAW_PAGE.decode(body).data, Notes()
    except (msgspec.DecodeError, RecursionError):
        return None


def read_fitting(body: bytes, listing: str, envelope: type = Documented) -> tuple[int, dict[str, pa.Array]] | None:
    """Return the count and the columns of a page that fits the documented types and needs no closer look, else None."""
    if len(body) > MAX_ROW_BYTES or not is_utf8(body):
        return None
    try:
        data = struct_page(envelope, listing).decode(body).data
        return data.count, read_structs(data.rows, listing)
    except (msgspec.DecodeError, DoesNotFit, RecursionError):
        return None


def check_rows(body: bytes, rows: list[msgspec.Raw], where: str) -> None:
    """Raise `MalformedResponse` where a row is too large, or where anything nests too deep."""
    largest = max(map(len, rows), default=0)
    if largest > MAX_ROW_BYTES:
        raise MalformedResponse(f"{where}: a row is larger than {MAX_ROW_BYTES >> 20} MiB; report it to the service.")
    around = len(body) - sum(map(len, rows))
    # each level takes two brackets; the text around the rows includes a comma per row
    may_nest = max(largest, around - len(rows)) > 2 * DEEPEST
    if may_nest and nesting(_TEXTS.sub(b"", body)) > DEEPEST:
        raise too_deep(where)


def read_envelope(body: bytes, where: str) -> tuple[bytes, Data[msgspec.Raw], Notes]:
    """Return the body without unpaired surrogates, its count and rows as bytes, and what else was noticed."""
    surrogates = 0
    try:
        data = read_data(body, where)
    except MalformedResponse:
        body, surrogates = replace_surrogates(body)
        if not surrogates:
            raise
        data = read_data(body, where)
    return body, data, Notes(unknown_fields(body), misfits=surrogates, surrogates=surrogates)


def read_data(body: bytes, where: str) -> Data[msgspec.Raw]:
    """Return the envelope's count and rows, or raise `MalformedResponse` if the body is not UTF-8 or not JSON."""
    if not is_utf8(body):
        raise not_json(body, where)
    try:
        return _RAW_PAGE.decode(body).data
    except msgspec.ValidationError as error:
        # msgspec names the place and the types it met, never a value
        raise MalformedResponse(
            f"{where}: not the documented envelope of {{data: {{count, rows}}}}: {error}."
        ) from None
    except msgspec.DecodeError:
        raise not_json(body, where) from None
    except RecursionError:
        raise too_deep(where) from None


def unknown_fields(body: bytes) -> Counter[str]:
    """Return the undocumented fields of an envelope, by the names that notes have for them."""
    envelope = _FIELDS.decode(body)
    names = [*(envelope.keys() - {"message", "data"})]
    names += [f"data.{name}" for name in _FIELDS.decode(envelope["data"]).keys() - {"count", "rows"}]
    return Counter(f"{AROUND}{name}" for name in names)


def too_deep(where: str) -> MalformedResponse:
    """Return the error for a body that nests too deep; a retry cannot help."""
    return MalformedResponse(f"{where}: a value nests deeper than can be read; report it to the service.")


def not_json(body: bytes, where: str) -> MalformedResponse:
    """Return the error for a body that is not JSON."""
    return MalformedResponse(f"{where}: expected JSON, got {len(body)} bytes of something else.", transient=True)


def replace_surrogates(body: bytes) -> tuple[bytes, int]:
    """Replace unpaired surrogates, which JSON can escape but text cannot hold, with U+FFFD; return how many."""
    surrogates = sum(1 for escape in _ESCAPES.finditer(body) if escape[1])
    return _ESCAPES.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], body), surrogates


def nesting(body: bytes) -> int:
    """Return how deep the brackets nest in JSON whose strings were removed."""
    brackets = np.frombuffer(body.translate(None, _NOT_BRACKETS), np.uint8)
    # the codes of closing brackets, 0x5D and 0x7D, have a bit that the opening 0x5B and 0x7B lack
    return int(np.where(brackets & 0x04, -1, 1).cumsum().max(initial=0))


def is_utf8(body: bytes) -> bool:
    """Return whether the body is UTF-8, 25 times faster than by decoding it to a `str`."""
    ends = pa.py_buffer(np.array([0, len(body)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(body)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
