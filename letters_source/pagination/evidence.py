"""Evidence about ranges of a listing, small enough for JSON, and what several ranges prove together. Pure.

A row *stayed* if it was listed from the first response to the last. The *front* is the first window, read again last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import pyarrow as pa

from letters_source.pagination.readings import NUL, Reading, Window
from letters_source.pagination.windows import LEAST_OVERLAP, Overlap, compare, example
from letters_source.wording import counted


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets to read in windows that overlap: from `start` to `stop`, or to the end of the listing."""

    start: int
    stop: int | None
    page_size: int
    count: int  # of the listing, when this was planned
    overlap: int = LEAST_OVERLAP
    edges: int = 4  # the windows at either end whose keys are kept, as neighbors may have shifted by some pages


@dataclass(frozen=True, slots=True)
class Figures:
    """A window, the count and the number of rows in its response, and a digest of the rows' keys."""

    page: int
    size: int
    count: int
    rows: int
    digest: str

    @property
    def window(self) -> Window:
        """The page that was asked for."""
        return Window(self.page, self.size)


@dataclass(frozen=True, slots=True)
class Edge:
    """A window at an end of a range, with its keys; a digest stands for a row without an id."""

    page: int
    size: int
    count: int
    keys: tuple[str, ...]

    @property
    def window(self) -> Window:
        """The page that was asked for."""
        return Window(self.page, self.size)

    @property
    def reading(self) -> Reading:
        """The response, to compare with others."""
        rejected = sum(key.startswith(NUL) for key in self.keys)
        return Reading(
            page=self.page,
            walk=1,
            count=self.count,
            keys=pa.array(self.keys, pa.string()),
            rejected=rejected,
            asked=0,
            answered=0,
            size=self.size,
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the windows of a range show, in the order of the listing; small enough to be handed on as JSON."""

    range: Range
    windows: tuple[Figures, ...]
    head: tuple[Edge, ...]  # the first windows
    tail: tuple[Edge, ...]  # the last windows
    count: int  # of the newest response
    grown: int  # the sum of all increases of the count; decreases do not matter
    has_moved: bool
    mended: int
    overlap: int
    displaced: str | None = None  # a row that changed its place among the others, or is listed twice

    @property
    def first(self) -> Edge:
        """The first window."""
        return self.head[0]

    @property
    def last(self) -> Edge:
        """The last window."""
        return self.tail[-1]

    @property
    def reaches_end(self) -> bool:
        """Whether the last window reaches the end of the listing by its own count."""
        return self.last.window.offset + len(self.last.keys) >= self.last.count


def joint(left: Evidence, right: Evidence) -> Overlap:
    """Return what two neighboring ranges share: the overlap of windows at their ends that links them, if any do."""
    pairs = product(reversed(left.tail), right.head)
    overlaps = [compare(before.reading, after.reading, apart=True) for before, after in pairs]
    return next((overlap for overlap in overlaps if overlap.is_link), overlaps[0])


@dataclass(frozen=True, slots=True)
class Listed:
    """What comparing all rows of all ranges shows.

    `rows` is the number of different rows: by their ids, or by their texts if they have no id. `displaced` is the
    number of ids that two ranges contain but a range between them lacks; the front is not one of these ranges.
    """

    rows: int
    displaced: int


def find_fault(evidence: Sequence[Evidence], listed: Listed) -> str | None:
    """Return why linked ranges, the front first, may lack a row that stayed; None if they have all of them."""
    front, *ranges = evidence
    if (displaced := find_displaced(evidence)) is not None:
        return f"its rows changed order or are listed twice{example(displaced)}"
    if repeat := repeated_window(ranges):
        return repeat
    if listed.displaced:
        return "its rows changed order or are listed twice"
    missing, grown = front.count - listed.rows, growth_of(evidence)
    if missing > grown:
        return f"it counts {counted(missing)} that no page returned, and its count grew by only {grown}"
    if missing and len(counts_of(evidence)) == 1 and not have_moved(evidence):
        return f"it shows {counted(-missing)} more than it counts, and nothing changed"
    return None


def joints(evidence: Sequence[Evidence]) -> list[Overlap]:
    """Return what each range shares with the next."""
    return [joint(left, right) for left, right in pairwise(evidence)]


def counts_of(evidence: Sequence[Evidence]) -> set[int]:
    """Return all counts that were seen."""
    return {figures.count for one in evidence for figures in one.windows}


def have_moved(evidence: Sequence[Evidence]) -> bool:
    """Return whether overlapping windows showed rows that were missing from one of them, or shifted."""
    return any(one.has_moved for one in evidence) or any(each.has_moved for each in joints(evidence))


def is_still(evidence: Sequence[Evidence], rows: int) -> bool:
    """Return whether nothing changed while ranges with so many different rows were read."""
    return not have_moved(evidence) and counts_of(evidence) == {rows}


def find_displaced(evidence: Sequence[Evidence]) -> str | None:
    """Return a row that changed its place among the others, or is listed twice, if one is known."""
    rows = *(one.displaced for one in evidence), *(each.displaced for each in joints(evidence))
    return next((row for row in rows if row is not None), None)


def repeated_window(ranges: Sequence[Evidence]) -> str | None:
    """Return which window repeats the rows of an earlier one; None if none does."""
    shown: dict[str, Figures] = {}
    for figures in (figures for one in ranges for figures in one.windows if figures.rows > 1):
        first = shown.setdefault(figures.digest, figures)
        # no repeat: windows at the same place, or windows between whose readings the count changed
        if first.window.end <= figures.window.offset and first.count == figures.count:
            return f"page {figures.page} (page size {figures.size}) repeats page {first.page} (page size {first.size})"
    return None


def growth_of(evidence: Sequence[Evidence]) -> int:
    """Return by how much the count grew while ranges were read, and from one to the next; the front was read last."""
    front, *ranges = evidence
    between = (right.first.count - left.last.count for left, right in pairwise(ranges))
    # of a listing that is empty by now, only the front is left
    after = front.count - ranges[-1].count if ranges else 0
    return sum(one.grown for one in evidence) + sum(max(0, grown) for grown in (*between, after))
