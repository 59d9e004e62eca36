"""Reads a range in overlapping pages, which prove that no row that stayed was missed, even if others come and go. Pure.

A row *stayed* if it was listed from the first response to the last. A *window* is a page whose size is chosen so that
it begins a few rows before the previous window ends. Two windows that share a row are *linked*: if rows keep their
order, no row that stayed lies between them unread, because what lies before the shared row was in the first window,
and what lies after it in the second. A *chain* of linked windows, from page 0 to a window that reaches the end by its
own count, holds every row that stayed. Where two neighbors share no row, further windows between them *mend* the chain.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.pagination.evidence import Edge, Evidence, Figures, Range
from letters_source.pagination.readings import NUL, Read, Reading, Window
from letters_source.pagination.windows import (
    LEAST_OVERLAP,
    TOO_FAST,
    NotContinuous,
    PastCount,
    compare,
    growth,
    largest_overlap,
    next_window,
    previous_window,
)

# maximum consecutive mends that link to neither neighbor
MOST_MENDS = 8


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
    """The windows of a range in the order of the listing, each sharing a row with the next."""

    range: Range
    count: int = field(init=False)
    overlap: int = field(init=False)
    mended: int = field(default=0, init=False)
    has_moved: bool = field(default=False, init=False)
    displaced: str | None = field(default=None, init=False)
    first: Link | None = field(default=None, init=False)
    last: Link | None = field(default=None, init=False)
    _end: int = field(init=False)
    _newest: int = field(default=-1, init=False)
    _needs_more: bool = field(default=False, init=False)
    _furthest: int = field(default=-1, init=False)
    _asked: int = field(default=0, init=False)
    _mends: deque[Link] = field(default_factory=deque, init=False)
    _waiting: dict[Window, list[Link]] = field(default_factory=lambda: defaultdict(list), init=False)

    def __post_init__(self) -> None:
        self.count, self.overlap = self.range.count, self.range.overlap
        # the first window begins where the range does, or before
        self._end = self.range.start + self.overlap if self.range.start else 0

    @property
    def size(self) -> int:
        """The largest size of a window."""
        return self.range.page_size

    @property
    def goal(self) -> int:
        """The offset to reach: the end of the range, or of the listing."""
        return self.count if self.range.stop is None else min(self.range.stop, self.count)

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
        """Yield the next windows to read: those that mend a link first, before rows move on, then those that follow."""
        while self._mends or self._end < self.goal or self._needs_more or not self.first:
            self._asked += 1
            if self._asked > 4 * (self.count // self.size) + 100:
                raise NotContinuous(TOO_FAST)
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
            reason, end = f"{page}, and its count implies {expected}", link.window.offset + len(reading.keys)
            raise PastCount(reason, end) if reading.count < end <= link.window.end else NotContinuous(reason)
        pairs = (link.previous, link), (link, link.next)
        linked = [self._is_linked(*pair) for pair in pairs]
        if any(linked):
            link.mends = 0
        for pair, is_linked in zip(pairs, linked, strict=True):
            if is_linked is False:
                self._mend(*pair)

    def reach_end(self) -> bool:
        """Return whether the chain reaches the end by the last window's own count; otherwise extend it."""
        while self.last and self.last.reading and self.last.previous and not len(self.last.reading.keys):
            # the listing became shorter than this window's offset
            self.last = self.last.previous
            self.last.next = None
        if self._mends or not self.last or not self.last.reading:
            return False
        end = self.last.window.offset + len(self.last.reading.keys)
        goal = self.last.reading.count if self.range.stop is None else min(self.range.stop, self.last.reading.count)
        # rows after this window may have moved before its end
        self._end, self._needs_more = min(end, self.count), end < goal
        if self._needs_more and end == self._furthest:
            raise NotContinuous(f"it lists {end} rows and counts {self.last.reading.count}")
        self._furthest = end
        return not self._needs_more

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
        shared = compare(left.reading, right.reading)
        self.has_moved |= shared.has_moved
        if self.displaced is None:
            self.displaced = shared.displaced
        self._widen(shared.shift + LEAST_OVERLAP)
        return shared.is_link

    def _mend(self, left: Link | None, right: Link | None) -> None:
        """Plan a window between two that share no row, next to the newer one: rows moved least since it was read."""
        if not left or not right or not left.reading or not right.reading:
            return
        if left.reading.answered > right.reading.answered:
            newer, window = left, next_window(left.window.offset + len(left.reading.keys), self.size, self.overlap)
        else:
            newer, window = right, previous_window(right.window.offset, self.size, self.overlap)
        if newer.mends == MOST_MENDS or window == newer.window:
            raise NotContinuous(TOO_FAST)
        mend = Link(window, newer.mends + 1, None, left, right)
        left.next = right.previous = mend
        self._mends.append(mend)
        self.mended += 1
        self._widen(2 * self.overlap)

    def _widen(self, rows: int) -> None:
        self.overlap = max(self.overlap, min(rows, largest_overlap(self.size)))


def read_range(read: Read, wanted: Range, number: int) -> Chain:
    """Read a range in linked windows, for the pass with the given number; raise `NotContinuous` if they cannot be."""
    chain = Chain(wanted)
    while not chain.reach_end():
        for reading in read(chain.windows(), number):
            chain.add(reading)
    return chain


def evidence_of(chain: Chain, displaced: str | None) -> Evidence:
    """Return the evidence of a range that was read; `displaced` is what `moved_row` says about its windows."""
    readings = chain.readings()
    return Evidence(
        range=chain.range,
        windows=tuple(map(figures_of, readings)),
        head=tuple(map(edge_of, readings[: chain.range.edges])),
        tail=tuple(map(edge_of, readings[-chain.range.edges :])),
        count=chain.count,
        grown=growth(readings)[1],
        has_moved=chain.has_moved,
        mended=chain.mended,
        overlap=chain.overlap,
        displaced=displaced or chain.displaced,
    )


def figures_of(reading: Reading) -> Figures:
    """Return the figures of a window."""
    page, size = reading.window
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(reading.keys)], reading.keys), "\n")[0]
    digest = blake2b(text.as_buffer(), digest_size=8).hexdigest()
    return Figures(page, size or 0, reading.count, len(reading.keys), digest)


def edge_of(reading: Reading) -> Edge:
    """Return a window with its keys; texts of rows without an id may be personal, so a digest stands for them."""
    page, size = reading.window
    keys = (digest_text(key) if key.startswith(NUL) else key for key in reading.keys.to_pylist())
    return Edge(page, size or 0, reading.count, tuple(keys))


def digest_text(text: str) -> str:
    """Return the key that stands for the text of a row without an id."""
    return NUL + blake2b(text.encode(), digest_size=16).hexdigest()
