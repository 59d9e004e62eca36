"""Overlapping pages, called windows: where they begin and end, and whether their rows agree. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.pagination.readings import Reading, Window, code_keys, count_codes, distinct_keys, has_no_id

# smaller pages leave no room for sizes that overlap
SMALLEST_PAGE = 30
# overlapping pages of this size cost 6 % more requests, pages of 1,000 rows 4 %, and pages of 100 rows 17 %
LARGE_PAGE = 500
# with fewer pages, the extra requests at both ends cost relatively more
MANY_PAGES = 10
LEAST_OVERLAP = 3
PLAIN_ID = re.compile(r"[\w.:-]{1,64}")


class NotContinuous(Exception):
    """The windows do not prove that no row that stayed was missed; the message says why."""


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


def check_order(readings: Sequence[Reading]) -> None:
    """Raise `NotContinuous` if a row is twice in one window, or in two windows but not in all between them."""
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


def out_of_order(key: str) -> NotContinuous:
    """Return the error for a row that changed its place."""
    return NotContinuous(f"its rows changed order or are listed twice{example(key)}")


def example(key: str) -> str:
    """Return an id as an example for a message; empty for an unusual id, which could be any text."""
    return f", for example {key}" if PLAIN_ID.fullmatch(key) else ""
