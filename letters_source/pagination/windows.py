"""Overlapping pages show that no row that stayed was missed, however a listing changes while it is read. Pure.

Pages of slightly different sizes begin a few rows before the previous one ends; here they are called windows. If two
windows share a row, and rows keep their order, then no row that was listed all the time lies between them unread: what
lies before the shared row was in the first window, and what lies after it in the second. A chain of such links, from
page 0 to a window that reaches the end by its own count, holds every row that was listed from the first response to
the last.
"""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.pagination.completeness import Reading, Window, code_keys, count_codes, distinct_keys, has_no_id

Read = Callable[[Iterable[Window], int], Iterator[Reading]]
"""Reads windows concurrently for the pass with the given number, takes them only as there is room, and yields each
response as it arrives."""

# smaller pages leave no room for sizes that overlap
SMALLEST_PAGE = 30
# overlapping pages of this size cost 6 % more requests, pages of 1,000 rows 4 %, and pages of 100 rows 17 %
LARGE_PAGE = 500
# for fewer pages the requests at the ends count for more
MANY_PAGES = 10
LEAST_OVERLAP = 3
# maximum consecutive mends that link to neither neighbor
MOST_MENDS = 8

PLAIN_ID = re.compile(r"[\w.:-]{1,64}")


class NotContinuous(Exception):
    """The windows do not prove that no row that stayed was missed; the message is why."""


@dataclass(slots=True, eq=False)
class Link:
    """A window, its response once it is there, and its neighbors in the chain."""

    window: Window
    mends: int = 0
    reading: Reading | None = None
    previous: "Link | None" = None
    next: "Link | None" = None


