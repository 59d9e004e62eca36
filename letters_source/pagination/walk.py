"""Which pages to read, in what order, until the listing is proven complete. Pure: a `Read` function reads them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.errors import IncompleteListing, ListingUnpaged, RepeatedIds, ServiceRejected, WrongCount
from letters_source.pagination.completeness import (
    Mask,
    Reading,
    Window,
    certify,
    code_keys,
    distinct_keys,
    distinct_rows,
    has_no_id,
    is_stable,
    newest_rows,
    repeats_rejected,
    shows_same_pages,
)
from letters_source.pagination.windows import (
    LARGE_PAGE,
    MANY_PAGES,
    SMALLEST_PAGE,
    Chain,
    NotContinuous,
    Read,
    example,
    read_chain,
)

Proof = Literal["continuous", "exact"]
"""The least that a listing must be proven to be."""
VerdictName = Literal["stable", "continuous", "exact"]
"""What a listing was proven to be: unchanged while it was read; changed, but no row that stayed was missed; or equal to
the service's at one moment."""
Duplicates = Literal["fail", "drop"]
"""What to do if the service lists an id more than once: refuse the listing, or load the id once."""
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
    until_changed: bool = False  # whether to end at the first sign of a change, if pages are large enough to overlap
    readings: list[Reading] = field(default_factory=list)
    fence: list[Reading] = field(default_factory=list)  # the first and the last page, read again at the end
    count: int = 0
    newest: int = -1
    first_empty: float = math.inf
    repeats: int = 0
    changed: bool = False
    _shown: set[int] = field(default_factory=set)

    @property
    def last_page(self) -> int:
        """The last page by the newest count and the page size of page 0."""
        return pages_of(self.count, len(self.readings[0].keys)) - 1

    @property
    def overlaps_at_once(self) -> bool:
        """Whether all pages may as well overlap, which costs little for many large ones."""
        return len(self.readings[0].keys) >= LARGE_PAGE and self.last_page >= MANY_PAGES

    @property
    def ends_early(self) -> bool:
        """Whether the walk ends because the listing changed."""
        return self.until_changed and self.changed and len(self.readings[0].keys) >= SMALLEST_PAGE

    def middle_pages(self) -> Iterator[Window]:
        """Yield the pages between the first and the last, as far as the newest count says."""
        planned = self.last_page
        # a listing that doubles while it is read is left to the next walk
        for page in range(1, 2 * planned + 10):
            # the walk can no longer be complete: the count may be far too high
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


def hash_of(reading: Reading) -> int:
    """Return a hash of a page's rows: their number, the first and the last key."""
    keys = reading.keys
    return hash((len(keys), *(keys[place].as_py() for place in (0, -1) if len(keys))))


def walk_listing(
    read: Read, listing: str, proof: Proof = "continuous", max_walks: int = 4, duplicates: Duplicates = "fail"
) -> Verdict:
    """Read a listing up to `max_walks` times, until it has the wanted proof, or raise `IncompleteListing`.

    Large pages overlap from the start, smaller ones from the first sign of a change on. Where overlapping pages cannot
    prove that no row was missed, further passes look for a moment of which all rows are known.
    """
    readings: list[Reading] = []
    before: list[Reading] = []
    earlier: list[Reading] = []
    may_overlap, reason = proof == "continuous", ""
    walk = begin_walk(read, listing, 1)
    passes = iter(range(1, max_walks + 1))
    if may_overlap and walk.overlaps_at_once:
        readings += walk.readings
        outcome = read_overlapping(read, readings, walk, 1)
        if isinstance(outcome, Verdict):
            return outcome
        reason, may_overlap = outcome, False
        walk = begin_walk(read, listing, 1)
    for number in passes:
        if number > 1:
            walk = begin_walk(read, listing, number)
        walk.until_changed = may_overlap and number < max_walks
        finish_walk(read, walk)
        if verdict := judge_walk(read, readings, walk, before, proof):
            return verdict
        if may_overlap and number < max_walks and overlaps_help(walk):
            may_overlap = False
            outcome = read_overlapping(read, readings, walk, next(passes))
            if isinstance(outcome, Verdict):
                return outcome
            reason = outcome
        if duplicates == "drop" and proof == "continuous" and repeats_ids(walk.readings, before):
            return each_once(readings, walk)
        before, earlier = walk.readings, before
        # a third pass would show the same
        if is_settled(before, earlier) and distinct_rows(before) != walk.count:
            break
    raise refusal(walk, earlier, readings, reason)


def begin_walk(read: Read, listing: str, number: int) -> Walk:
    """Read page 0, which shows the count and the page size, then the last page."""
    walk = Walk(listing, number)
    for reading in read([Window(0)], walk.number):
        walk.add(reading)
    if walk.last_page:
        for reading in read([Window(walk.last_page)], walk.number):
            walk.add(reading)
        check_paging(walk)
    return walk


def finish_walk(read: Read, walk: Walk) -> None:
    """Read the pages between the first and the last."""
    if walk.last_page:
        for reading in read(walk.middle_pages(), walk.number):
            walk.add(reading)


def judge_walk(
    read: Read, readings: list[Reading], walk: Walk, before: Sequence[Reading], proof: Proof
) -> Verdict | None:
    """Return the verdict of a pass, if it has one, after its first and last page were read again."""
    readings += walk.readings
    # several pages need a second reading for a certificate, a single page does not
    if (walk.number > 1 or not walk.last_page) and (verdict := exact(readings)):
        return verdict
    if walk.last_page and not walk.ends_early:
        walk.fence = list(read([Window(0), Window(walk.last_page)], walk.number))
    if proof == "continuous" and is_stable(walk.readings, walk.fence, before):
        return stable(readings, walk)
    readings += walk.fence
    return exact(readings)


