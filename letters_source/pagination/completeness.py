"""Do the responses prove that the listing was read completely? Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from letters_source.pagination.coding import Coded, distinct_rows, newest_rows
from letters_source.pagination.readings import Codes, Mask, Reading, repeats_rejected, shows_same_pages


def is_stable(walk: Sequence[Reading], recheck: Sequence[Reading], before: Sequence[Reading], coded: Coded) -> bool:
    """Return whether one pass is complete: one count throughout, as many distinct keys, first and last page unchanged.

    This proof holds if rows are added at one end of the listing. If rows are added anywhere while as many are deleted,
    only the certificate is reliable.
    """
    counts = {reading.count for reading in (*walk, *recheck)}
    pages = {reading.page: reading for reading in walk}
    unchanged = all(again.page in pages and again.keys.equals(pages[again.page].keys) for again in recheck)
    if len(counts) > 1 or not unchanged:
        return False
    # a row without an id on two pages may have moved, and another the other way: the pass before must agree
    if repeats_rejected(walk) and not shows_same_pages(walk, before):
        return False
    rows = sum(len(reading.keys) for reading in walk)
    return rows == walk[0].count == distinct_rows(walk, coded)


def is_settled(walk: Sequence[Reading], before: Sequence[Reading]) -> bool:
    """Return whether two passes show the same pages under one count."""
    return len({reading.count for reading in (*walk, *before)}) == 1 and shows_same_pages(walk, before)


def repeats_ids(walk: Sequence[Reading], before: Sequence[Reading], coded: Coded | None = None) -> bool:
    """Return whether two equal passes show as many rows as the service counts, and some ids more than once."""
    rows = sum(len(reading.keys) for reading in walk)
    return is_settled(walk, before) and rows == walk[0].count > distinct_rows(walk, coded)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that the rows in `keep` (a mask for each reading) were the service's complete set at the response `at`."""

    at: int
    keep: tuple[Mask, ...]


def certify(coded: Coded) -> Certificate | None:
    """Return proof from the newest response whose count is the number of keys shown both before and after it, if any.

    A key that was shown before a response was requested, and again by a request sent after it was answered, existed at
    that response; so did the keys in it. These keys are a subset of the service's rows at that time; if they are as
    many as its count, they are all of them. This assumes that keys are not re-created and that counts are exact.
    """
    spans = Spans.of(coded)
    for at in spans.candidates():
        members = spans.members(at)
        if members.sum() == coded.readings[at].count:
            return Certificate(at, spans.last_readings(members))
    return None


@dataclass(frozen=True, slots=True)
class Spans:
    """The first response and the last request that showed each key, as ticks."""

    coded: Coded
    first: Codes
    last: Codes

    @classmethod
    def of(cls, coded: Coded) -> "Spans":
        """Return the spans of all keys."""
        first, last = np.full(coded.size, np.iinfo(np.int32).max, np.int32), np.full(coded.size, -1, np.int32)
        for reading in coded.readings:
            codes = coded.codes(reading)
            first[codes] = np.minimum(first[codes], reading.answered)
            last[codes] = np.maximum(last[codes], reading.asked)
        return cls(coded, first, last)

    def members(self, at: int) -> Mask:
        """Return which keys were shown at a response, or both before and after it."""
        response = self.coded.readings[at]
        if response.counted == "after":
            # its own rows may have left since
            return (self.first <= response.answered) & (self.last > response.answered)
        present = (self.first <= response.asked) & (self.last >= response.answered)
        present[self.coded.codes(response)] = True
        return present

    def candidates(self) -> list[int]:
        """Return the responses, newest first, whose members can be as many as their count.

        Members are its own rows, and all keys but those first shown after it (`late`) or last shown before it
        (`early`). Keys that are both are counted twice; they are at most the rows read while it was in flight.
        """
        asked, answered, count = (
            np.array([getattr(reading, name) for reading in self.coded.readings])
            for name in ("asked", "answered", "count")
        )
        rows = np.array([len(reading.keys) for reading in self.coded.readings])
        late = len(self.first) - np.searchsorted(np.sort(self.first), asked, side="right")
        early = np.searchsorted(np.sort(self.last), answered, side="left")
        fewest = len(self.first) - late - early
        spare = rows + rows_at(answered, rows, asked) - rows_at(asked - 1, rows, answered - 1)
        known = np.array([reading.counted != "earlier" for reading in self.coded.readings])
        possible = np.flatnonzero(known & (fewest <= count) & (count <= fewest + spare))
        return [int(at) for at in possible[np.argsort(answered[possible])[::-1]]]

    def last_readings(self, wanted: Mask) -> tuple[Mask, ...]:
        """Return for each reading which of its rows are the last reading of a wanted key."""
        return tuple(
            wanted[self.coded.codes(reading)] & newest
            for reading, newest in zip(self.coded.readings, newest_rows(self.coded.readings, self.coded), strict=True)
        )


def rows_at(ticks: Codes, rows: Codes, after: Codes) -> Codes:
    """Return for each moment the rows of all responses whose tick is later."""
    order = np.argsort(ticks)
    earlier: Codes = np.concatenate(([0], np.cumsum(rows[order])))
    return cast("Codes", earlier[-1] - earlier[np.searchsorted(ticks[order], after, side="right")])
