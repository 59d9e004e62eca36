"""Which pages of a listing are read, in what order, and when is the listing known to be whole?

Pure logic: pages are read by whatever `Read` is given, responses are judged by `evidence`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from letters_source.errors import IncompleteListing, ListingUnpaged
from letters_source.pagination.completeness import (
    Mask,
    Reading,
    certify,
    distinct_rows,
    has_no_id,
    is_fenced,
    repeats_rejected,
)

Proof = Literal["fenced", "certified"]
"""What a walk can show; of several the weaker one is the largest by the alphabet, in Python and in SQL."""
Read = Callable[[Iterable[int], int], Iterator[Reading]]
"""Reads pages of a walk (its number is the second argument) side by side, taking page numbers as there is room, and
yields each response as it comes."""


MOST_REPEATS = 100
"""So many pages in a row that repeat others do not come of rows that move, but of a service that has no more."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a listing's walks must show, and how many they may be."""

    listing: str
    proof: Proof = "fenced"
    max_walks: int = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """A listing shown to be whole: how, from which readings, and which of each reading's rows to yield."""

    proof: Proof
    readings: tuple[Reading, ...]
    keep: tuple[Mask | bool, ...]

    @property
    def rows(self) -> int:
        """How many rows are to be yielded."""
        return sum(
            len(reading.keys) * rows if isinstance(rows, bool) else int(rows.sum())
            for reading, rows in zip(self.readings, self.keep, strict=True)
        )

    @property
    def rejected(self) -> int:
        """How many of them have no usable id."""
        return sum(
            int(np.count_nonzero(has_no_id(reading.keys).to_numpy(zero_copy_only=False) & rows))
            for reading, rows in zip(self.readings, self.keep, strict=True)
            if reading.rejected
        )


def pages_of(count: int, page_size: int) -> int:
    """How many pages hold `count` rows; page 0 always exists."""
    return max(1, -(-count // page_size)) if page_size else 1


@dataclass(slots=True)
class Walk:
    """One pass over a listing: its readings so far, and which pages come next."""

    listing: str
    number: int
    readings: list[Reading] = field(default_factory=list)
    count: int = 0
    newest: int = -1
    first_empty: float = math.inf
    repeats: int = 0
    _shown: set[int] = field(default_factory=set)

    @property
    def last_page(self) -> int:
        """The last page by the newest count, at the page size that page 0 showed the service to give."""
        return pages_of(self.count, len(self.readings[0].keys)) - 1

    def middle_pages(self) -> Iterator[int]:
        """The pages between the first and the last; as the count changes meanwhile, so does where they end.

        The last page was read early: once it is no longer the last, it has more rows, and is read again. A listing
        that doubles while it is read is left to the next walk. An empty page is no end, but the walk cannot be whole
        any more, and a count far beyond what there is must not keep it going; nor are pages that repeat others, one
        after the other.
        """
        planned = self.last_page
        for page in range(1, 2 * planned + 10):
            if page > self.last_page or page > self.first_empty or self.repeats > MOST_REPEATS:
                return
            if page < planned or self.last_page > planned:
                yield page

    def add(self, reading: Reading) -> None:
        """Take a response in."""
        self.readings.append(reading)
        if reading.answered > self.newest:
            self.count, self.newest = reading.count, reading.answered
        if not len(reading.keys):
            self.first_empty = min(self.first_empty, reading.page)
        rows = hash_of(reading)
        # rows without an id may be the same on many pages, and are as many rows
        self.repeats = self.repeats + 1 if rows in self._shown and not reading.rejected else 0
        self._shown.add(rows)


def hash_of(reading: Reading) -> int:
    """What pages with the same rows have in common, and hardly others: their number, the first and the last."""
    keys = reading.keys
    return hash((len(keys), *(keys[place].as_py() for place in (0, -1) if len(keys))))


def walk_listing(read: Read, terms: Terms) -> Verdict:
    """Read a listing until it is shown to be whole.

    Raises:
        IncompleteListing: that could not be shown within `max_walks`, or the service does not page.
    """
    readings: list[Reading] = []
    before: list[Reading] = []
    for number in range(1, terms.max_walks + 1):
        walk = read_walk(read, terms.listing, number)
        readings += walk.readings
        # rows of several pages are proved by a second reading, a single page by itself
        if (number > 1 or not walk.last_page) and (verdict := certified(readings)):
            return verdict
        fence = list(read([0, walk.last_page], number)) if walk.last_page else []
        if terms.proof == "fenced" and is_fenced(walk.readings, fence, before):
            return fenced(readings, walk, fence)
        readings += fence
        before = walk.readings
        if verdict := certified(readings):
            return verdict
    raise incomplete(terms.listing, why_incomplete(walk.readings, readings), walk.readings)


def read_walk(read: Read, listing: str, number: int) -> Walk:
    """Page 0, which tells the count and the page size, then the last page, then those between."""
    walk = Walk(listing, number)
    for reading in read([0], walk.number):
        walk.add(reading)
    if walk.last_page:
        for reading in read([walk.last_page], walk.number):
            walk.add(reading)
        check_paging(walk)
        for reading in read(walk.middle_pages(), walk.number):
            walk.add(reading)
    return walk


def check_paging(walk: Walk) -> None:
    """See that the last page differs from the first.

    Raises:
        ListingUnpaged: it holds the same rows, under the same count: the service answers every page with page 0.
    """
    first, last = walk.readings
    # a single row can move from the one page to the other
    if len(first.keys) > 1 and first.count == last.count and first.keys.equals(last.keys):
        reason = f"page {last.page} repeats page 0, so the service does not heed the page parameter"
        raise incomplete(walk.listing, reason, walk.readings, ListingUnpaged)


def certified(readings: list[Reading]) -> Verdict | None:
    """The verdict of the interval certificate over all readings so far, if there is one."""
    certificate = certify(readings)
    if certificate is None:
        return None
    return Verdict("certified", tuple(readings), certificate.keep)


def fenced(earlier: list[Reading], walk: Walk, fence: list[Reading]) -> Verdict:
    """The verdict of a quiet walk: the walk's rows, those of the first and the last page from their second reading."""
    again = {reading.page for reading in fence}
    keep = [reading.walk == walk.number and reading.page not in again for reading in earlier]
    return Verdict("fenced", (*earlier, *fence), (*keep, *(True for _ in fence)))


def why_incomplete(last: Sequence[Reading], readings: Sequence[Reading]) -> str:
    """What kept the listing from being shown to be whole, by its last walk and all readings."""
    if repeats_rejected(last):
        return "two pages show the same row without an id, which takes two equal walks and proof fenced"
    counts = {reading.count for reading in readings}
    if len(counts) == 1 and counts != {distinct_rows(last)}:
        return "its rows do not add up to its count"
    return "its rows moved while they were read"


def incomplete(
    listing: str, reason: str, readings: list[Reading], kind: type[IncompleteListing] = IncompleteListing
) -> IncompleteListing:
    """The error of a listing that cannot be shown to be whole, with the figures of its last walk."""
    newest = max(readings, key=lambda reading: reading.answered)
    return kind(listing, reason, count=newest.count, received=distinct_rows(readings), walks=newest.walk)
