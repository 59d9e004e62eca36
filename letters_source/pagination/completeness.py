"""Do the responses prove that the listing was read completely? Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]
NUL = "\x00"
Mask = npt.NDArray[np.bool_]


class Window(NamedTuple):
    """A page, of the listing's usual size, or of `size` rows."""

    page: int
    size: int | None = None

    @property
    def offset(self) -> int:
        """The offset of its first row."""
        return self.page * (self.size or 0)

    @property
    def end(self) -> int:
        """The offset after its last row."""
        return self.offset + (self.size or 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """One response; `asked` and `answered` are ticks of a clock that all requests of a listing share."""

    page: int
    walk: int
    count: int
    keys: pa.Array  # each row's id, or NUL and the whole text of a row without one; no id contains NUL
    rejected: int
    asked: int
    answered: int
    size: int | None = None  # as in `Window`


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that the rows in `keep` (a mask for each reading) are the service's set when reading `at` was answered."""

    at: int
    keep: tuple[Mask, ...]


def is_stable(walk: Sequence[Reading], fence: Sequence[Reading], before: Sequence[Reading] = ()) -> bool:
    """Return whether one walk is complete: one count throughout, as many distinct keys, first and last page unchanged.

    This proof holds if rows are added at one end of the listing. If rows are added anywhere while as many are deleted,
    only the certificate is reliable.
    """
    counts = {reading.count for reading in (*walk, *fence)}
    pages = {reading.page: reading for reading in walk}
    unchanged = all(again.page in pages and again.keys.equals(pages[again.page].keys) for again in fence)
    if len(counts) > 1 or not unchanged:
        return False
    # a row without an id on two pages may have moved, and another the other way: the walk before must agree
    if repeats_rejected(walk) and not shows_same_pages(walk, before):
        return False
    rows = sum(len(reading.keys) for reading in walk)
    return rows == walk[0].count == distinct_rows(walk)


def shows_same_pages(walk: Sequence[Reading], before: Sequence[Reading]) -> bool:
    """Return whether two walks read the same pages with the same rows."""
    shown, earlier = ({reading.page: reading.keys for reading in readings} for readings in (walk, before))
    return shown.keys() == earlier.keys() and all(keys.equals(earlier[page]) for page, keys in shown.items())


def repeats_rejected(walk: Sequence[Reading]) -> bool:
    """Return whether two pages show the same row without an id."""
    texts = [pc.unique(reading.keys.filter(has_no_id(reading.keys))) for reading in walk if reading.rejected]
    return sum(map(len, texts)) > len(pc.unique(pa.chunked_array(texts, pa.string())))


def has_no_id(keys: pa.Array) -> pa.BooleanArray:
    """Return which keys are those of rows without a usable id."""
    return pc.starts_with(keys, NUL)


def distinct_rows(readings: Sequence[Reading]) -> int:
    """Return the number of different ids, plus one for each row without an id."""
    keys = pa.chunked_array([reading.keys for reading in readings], pa.string())
    rejected = sum(reading.rejected for reading in readings)
    if rejected:
        keys = keys.filter(pc.invert(has_no_id(keys)))
    return rejected + len(pc.unique(keys))


def distinct_keys(readings: Sequence[Reading]) -> int:
    """Return the number of different keys; equal rows without an id count as one."""
    return len(pc.unique(pa.chunked_array([reading.keys for reading in readings], pa.string())))


def certify(readings: Sequence[Reading]) -> Certificate | None:
    """Return proof from the newest response whose count is the number of keys shown both before and after it, if any.

    A key that was shown before a response was requested, and again by a request sent after it was answered, existed at
    that response; so did the keys in it. These keys are a subset of the service's rows at that time; if they are as
    many as its count, they are all of them. This assumes that keys are not re-created and that counts are exact.
    """
    coded = code_keys(readings)
    spans = Spans.of(readings, coded)
    for at in spans.candidates():
        members = spans.members(at)
        if members.sum() == readings[at].count:
            return Certificate(at, spans.last_readings(members))
    return None


def code_keys(readings: Sequence[Reading]) -> list[Codes]:
    """Return each reading's keys as numbers, equal for equal keys."""
    keys = pa.chunked_array([reading.keys for reading in readings], pa.string()).combine_chunks()
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    ends = np.cumsum([len(reading.keys) for reading in readings])
    return np.split(codes, ends[:-1])


def count_codes(coded: Sequence[Codes]) -> int:
    """Return how many different keys the numbers of `code_keys` stand for."""
    return max((int(codes.max(initial=-1)) for codes in coded), default=-1) + 1


@dataclass(frozen=True, slots=True)
class Spans:
    """The first answer and the last request that showed each key, as ticks."""

    readings: Sequence[Reading]
    coded: list[Codes]
    first: Codes
    last: Codes

    @classmethod
    def of(cls, readings: Sequence[Reading], coded: list[Codes]) -> "Spans":
        """Return the spans of all keys of the readings."""
        size = count_codes(coded)
        first, last = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        for reading, codes in zip(readings, coded, strict=True):
            first[codes] = np.minimum(first[codes], reading.answered)
            last[codes] = np.maximum(last[codes], reading.asked)
        return cls(readings, coded, first, last)

    def members(self, at: int) -> Mask:
        """Return which keys were shown at a response, or both before and after it."""
        response = self.readings[at]
        present = (self.first <= response.asked) & (self.last >= response.answered)
        present[self.coded[at]] = True
        return present

    def candidates(self) -> list[int]:
        """Return the responses, newest first, whose members can be as many as their count.

        Members are its own rows, and all keys but those first shown after it (`late`) or last shown before it
        (`early`). Keys that are both are counted twice; they are at most the rows read while it was in flight.
        """
        asked, answered, count = (
            np.array([getattr(reading, name) for reading in self.readings]) for name in ("asked", "answered", "count")
        )
        rows = np.array([len(codes) for codes in self.coded])
        late = len(self.first) - np.searchsorted(np.sort(self.first), asked, side="right")
        early = np.searchsorted(np.sort(self.last), answered, side="left")
        fewest = len(self.first) - late - early
        spare = rows + rows_at(answered, rows, asked) - rows_at(asked - 1, rows, answered - 1)
        possible = np.flatnonzero((fewest <= count) & (count <= fewest + spare))
        return [int(at) for at in possible[np.argsort(answered[possible])[::-1]]]

    def last_readings(self, wanted: Mask) -> tuple[Mask, ...]:
        """Return for each reading which of its rows are the last reading of a wanted key."""
        return tuple(
            wanted[codes] & newest
            for codes, newest in zip(self.coded, newest_rows(self.readings, self.coded), strict=True)
        )


def newest_rows(readings: Sequence[Reading], coded: Sequence[Codes]) -> list[Mask]:
    """Return for each reading which of its rows are the last reading of their key."""
    size = count_codes(coded)
    source, place = np.full(size, -1), np.full(size, -1)
    for index in sorted(range(len(readings)), key=lambda index: readings[index].answered):
        source[coded[index]] = index
        place[coded[index]] = np.arange(len(coded[index]))
    return [(source[codes] == index) & (place[codes] == np.arange(len(codes))) for index, codes in enumerate(coded)]


def rows_at(ticks: Codes, rows: Codes, after: Codes) -> Codes:
    """Return for each moment the rows of all responses whose tick is later."""
    order = np.argsort(ticks)
    earlier: Codes = np.concatenate(([0], np.cumsum(rows[order])))
    return cast("Codes", earlier[-1] - earlier[np.searchsorted(ticks[order], after, side="right")])
