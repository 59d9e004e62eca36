"""Overlapping pages, called windows: where they begin and end, and whether their rows agree. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.pagination.coding import Coded, find_gaps, places_in
from letters_source.pagination.readings import Reading, Window, has_no_id

# smaller pages leave no room for sizes that overlap
SMALLEST_PAGE = 30
# overlapping pages of this size cost 6 % more requests, pages of 1,000 rows 4 %, and pages of 100 rows 17 %
LARGE_PAGE = 500
# with fewer pages, the extra requests at both ends cost relatively more
MANY_PAGES = 10
LEAST_OVERLAP = 3
PLAIN_ID = re.compile(r"[\w.:-]{1,64}")


TOO_FAST = "its rows shifted faster than overlapping pages could follow"


class NotContinuous(Exception):
    """The windows do not prove that no row that stayed was missed; the message says why."""


class PastCount(NotContinuous):
    """A window has rows past the count in the same response; `rows` is how many the listing has at least."""

    def __init__(self, reason: str, rows: int) -> None:
        self.rows = rows
        super().__init__(reason)


def largest_overlap(size: int) -> int:
    """Return by how many rows windows of a size can overlap: with a larger overlap, `next_window` might not advance."""
    return size // 3


def next_window(end: int, size: int, overlap: int) -> Window:
    """Return the window that begins at least `overlap` rows before `end` and reaches furthest."""
    target = max(0, end - overlap)
    best = furthest = 0
    for rows in range(size, size // 2, -1):
        # it begins at the target or before, so no window from here on reaches further
        if target + rows <= furthest:
            break
        window_end = (target // rows + 1) * rows
        if window_end > furthest:
            best, furthest = rows, window_end
    return Window(target // best, best)


def previous_window(start: int, size: int, overlap: int) -> Window:
    """Return the window that ends at least `overlap` rows after `start` and begins first."""
    target = start + overlap
    return min((Window(-(-target // rows) - 1, rows) for rows in range(size, size // 2, -1)), key=lambda w: w.offset)


def shared_rows(left: Reading, right: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the rows that two windows share, in each of them."""
    places = pc.index_in(right.keys, value_set=left.keys)
    if left.rejected and right.rejected:
        # equal rows without an id may be different rows
        places = pc.if_else(has_no_id(right.keys), pa.scalar(None, places.type), places)
    there = np.flatnonzero(pc.is_valid(places).to_numpy(zero_copy_only=False))
    return places.drop_null().to_numpy(), there


def steady_rows(here: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of those shared rows that are shifted by the median, if some of them changed their order."""
    shifts = there - here
    steady = shifts == np.sort(shifts)[len(shifts) // 2]
    return here[steady], there[steady]


def share_most(left: Reading, right: Reading, here: np.ndarray, there: np.ndarray, *, apart: bool) -> bool:
    """Return whether the rows that two windows share are at least as many as those that contradict an overlap.

    Of two windows that overlap, only one has rows before those they share, and only one has rows after them. A row
    that moved can be in any two windows, and does not link them. Between windows that were read long after each other
    (`apart`), many rows can have moved, and one of them can be the last of the left window and the first of the right:
    more than one row must be shared then, and rows of the right window before them count as contradictions.
    """
    least = 2 if apart and min(len(left.keys), len(right.keys)) > 1 else 1
    if len(here) < least:
        return False
    before = int(there[0]) if apart else min(int(here[0]), int(there[0]))
    after = min(len(left.keys) - 1 - int(here[-1]), len(right.keys) - 1 - int(there[-1]))
    return len(here) >= before + after


@dataclass(frozen=True, slots=True)
class Overlap:
    """What two neighboring windows share."""

    is_link: bool
    has_moved: bool  # whether shared rows are missing from one of them, or shifted
    shift: int  # the most rows by which a shared row stands elsewhere in the listing than before
    displaced: str | None  # a row that changed its place among those shared


def compare(left: Reading, right: Reading, *, apart: bool = False) -> Overlap:
    """Return what two neighboring windows share, and whether that links them; `apart` as in `share_most`."""
    here, there = shared_rows(left, right)
    displaced = None
    if len(falls := np.flatnonzero(np.diff(here) <= 0)):
        displaced = str(right.keys[int(there[falls[0]])])
        here, there = steady_rows(here, there)
    begin, end = left.window.offset, right.window.offset
    shifts = end + there - begin - here
    overlap = min(begin + len(left.keys), end + len(right.keys)) - max(begin, end)
    shift = int(np.abs(shifts).max(initial=0))
    has_moved = len(shifts) < overlap or shift > 0
    return Overlap(share_most(left, right, here, there, apart=apart), has_moved, shift, displaced)


def moved_row(readings: Sequence[Reading], coded: Coded) -> str | None:
    """Return an id that is twice in one window, or missing from a window between two that have it; None if none is."""
    ids = [coded.ids(reading) for reading in readings]
    repeated = coded.repeated(ids)
    groups = [places_in(repeated, each)[1] for each in ids]
    displaced = find_gaps(groups, len(repeated))
    for group in groups:
        once, times = np.unique(group, return_counts=True)
        displaced[once[times > 1]] = True
    moved = repeated[displaced]
    if not len(moved):
        return None
    reading = next(reading for reading in readings if moved[0] in coded.codes(reading))
    return str(reading.keys[int(np.flatnonzero(coded.codes(reading) == moved[0])[0])])


def show_all(coded: Coded, *, has_displaced: bool) -> bool:
    """Return whether the readings show every row that the listing ever had, and each of them twice on average.

    The listing never had more rows than its first count and the growth since, if each added or deleted row changed the
    count. So if that many rows were shown, none was missed, wherever rows moved. If more were shown, rows were added
    while as many were deleted; then the number proves nothing about rows that moved, and none may be known to have
    moved (`has_displaced`). Two readings are needed because in one pass an added row can hide a missing one.
    """
    counts, grown = growth(coded.readings)
    shown, ever = coded.size, counts[0] + grown
    is_read_twice = sum(len(reading.keys) for reading in coded.readings) >= 2 * ever
    return is_read_twice and (shown == ever or (shown > ever and not has_displaced))


def growth(readings: Sequence[Reading]) -> tuple[list[int], int]:
    """Return the counts in the order of the responses, and the sum of all increases; decreases do not matter."""
    counts = [reading.count for reading in sorted(readings, key=lambda reading: reading.answered)]
    return counts, sum(max(0, after - before) for before, after in pairwise(counts))


def example(key: str) -> str:
    """Return an id as an example for a message; empty for an unusual id, which could be any text."""
    return f", for example {key}" if PLAIN_ID.fullmatch(key) else ""
