"""How do a page's bytes become Arrow rows of the documented shape?

The fast way lets Arrow read the whole page with an explicit schema. A page that does not fit goes, alone, the tolerant
way, value by value. Both give the same rows for the same page; what did not fit is kept and counted, and stops no load.
"""

import re
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa

from letters_source.decode import fast, tolerant
from letters_source.decode.row_schema import Notes, to_batch
from letters_source.errors import MalformedResponse
from letters_source.service.listings import page_title

BOM = b"\xef\xbb\xbf"
# beyond that JSON's integers are not exact everywhere, and no listing is
MAX_COUNT = 2**53
# a row is half a kilobyte; of one far larger DuckDB, kept to little memory, could not make a table
MAX_ROW_BYTES = 16 * 2**20
# readers may set a limit (RFC 8259, 9); up to Python 3.13 the interpreter's is about this, from 3.14 on hardly any
DEEPEST = 950
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
# escapes of a surrogate pair, of half a pair (group 1), and any other
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Page:
    """One decoded page: the service's count, the rows in the listing's row shape, and what decoding noticed."""

    count: int
    rows: pa.RecordBatch
    notes: Notes


class Data(msgspec.Struct):
    """The `data` of an envelope (service-interface 2.1); rows are left as they are."""

    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
    rows: list[msgspec.Raw]


class Envelope(msgspec.Struct):
    """The envelope of both operations; `message` tells nothing that we need."""

    data: Data


_ENVELOPE = msgspec.json.Decoder(Envelope)


def decode_page(body: bytes, listing: str, number: int) -> Page:
    """The rows of one page of a listing.

    Raises:
        MalformedResponse: the body is not the documented envelope; the message says where, and quotes nothing.
    """
    body, where = body.removeprefix(BOM), page_title(listing, number)
    halves = 0
    try:
        data = read_envelope(body, where)
    except MalformedResponse:
        body, halves = mend_surrogates(body)
        if not halves:
            raise
        data = read_envelope(body, where)
    check_sizes(data.rows, len(body), where)
    if fast.may_nest(body, data.rows, DEEPEST) and fast.nesting(_TEXTS.sub(b"", body)) > DEEPEST:
        raise no_json(body, where)
    try:
        columns, notes = read_rows(body, data.rows, listing)
    except RecursionError:
        raise MalformedResponse(f"{where}: a value nests deeper than can be read.") from None
    return Page(data.count, to_batch(columns, listing, number), notes + Notes(misfits=halves, halves=halves))


def read_envelope(body: bytes, where: str) -> Data:
    """The envelope's count and rows, with the whole body checked to be UTF-8 and JSON."""
    try:
        check_utf8(body)
        data = _ENVELOPE.decode(body).data
    except msgspec.ValidationError as error:
        # msgspec names the place and the types it met, never a value
        raise MalformedResponse(
            f"{where}: not the documented envelope of {{data: {{count, rows}}}}: {error}."
        ) from None
    except (msgspec.DecodeError, pa.ArrowInvalid, RecursionError):
        raise no_json(body, where) from None
    return data


def no_json(body: bytes, where: str) -> MalformedResponse:
    """The error of a body that is no JSON, or nests deeper than any JSON reader need follow (RFC 8259, 9)."""
    return MalformedResponse(f"{where}: expected JSON, got {len(body)} bytes of something else.", transient=True)


def read_rows(body: bytes, rows: list[msgspec.Raw], listing: str) -> tuple[dict[str, pa.Array], Notes]:
    """The columns of a page's rows, by the way that fits."""
    try:
        return fast.read_rows(body, rows, listing)
    except (fast.DoesNotFit, RecursionError):
        return tolerant.read_rows(rows, listing)


def check_sizes(rows: list[msgspec.Raw], size: int, where: str) -> None:
    """See that no row is larger than any destination need hold; a body below the bound has none.

    Raises:
        MalformedResponse: one is.
    """
    if size > MAX_ROW_BYTES and max(map(len, rows), default=0) > MAX_ROW_BYTES:
        raise MalformedResponse(f"{where}: a row is larger than {MAX_ROW_BYTES} bytes, which no row of a listing is.")


def mend_surrogates(body: bytes) -> tuple[bytes, int]:
    """The body with U+FFFD for halves of surrogate pairs, which JSON can write and no text can hold; and how many."""
    halves = sum(1 for escape in _ESCAPES.finditer(body) if escape[1])
    return _ESCAPES.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], body), halves


def check_utf8(body: bytes) -> None:
    """Raise `pa.ArrowInvalid` where the body is not UTF-8; many times faster than making a `str` of it."""
    ends = pa.py_buffer(np.array([0, len(body)], np.int64))
    pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(body)).validate(full=True)
