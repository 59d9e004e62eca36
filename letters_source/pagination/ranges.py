"""Which ranges of a listing to read, and what to read between them until they are linked. Pure.

A plan splits a listing into ranges. Reading a range gives its rows and evidence: figures of its windows, and the keys
at both of its ends. Evidence needs no shared clock, so ranges can be read by other processes or on other machines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from letters_source.pagination.evidence import Evidence, Range, joint
from letters_source.pagination.windows import LEAST_OVERLAP, TOO_FAST, NotContinuous

# each mends what changed during the one before
MOST_ROUNDS = 6

ReadRanges = Callable[[Sequence[Range]], Sequence[Evidence]]
"""Reads ranges, in any order and place, and returns their evidence in the order of the ranges."""


def plan_ranges(count: int, page_size: int, number: int) -> list[Range]:
    """Return ranges of whole pages that cover a listing; each reaches into the next, so that they share rows."""
    pages = max(1, -(-count // page_size))
    rows = -(-pages // number) * page_size
    starts = range(0, max(count, 1), rows)
    return [
        Range(start, None if start == starts[-1] else start + rows + page_size // 2, page_size, count)
        for start in starts
    ]


def read_linked(read: ReadRanges, plan: Sequence[Range]) -> tuple[Evidence, ...]:
    """Read ranges and what is missing between them, then the front again; raise NotContinuous if they are not linked.

    The *front* is the first window, read again last, so it holds rows that came or moved there meanwhile. It comes
    first in what is returned.
    """
    evidence = mend(read, read(plan))
    front = replace(plan[0], stop=LEAST_OVERLAP)
    return mend(read, [*read([front]), *evidence])


def mend(read: ReadRanges, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return the evidence of ranges that are linked, after reading what is missing between them."""
    for doublings in range(MOST_ROUNDS + 1):
        evidence = within_listing(evidence)
        gaps = dict(find_gaps(evidence, doublings))
        if not gaps:
            return tuple(evidence)
        if doublings == MOST_ROUNDS:
            break
        mends = dict(zip(gaps, read(list(gaps.values())), strict=True))
        evidence = [each for place, one in enumerate(evidence) for each in (one, mends.get(place)) if each is not None]
    raise NotContinuous(TOO_FAST)


def within_listing(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    """Return the evidence without that of ranges behind the end of a listing that became shorter."""
    rows = [place for place, one in enumerate(evidence) if one.last.keys]
    return evidence[: rows[-1] + 1] if rows else evidence[:1]


def find_gaps(evidence: Sequence[Evidence], doublings: int) -> Iterator[tuple[int, Range]]:
    """Yield what to read after a range that is not linked to the next, or does not reach the end, by its place."""
    count = evidence[0].count
    for place, (left, right) in enumerate(pairwise(evidence)):
        if not joint(left, right).is_link:
            yield place, between(left, right, max(count, left.count, right.count), doublings)
    last = evidence[-1]
    if not last.reaches_end:
        yield len(evidence) - 1, replace(last.range, start=last.last.window.offset, stop=None, count=last.count)


def between(left: Evidence, right: Evidence, count: int, doublings: int) -> Range:
    """Return the range that links two others, as far as their rows may have shifted.

    That is as far as the count changed, and some pages further after each try, as not all shifts change the count.
    """
    before, after = left.last, right.first
    size = left.range.page_size
    start = max(0, before.window.offset + min(0, count - before.count))
    goal = max(start, after.window.offset + max(0, count - after.count))
    further = size * ((1 << doublings) - 1)
    start -= min(start, further)
    return Range(start - start % size, goal + left.overlap + further, size, count, left.overlap, 1 << MOST_ROUNDS)
