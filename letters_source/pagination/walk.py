"""Which pages to read, in what order, until the listing is proven complete. Pure: a `Read` function reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from letters_source.errors import ListingUnpaged, ServiceRejected
from letters_source.pagination.chain import evidence_of, read_range
from letters_source.pagination.coding import Coded, Recorder, distinct_rows
from letters_source.pagination.completeness import is_settled, is_stable, repeats_ids
from letters_source.pagination.evidence import Evidence, Range
from letters_source.pagination.passes import Walk
from letters_source.pagination.ranges import plan_ranges, read_linked
from letters_source.pagination.readings import Read, Reading
from letters_source.pagination.verdicts import (
    Linked,
    Verdict,
    continuous,
    each_once,
    exact,
    incomplete,
    refusal,
    stable,
)
from letters_source.pagination.wanted import Proof, Wanted
from letters_source.pagination.windows import SMALLEST_PAGE, NotContinuous, moved_row

DEFAULT = Wanted()


def walk_listing(pages: Read, listing: str, wanted: Wanted = DEFAULT, *, expects_change: bool = False) -> Verdict:
    """Read a listing up to `max_walks` times, until it has the wanted proof, or raise `IncompleteListing`.

    Large pages overlap from the start, and smaller ones if `expects_change`; otherwise small pages overlap from the
    first sign of a change on. If overlapping pages may have missed a row, further passes follow: they may show the
    missing rows, or prove which rows the listing had at one moment.
    """
    recorder = Recorder(pages)
    read, readings = recorder.read, recorder.readings
    is_exact, drops = wanted.proof == "exact", wanted.duplicates == "drop"
    before: Sequence[Reading] = ()
    linked: Linked | None = None
    walk = begin_walk(read, listing, 1)
    if not is_exact and walk.overlaps_at_once(expects_change=expects_change):
        linked = read_overlapping(recorder, walk, 1)
        if verdict := continuous(recorder.coded, linked):
            return verdict
        walk = begin_walk(read, listing, 1)
    number = 1
    while number <= wanted.max_walks:
        if number > 1:
            before, walk = walk.readings, begin_walk(read, listing, number)
        may_overlap = not (is_exact or linked) and number < wanted.max_walks
        walk.read_middle(until_changed=may_overlap)
        if verdict := conclude(walk, recorder, before, wanted.proof):
            return verdict
        if may_overlap and overlaps_help(walk, recorder.coded, may_repeat=drops or wanted.max_walks == 2):
            number += 1
            linked = read_overlapping(recorder, walk, number)
        if linked and (verdict := continuous(recorder.coded, linked)):
            return verdict
        if drops and not is_exact and repeats_ids(walk.readings, before, recorder.coded):
            return each_once(recorder.coded, walk)
        # a third pass would show the same
        if is_settled(walk.readings, before) and distinct_rows(walk.readings, recorder.coded) != walk.count:
            break
        number += 1
    raise refusal(walk, before, readings, linked.fault if linked else None)


def begin_walk(read: Read, listing: str, number: int) -> Walk:
    """Return a new pass, of which the first and the last page are read."""
    walk = Walk(read, listing, number)
    walk.read_ends()
    if walk.last_page:
        check_paging(walk)
    return walk


def check_paging(walk: Walk) -> None:
    """Raise ListingUnpaged if the last page has the rows and the count of page 0: the service ignores `page`."""
    first, last = walk.readings
    # a single row can move from one page to the other
    if len(first.keys) > 1 and first.count == last.count and first.keys.equals(last.keys):
        reason = f"page {last.page} repeats page 0, so the service ignores the page parameter"
        raise incomplete(walk.listing, reason, walk.readings, ListingUnpaged)


def conclude(walk: Walk, recorder: Recorder, before: Sequence[Reading], proof: Proof) -> Verdict | None:
    """Return the verdict of a pass, if it has one; unless all readings prove it, its ends are read again first."""
    # several pages need a second reading for a certificate, a single page does not
    if (walk.number > 1 or not walk.last_page) and (verdict := exact(recorder.coded)):
        return verdict
    walk.recheck_ends()
    if proof == "continuous" and is_stable(walk.readings, walk.rechecked, before, recorder.coded):
        return stable(recorder.readings, walk)
    return exact(recorder.coded)


def overlaps_help(walk: Walk, coded: Coded, *, may_repeat: bool) -> bool:
    """Return whether the listing changed while it was read, and its pages are large enough to overlap.

    If rows move while the count stays, some are read twice and as many others are missed. In a first pass, the service
    may also list them twice every time; where that is to be expected (`may_repeat`), the next pass tells.
    """
    shown = {reading.page: reading.keys for reading in walk.readings}
    have_ends_changed = any(
        again.page not in shown or not again.keys.equals(shown[again.page]) for again in walk.rechecked
    )
    rows = sum(len(reading.keys) for reading in walk.readings)
    has_moved = (walk.number > 1 or not may_repeat) and rows == walk.count > distinct_rows(walk.readings, coded)
    return (walk.changed or have_ends_changed or has_moved) and len(walk.readings[0].keys) >= SMALLEST_PAGE


def read_overlapping(recorder: Recorder, walk: Walk, number: int) -> Linked:
    """Read the listing in pages that overlap, as one range; the result tells if they cannot be linked."""
    ranges = LocalRanges(recorder.read, number)
    try:
        linked = read_linked(ranges.read, plan_ranges(walk.count, len(walk.readings[0].keys), 1))
    except (NotContinuous, ServiceRejected) as error:
        return Linked((), recorder.coded, str(error))
    coded = recorder.coded
    return Linked(tuple(with_moved(evidence, ranges.shown[evidence], coded) for evidence in linked), coded)


def with_moved(evidence: Evidence, shown: list[Reading], coded: Coded) -> tuple[Evidence, list[Reading]]:
    """Return the evidence of a range with what comparing all of its rows shows, and its readings."""
    return replace(evidence, displaced=moved_row(shown, coded) or evidence.displaced), shown


@dataclass(slots=True, eq=False)
class LocalRanges:
    """Reads ranges in this process, one after another, and keeps the readings of each; rows are compared later."""

    pages: Read
    number: int
    shown: dict[Evidence, list[Reading]] = field(default_factory=dict)

    def read(self, ranges: Sequence[Range]) -> list[Evidence]:
        """Read ranges; see `ReadRanges`."""
        chains = [read_range(self.pages, each, self.number) for each in ranges]
        found = [evidence_of(chain, None) for chain in chains]
        self.shown.update(zip(found, (chain.readings() for chain in chains), strict=True))
        return found
