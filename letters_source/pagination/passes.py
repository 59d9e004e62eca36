"""One pass over a listing, page by page: what it has read, and which page to read next. Pure."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from letters_source.pagination.readings import Read, Reading, Window
from letters_source.pagination.windows import LARGE_PAGE, MANY_PAGES, SMALLEST_PAGE

MOST_REPEATS = 100
"""Stop after this many repeated pages in a row: the service repeats itself past its end."""


@dataclass(slots=True)
class Walk:
    """One pass over a listing: the readings so far, and the pages to read next."""

    read: Read
    listing: str
    number: int
    # whether to end at the first sign of a change, if pages are large enough to overlap
    until_changed: bool = field(default=False, init=False)
    readings: list[Reading] = field(default_factory=list, init=False)
    # the first and the last page, read again at the end
    rechecked: list[Reading] = field(default_factory=list, init=False)
    count: int = field(default=0, init=False)
    newest: int = field(default=-1, init=False)
    first_empty: float = field(default=math.inf, init=False)
    repeats: int = field(default=0, init=False)
    changed: bool = field(default=False, init=False)
    _shown: set[int] = field(default_factory=set, init=False)

    @property
    def last_page(self) -> int:
        """The last page by the newest count and the page size of page 0."""
        return pages_of(self.count, len(self.readings[0].keys)) - 1

    @property
    def ends_early(self) -> bool:
        """Whether the pass ends because the listing changed."""
        return self.until_changed and self.changed and len(self.readings[0].keys) >= SMALLEST_PAGE

    def overlaps_at_once(self, *, expects_change: bool) -> bool:
        """Return whether to overlap all pages from the start, if there are many.

        Overlapping large pages costs little. Smaller ones overlap only if a change is to be expected: a pass that
        starts without overlap and meets a change has to start over.
        """
        least = SMALLEST_PAGE if expects_change else LARGE_PAGE
        return len(self.readings[0].keys) >= least and self.last_page >= MANY_PAGES

    def read_ends(self) -> None:
        """Read page 0, which shows the count and the page size, then the last page."""
        self._read([Window(0)])
        if self.last_page:
            self._read([Window(self.last_page)])

    def read_middle(self, *, until_changed: bool) -> None:
        """Read the pages between the first and the last."""
        self.until_changed = until_changed
        if self.last_page:
            self._read(self.middle_pages())

    def recheck_ends(self) -> None:
        """Read the first and the last page again, unless the pass ended early."""
        if self.last_page and not self.ends_early:
            self.rechecked = list(self.read([Window(0), Window(self.last_page)], self.number))

    def middle_pages(self) -> Iterator[Window]:
        """Yield the pages between the first and the last, as far as the newest count says."""
        planned = self.last_page
        # a listing that doubles while it is read is left to the next pass
        for page in range(1, 2 * planned + 10):
            # the pass can no longer be complete: the count may be far too high
            if page > self.last_page or page > self.first_empty or self.repeats > MOST_REPEATS or self.ends_early:
                return
            # the last page was read early: if it is no longer the last, it has more rows and is read again
            if page < planned or self.last_page > planned:
                yield Window(page)

    def add(self, reading: Reading) -> None:
        """Add a response."""
        self.readings.append(reading)
        self.changed |= reading.count != self.readings[0].count
        if reading.answered > self.newest:
            self.count, self.newest = reading.count, reading.answered
        if not len(reading.keys):
            self.first_empty = min(self.first_empty, reading.page)
        rows = hash_of(reading)
        # rows without an id may be equal on many pages without being repeats
        self.repeats = self.repeats + 1 if rows in self._shown and not reading.rejected else 0
        self._shown.add(rows)

    def _read(self, windows: Iterable[Window]) -> None:
        for reading in self.read(windows, self.number):
            self.add(reading)


def pages_of(count: int, page_size: int) -> int:
    """Return the number of pages for `count` rows; page 0 always exists."""
    return max(1, -(-count // page_size)) if page_size else 1


def hash_of(reading: Reading) -> int:
    """Return a hash of a page's rows: their number, the first and the last key."""
    keys = reading.keys
    return hash((len(keys), *(keys[place].as_py() for place in (0, -1) if len(keys))))