def read_overlapping(read: Read, readings: list[Reading], walk: Walk, number: int) -> Verdict | str:
    """Read the listing in pages that overlap; return the verdict, or why they do not prove it complete."""
    chain = Chain(len(walk.readings[0].keys), walk.count)
    try:
        read_chain(partial(collect, read, readings), chain, number)
    except (NotContinuous, ServiceRejected) as error:
        return str(error)
    keep = keep_once(readings, chain.readings())
    is_still = (
        number == 1 and not chain.has_moved and {reading.count for reading in readings} == {distinct_keys(readings)}
    )
    return Verdict("stable" if is_still else "continuous", tuple(readings), keep, chain.mended, chain.overlap)


def overlaps_help(walk: Walk) -> bool:
    """Return whether the listing changed while it was read, and its pages are large enough to overlap.

    Rows that moved under an unchanged count show twice, as many of them as others do not show; in a first pass they may
    as well be listed twice for good.
    """
    shown = {reading.page: reading.keys for reading in walk.readings}
    is_fence_new = any(again.page not in shown or not again.keys.equals(shown[again.page]) for again in walk.fence)
    has_moved = walk.number > 1 and sum(len(reading.keys) for reading in walk.readings) == walk.count > distinct_rows(
        walk.readings
    )
    return (walk.changed or is_fence_new or has_moved) and len(walk.readings[0].keys) >= SMALLEST_PAGE


def collect(read: Read, readings: list[Reading], windows: Iterable[Window], number: int) -> Iterator[Reading]:
    """Yield responses as they arrive, and keep them."""
    for reading in read(windows, number):
        readings.append(reading)
        yield reading


def keep_once(readings: Sequence[Reading], wanted: Iterable[Reading]) -> tuple[Mask | bool, ...]:
    """Return which rows of all readings to load: those of the wanted ones, each as it was read last."""
    numbers = {id(reading) for reading in wanted}
    chosen = [reading for reading in readings if id(reading) in numbers]
    newest = iter(newest_rows(chosen, code_keys(chosen)))
    return tuple(next(newest) if id(reading) in numbers else False for reading in readings)


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


def stable(earlier: list[Reading], walk: Walk) -> Verdict:
    """Return the verdict of a walk without changes; the rows of the first and last page are those of the fence."""
    again = {reading.page for reading in walk.fence}
    kept = {id(reading) for reading in walk.readings if reading.page not in again}
    keep = [id(reading) in kept for reading in earlier]
    return Verdict("stable", (*earlier, *walk.fence), (*keep, *(True for _ in walk.fence)))


def repeats_ids(walk: Sequence[Reading], before: Sequence[Reading]) -> bool:
    """Return whether two equal passes show as many rows as the service counts, and some ids more than once."""
    rows = sum(len(reading.keys) for reading in walk)
    return is_settled(walk, before) and rows == walk[0].count > distinct_rows(walk)


def is_settled(walk: Sequence[Reading], before: Sequence[Reading]) -> bool:
    """Return whether two passes show the same pages under one count."""
    return len({reading.count for reading in (*walk, *before)}) == 1 and shows_same_pages(walk, before)


def each_once(readings: Sequence[Reading], walk: Walk) -> Verdict:
    """Return the verdict of a walk that shows ids more than once: each of them is loaded once."""
    keep = keep_once(readings, walk.readings)
    # equal rows without an id are different rows
    keep = tuple(
        rows if isinstance(rows, bool) else rows | has_no_id(reading.keys).to_numpy(zero_copy_only=False)
        for reading, rows in zip(readings, keep, strict=True)
    )
    return Verdict("stable", tuple(readings), keep)


def refusal(walk: Walk, before: Sequence[Reading], readings: Sequence[Reading], reason: str) -> IncompleteListing:
    """Return the error that tells most about a listing that is not proven complete."""
    last = walk.readings
    if repeats_ids(last, before):
        keys = pa.chunked_array([reading.keys for reading in last], pa.string())
        times = pc.value_counts(keys.filter(pc.invert(has_no_id(keys))))
        repeated = times.field("values")[pc.index(times.field("counts"), pc.max(times.field("counts"))).as_py()]
        repeats = len(keys) - distinct_rows(last)
        rows = "1 row repeats" if repeats == 1 else f"{repeats} rows repeat"
        reason = f"{rows} the id of another row{example(repeated.as_py())}, the same in two passes"
        return RepeatedIds(walk.listing, reason, count=walk.count, received=len(keys), walks=walk.number)
    if is_settled(last, before) and distinct_rows(last) != walk.count:
        reason = f"it counts {walk.count} rows and lists {distinct_rows(last)}, the same in two passes"
        return incomplete(walk.listing, reason, last, WrongCount)
    why = why_incomplete(last, readings)
    seen = readings if walk.ends_early else last
    return incomplete(walk.listing, why if repeats_rejected(last) else reason or why, seen)


def why_incomplete(last: Sequence[Reading], readings: Sequence[Reading]) -> str:
    """Return why the listing is not proven complete, judged by its last walk and all readings."""
    if repeats_rejected(last):
        return "two pages show the same row without an id, which takes two equal walks and proof continuous"
    counts = {reading.count for reading in readings}
    if len(counts) == 1 and counts != {distinct_rows(last)}:
        return "its rows do not add up to its count"
    return "its rows moved while they were read"


def incomplete(
    listing: str, reason: str, readings: Sequence[Reading], kind: type[IncompleteListing] = IncompleteListing
) -> IncompleteListing:
    """Return the error for a listing that is not proven complete, with the figures of its last walk."""
    newest = max(readings, key=lambda reading: reading.answered)
    return kind(listing, reason, count=newest.count, received=distinct_rows(readings), walks=newest.walk)