@dataclass(slots=True, eq=False)
class Chain:
    """Windows in the order of the listing, each to share a row with the next."""

    size: int
    count: int
    overlap: int = LEAST_OVERLAP
    mended: int = 0
    has_moved: bool = False  # whether rows did not show where windows that share them should show them
    first: Link | None = None
    last: Link | None = None
    _end: int = 0
    _newest: int = -1
    _needs_more: bool = False
    _furthest: int = -1
    _asked: int = 0
    _mends: deque[Link] = field(default_factory=deque)
    _waiting: dict[Window, list[Link]] = field(default_factory=lambda: defaultdict(list))

    def links(self) -> Iterator[Link]:
        """Yield the links in the order of the listing."""
        link = self.first
        while link:
            yield link
            link = link.next

    def readings(self) -> list[Reading]:
        """Return the responses in the order of the listing."""
        return [link.reading for link in self.links() if link.reading]

    def windows(self) -> Iterator[Window]:
        """Yield what to read next: mends at once, while they are near in time, then what follows."""
        while self._mends or self._end < self.count or self._needs_more or not self.first:
            self._asked += 1
            if self._asked > 4 * (self.count // self.size) + 100:
                raise NotContinuous("its rows shifted faster than overlapping pages could follow")
            link = self._mends.popleft() if self._mends else self._extend()
            self._waiting[link.window].append(link)
            yield link.window

    def add(self, reading: Reading) -> None:
        """Add a response, and judge its links to its neighbors."""
        link = self._waiting[Window(reading.page, reading.size)].pop()
        link.reading = reading
        if reading.answered > self._newest:
            self.count, self._newest = reading.count, reading.answered
        expected = max(0, min(link.window.end, reading.count) - link.window.offset)
        # a service that rounds page sizes gives other rows than were asked for
        if abs(len(reading.keys) - expected) > LEAST_OVERLAP:
            page = f"page {reading.page} (page size {reading.size}) returned {len(reading.keys)} rows"
            raise NotContinuous(f"{page}, and its count implies {expected}")
        pairs = (link.previous, link), (link, link.next)
        linked = [self._is_linked(*pair) for pair in pairs]
        if any(linked):
            link.mends = 0
        for pair, is_linked in zip(pairs, linked, strict=True):
            if is_linked is False:
                self._mend(*pair)

    def reach_end(self) -> bool:
        """Return whether the chain reaches the end by the last window's own count; if not, have it go on."""
        while self.last and self.last.reading and self.last.previous and not len(self.last.reading.keys):
            # the listing became shorter than this window's offset
            self.last = self.last.previous
            self.last.next = None
        if self._mends or not self.last or not self.last.reading:
            return False
        end = self.last.window.offset + len(self.last.reading.keys)
        # what was behind this window may lie before its end by now
        self._end, self._needs_more = min(end, self.count), end < self.last.reading.count
        if self._needs_more and end == self._furthest:
            raise NotContinuous(f"it lists {end} rows and counts {self.last.reading.count}")
        self._furthest = end
        return not self._needs_more

    def reread_front(self) -> None:
        """Ask for the first rows again: rows that came, or moved, to the front are among them."""
        link = Link(Window(0, self.size), next=self.first)
        if self.first:
            self.first.previous = link
        self.first = link
        self._mends.append(link)

    def _append(self, link: Link) -> None:
        link.previous, self.last = self.last, link
        if link.previous:
            link.previous.next = link
        else:
            self.first = link

    def _extend(self) -> Link:
        self._needs_more = False
        window = next_window(self._end, self.size, self.overlap)
        self._end = window.end
        link = Link(window)
        self._append(link)
        return link

    def _is_linked(self, left: Link | None, right: Link | None) -> bool | None:
        """Return whether two windows share a row, None if one is not there yet or is past the end.

        The following windows overlap as far as rows have moved.
        """
        if not left or not right or not left.reading or not right.reading or not len(right.reading.keys):
            return None
        shared = shared_rows(left.reading, right.reading)
        shifts = right.window.offset + shared[1] - left.window.offset - shared[0]
        overlap = left.window.offset + len(left.reading.keys) - right.window.offset
        self.has_moved |= len(shifts) < overlap or bool(np.any(shifts))
        if len(shifts):
            self._widen(int(np.abs(shifts).max()) + LEAST_OVERLAP)
        return len(shifts) > 0

    def _mend(self, left: Link | None, right: Link | None) -> None:
        """Read on from the newer of two windows towards the other, as rows are still where it showed them."""
        if not left or not right or not left.reading or not right.reading:
            return
        if left.reading.answered > right.reading.answered:
            newer, window = left, next_window(left.window.offset + len(left.reading.keys), self.size, self.overlap)
        else:
            newer, window = right, previous_window(right.window.offset, self.size, self.overlap)
        if newer.mends == MOST_MENDS or window == newer.window:
            raise NotContinuous("its rows shifted faster than overlapping pages could follow")
        mend = Link(window, newer.mends + 1, None, left, right)
        left.next = right.previous = mend
        self._mends.append(mend)
        self.mended += 1
        self._widen(2 * self.overlap)

    def _widen(self, rows: int) -> None:
        self.overlap = max(self.overlap, min(rows, self.size // 3))


def next_window(end: int, size: int, overlap: int) -> Window:
    """Return the window that begins at least `overlap` rows before `end` and reaches furthest."""
    target = max(0, end - overlap)
    best = Window(target // size, size)
    for rows in range(size - 1, size // 2, -1):
        # it begins at the target or before, so no window from here on reaches further
        if target + rows <= best.end:
            break
        best = max(best, Window(target // rows, rows), key=lambda window: window.end)
    return best


def previous_window(start: int, size: int, overlap: int) -> Window:
    """Return the window that ends at least `overlap` rows after `start` and begins first."""
    target = start + overlap
    return min((Window(-(-target // rows) - 1, rows) for rows in range(size, size // 2, -1)), key=lambda w: w.offset)


def shared_rows(left: Reading, right: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the rows that two windows share, in each of them, or raise `NotContinuous`."""
    places = pc.index_in(right.keys, value_set=left.keys)
    if left.rejected and right.rejected:
        # equal rows without an id may be different rows
        places = pc.if_else(has_no_id(right.keys), pa.scalar(None, places.type), places)
    there = np.flatnonzero(pc.is_valid(places).to_numpy(zero_copy_only=False))
    here = places.drop_null().to_numpy()
    if np.any(np.diff(here) <= 0):
        raise out_of_order(right.keys[int(there[int(np.argmin(np.diff(here)))])].as_py())
    return here, there


def out_of_order(key: str) -> NotContinuous:
    """Return the error for a row that changed its place."""
    return NotContinuous(f"its rows changed order or are listed twice{example(key)}")


def example(key: str) -> str:
    """Return an id as an example; an unusual one may be anything, and is not repeated."""
    return f", for example {key}" if PLAIN_ID.fullmatch(key) else ""


def check_order(readings: Sequence[Reading]) -> None:
    """Raise `NotContinuous` if a row is twice in a window, or in two windows, but not in those between them."""
    coded = code_keys(readings)
    size = count_codes(coded)
    first, last, times = np.full(size, len(coded)), np.full(size, -1), np.zeros(size, np.int64)
    for number, (codes, reading) in enumerate(zip(coded, readings, strict=True)):
        ids = codes[~has_no_id(reading.keys).to_numpy(zero_copy_only=False)] if reading.rejected else codes
        once, here = np.unique(ids, return_counts=True)
        times[once] += np.where(here > 1, len(coded) + 1, 1)
        first[once] = np.minimum(first[once], number)
        last[once] = number
    strays = np.flatnonzero((times > 0) & (last - first + 1 != times))
    if len(strays):
        number = int(first[strays[0]])
        place = int(np.flatnonzero(coded[number] == strays[0])[0])
        raise out_of_order(readings[number].keys[place].as_py())


def check_count(readings: Sequence[Reading], *, has_moved: bool) -> None:
    """Raise `NotContinuous` if rows are missing that no growth of the count explains, or if the count is wrong."""
    counts = [reading.count for reading in sorted(readings, key=lambda reading: reading.answered)]
    grown = sum(max(0, after - before) for before, after in pairwise(counts))
    missing = counts[-1] - distinct_keys(readings)
    if missing > grown:
        raise NotContinuous(f"{missing} of the rows that it counts were not shown, and its count grew by only {grown}")
    if missing and len(set(counts)) == 1 and not has_moved:
        raise NotContinuous(f"it shows {-missing} rows more than it counts, and nothing changed")


def read_chain(read: Read, chain: Chain, number: int) -> None:
    """Read windows until the chain proves that no row that stayed was missed, or raise `NotContinuous`."""
    read_links(read, chain, number)
    check_order(chain.readings())
    # rows that moved to the front before their place was read
    chain.reread_front()
    read_links(read, chain, number)
    check_count(chain.readings(), has_moved=chain.has_moved)


def read_links(read: Read, chain: Chain, number: int) -> None:
    """Read windows until the chain reaches the end of the listing."""
    while not chain.reach_end():
        for reading in read(chain.windows(), number):
            chain.add(reading)
