"""What the passes over a listing have proven, and which rows to load; or why they prove nothing. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.errors import IncompleteListing, RepeatedIds, WrongCount
from letters_source.pagination.coding import Coded, count_displaced, distinct_rows, newest_rows
from letters_source.pagination.completeness import certify, is_settled, repeats_ids
from letters_source.pagination.evidence import Evidence, Listed, find_displaced, find_fault, have_moved
from letters_source.pagination.passes import Walk
from letters_source.pagination.readings import Keep, Reading, has_no_id, repeats_rejected
from letters_source.pagination.windows import example, show_all

VerdictName = Literal["stable", "continuous", "exact"]
"""What a listing was proven to be: unchanged while it was read; changed, but no row that stayed was missed; or equal to
the service's at one moment."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A listing proven complete: how, by which readings, and which rows of each reading to load."""

    name: VerdictName
    readings: tuple[Reading, ...]
    keep: Keep
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


def exact(coded: Coded) -> Verdict | None:
    """Return the verdict of the certificate over all readings so far, if there is one."""
    certificate = certify(coded)
    return Verdict("exact", tuple(coded.readings), certificate.keep) if certificate else None


def stable(readings: Sequence[Reading], walk: Walk) -> Verdict:
    """Return the verdict of a pass without changes; rows of the first and last page come from the recheck."""
    again = {reading.page for reading in walk.rechecked}
    once = (reading for reading in walk.readings if reading.page not in again)
    kept = {id(reading) for reading in (*once, *walk.rechecked)}
    return Verdict("stable", tuple(readings), tuple(id(reading) in kept for reading in readings))


@dataclass(frozen=True, slots=True)
class Linked:
    """The ranges of a listing, the front as the first, with their readings; or why they could not be linked."""

    ranges: tuple[tuple[Evidence, Sequence[Reading]], ...]
    coded: Coded
    failure: str | None = None

    @property
    def evidence(self) -> list[Evidence]:
        """The evidence of the ranges."""
        return [evidence for evidence, _ in self.ranges]

    @property
    def readings(self) -> list[Reading]:
        """The windows of all ranges."""
        return [reading for _, readings in self.ranges for reading in readings]

    @property
    def keys(self) -> int:
        """The number of different keys in them; equal rows without an id count as one."""
        return self.coded.distinct(map(self.coded.codes, self.readings))

    @property
    def fault(self) -> str | None:
        """Why windows alone do not prove that no row that stayed was missed; None if they do."""
        if self.failure:
            return self.failure
        displaced = count_displaced([readings for _, readings in self.ranges[1:]], self.coded)
        return find_fault(self.evidence, Listed(self.keys, displaced))


def continuous(coded: Coded, linked: Linked) -> Verdict | None:
    """Return the verdict of linked windows; None if neither they nor all readings together hold every row that stayed.

    Links prove it if no row moves. A row that moves from a part not yet read to one already read looks like a row that
    comes while another leaves: the windows lack a row that is counted. If other passes show enough rows to make up for
    it, the rows of all passes are loaded, each once.
    """
    evidence, windows, readings = linked.evidence, linked.readings, coded.readings
    shown: Sequence[Reading] = windows
    if linked.fault:
        # where nothing moved, the count is wrong or ids are listed twice
        if linked.failure or not have_moved(evidence):
            return None
        if not show_all(coded, has_displaced=find_displaced(evidence) is not None):
            return None
        shown = readings
    is_first = shown is windows and {one.walk for one in windows} == {1}
    counts = {one.count for one in readings}
    is_still = is_first and not have_moved(evidence) and counts == {coded.size}
    return linked_verdict(evidence, 1, readings, keep_once(coded, shown), is_still=is_still)


def linked_verdict(
    evidence: Sequence[Evidence], planned: int, readings: Sequence[Reading], keep: Keep, *, is_still: bool
) -> Verdict:
    """Return the verdict of linked ranges: the planned ones, the front, and further ones that mend what was between."""
    mended = sum(one.mended for one in evidence) + max(0, len(evidence) - planned - 1)
    overlap = max(one.overlap for one in evidence)
    return Verdict("stable" if is_still else "continuous", tuple(readings), keep, mended, overlap)


def each_once(coded: Coded, walk: Walk) -> Verdict:
    """Return the verdict of a pass that shows ids more than once: each of them is loaded once."""
    keep = keep_once(coded, walk.readings)
    # equal rows without an id are different rows
    keep = tuple(
        rows if isinstance(rows, bool) else rows | has_no_id(reading.keys).to_numpy(zero_copy_only=False)
        for reading, rows in zip(coded.readings, keep, strict=True)
    )
    return Verdict("stable", tuple(coded.readings), keep)


def keep_once(coded: Coded, wanted: Iterable[Reading]) -> Keep:
    """Return which rows of all readings to load: for each key in the wanted readings, the row that was read last."""
    numbers = {id(reading) for reading in wanted}
    newest = iter(newest_rows([reading for reading in coded.readings if id(reading) in numbers], coded))
    return tuple(next(newest) if id(reading) in numbers else False for reading in coded.readings)


def refusal(
    walk: Walk, before: Sequence[Reading], readings: Sequence[Reading], reason: str | None
) -> IncompleteListing:
    """Return the most specific error for a listing that is not proven complete."""
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
    """Return why the listing is not proven complete, judged by its last pass and all readings."""
    if repeats_rejected(last):
        seen = "two pages show the same row without an id"
        return f"{seen}, which is accepted only if two passes are equal and sources.letters.proof is continuous"
    counts = {reading.count for reading in readings}
    if len(counts) == 1 and counts != {distinct_rows(last)}:
        return "its rows do not add up to its count"
    return "its rows moved while they were read"


def incomplete(
    listing: str, reason: str, readings: Sequence[Reading], kind: type[IncompleteListing] = IncompleteListing
) -> IncompleteListing:
    """Return the error for a listing that is not proven complete, with the figures of its last pass."""
    newest = max(readings, key=lambda reading: reading.answered)
    return kind(listing, reason, count=newest.count, received=distinct_rows(readings), walks=newest.walk)
