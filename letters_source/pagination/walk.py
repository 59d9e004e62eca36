"""Which pages to read, in what order, until the listing is proven complete. Pure: a `Read` function reads them."""

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
    is_stable,
    repeats_rejected,
)

Proof = Literal["continuous", "exact"]
"""The least that a listing must be proven to be."""
VerdictName = Literal["stable", "continuous", "exact"]
"""What a listing was proven to be: unchanged while it was read; changed, but no row that stayed was missed; equal to the
service's at one moment."""
Read = Callable[[Iterable[int], int], Iterator[Reading]]
"""Reads pages concurrently for the walk with the given number, takes page numbers only as there is room, and yields
each response as it arrives."""

MOST_REPEATS = 100
"""Stop after this many repeated pages in a row: the service repeats itself past its end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A listing proven complete: how, by which readings, and which rows of each reading to load."""

    name: VerdictName
    readings: tuple[Reading, ...]
    keep: tuple[Mask | bool, ...]
    links_mended: int | None = None
    overlap: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows to load."""
        return sum(
            len(reading.keys) * rows if isinstance(rows, bool) else int(rows.sum())
            for reading, rows in zip(self.readings, self.keep, strict=True)
        )

    @property
    def rejected(self) -> int:
        """The number of those without a usable id."""
        return sum(
            int(np.count_nonzero(has_no_id(reading.keys).to_numpy(zero_copy_only=False) & rows))
            for reading, rows in zip(self.readings, self.keep, strict=True)
            if reading.rejected
        )


def pages_of(count: int, page_size: int) -> int:
    """Return the number of pages for `count` rows; page 0 always exists."""
    return max(1, -(-count // page_size)) if page_size else 1


@dataclass(slots=True)
class Walk:
    """One pass over a listing: the readings so far, and the pages to read next."""

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
        """The last page by the newest count and the page size of page 0."""
        return pages_of(self.count, len(self.readings[0].keys)) - 1

    def middle_pages(self) -> Iterator[int]:
        """Yield the pages between the first and the last, as far as the newest count says."""
        planned = self.last_page
        # a listing that doubles while it is read is left to the next walk
        for page in range(1, 2 * planned + 10):
            # the walk can no longer be complete: the count may be far too high
            if page > self.last_page or page > self.first_empty or self.repeats > MOST_REPEATS:
                return
            # the last page was read early: if it is no longer the last, it has more rows and is read again
            if page < planned or self.last_page > planned:
                yield page

    def add(self, reading: Reading) -> None:
        """Add a response."""
        self.readings.append(reading)
        if reading.answered > self.newest:
            self.count, self.newest = reading.count, reading.answered
        if not len(reading.keys):
            self.first_empty = min(self.first_empty, reading.page)
        rows = hash_of(reading)
        # rows without an id may be equal on many pages without being repeats
        self.repeats = self.repeats + 1 if rows in self._shown and not reading.rejected else 0
        self._shown.add(rows)


def hash_of(reading: Reading) -> int:
    """Return a hash of a page's rows: their number, the first and the last key."""
    keys = reading.keys
    return hash((len(keys), *(keys[place].as_py() for place in (0, -1) if len(keys))))


def walk_listing(read: Read, listing: str, proof: Proof = "continuous", max_walks: int = 4) -> Verdict:
    """Read a listing up to `max_walks` times, until it has the wanted proof, or raise `IncompleteListing`."""
    readings: list[Reading] = []
    before: list[Reading] = []
    for number in range(1, max_walks + 1):
        walk = read_walk(read, listing, number)
        readings += walk.readings
        # several pages need a second reading for a certificate, a single page does not
        if (number > 1 or not walk.last_page) and (verdict := exact(readings)):
            return verdict
        fence = list(read([0, walk.last_page], number)) if walk.last_page else []
        if proof == "continuous" and is_stable(walk.readings, fence, before):
            return stable(readings, walk, fence)
        readings += fence
        before = walk.readings
        if verdict := exact(readings):
            return verdict
    raise incomplete(listing, why_incomplete(walk.readings, readings), walk.readings)


def read_walk(read: Read, listing: str, number: int) -> Walk:
    """Read page 0, which shows the count and the page size, then the last page, then those between."""
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
    """Raise ListingUnpaged if the last page has the rows and the count of page 0: the service ignores `page`."""
    first, last = walk.readings
    # a single row can move from one page to the other
    if len(first.keys) > 1 and first.count == last.count and first.keys.equals(last.keys):
        reason = f"page {last.page} repeats page 0, so the service ignores the page parameter"
        raise incomplete(walk.listing, reason, walk.readings, ListingUnpaged)


def exact(readings: list[Reading]) -> Verdict | None:
    """Return the verdict of the certificate over all readings so far, if there is one."""
    certificate = certify(readings)
    return Verdict("exact", tuple(readings), certificate.keep) if certificate else None


def stable(earlier: list[Reading], walk: Walk, fence: list[Reading]) -> Verdict:
    """Return the verdict of a walk without changes; the rows of the first and last page are those of the fence."""
    again = {reading.page for reading in fence}
    keep = [reading.walk == walk.number and reading.page not in again for reading in earlier]
    return Verdict("stable", (*earlier, *fence), (*keep, *(True for _ in fence)))


def why_incomplete(last: Sequence[Reading], readings: Sequence[Reading]) -> str:
    """Return why the listing is not proven complete, judged by its last walk and all readings."""
    if repeats_rejected(last):
        return "two pages show the same row without an id, which takes two equal walks and proof continuous"
    counts = {reading.count for reading in readings}
    if len(counts) == 1 and counts != {distinct_rows(last)}:
        return "its rows do not add up to its count"
    return "its rows moved while they were read"


def incomplete(
    listing: str, reason: str, readings: list[Reading], kind: type[IncompleteListing] = IncompleteListing
) -> IncompleteListing:
    """Return the error for a listing that is not proven complete, with the figures of its last walk."""
    newest = max(readings, key=lambda reading: reading.answered)
    return kind(listing, reason, count=newest.count, received=distinct_rows(readings), walks=newest.walk)
