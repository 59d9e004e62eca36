"""In simulated walks over listings that change, accepted listings miss no row that stayed."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import get_args

import pytest

from letters_source.errors import IncompleteListing, ServiceRejected, WrongCount
from letters_source.pagination.chain import evidence_of, read_range
from letters_source.pagination.coding import Coded, count_displaced
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault
from letters_source.pagination.ranges import plan_ranges, read_linked
from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.verdicts import Verdict
from letters_source.pagination.walk import walk_listing
from letters_source.pagination.wanted import Proof, Wanted
from letters_source.pagination.windows import NotContinuous, moved_row
from simulated_service import (
    ConcurrentReader,
    Drift,
    Kind,
    Outcome,
    Place,
    Scenario,
    SimulatedService,
    accepted_rows,
    simulate,
)

pytestmark = pytest.mark.slow

STILL = Drift("insert", "end", 0)
ORDERED: list[tuple[Kind, Place]] = [
    ("delete", "anywhere"),
    *((kind, place) for kind in ("insert", "mixed", "swap") for place in get_args(Place)),
]


def scenarios(kind: Kind, place: Place, proof: Proof) -> list[Scenario]:
    """Two dozen simulated walks over 32 pages, changed before every twentieth or every tenth answer."""
    return [
        Scenario(Drift(kind, place, rate), proof, seed, window)
        for seed in range(4)
        for rate in (0.05, 0.1)
        for window in (1, 4, 8)
    ]


@pytest.mark.parametrize("place", ["front", "end"])
@pytest.mark.parametrize("kind", ["insert", "delete", "swap"])
def test_a_recheck_is_never_wrong_where_rows_enter_at_one_end(kind: Kind, place: Place) -> None:
    """In simulated walks, every accepted listing was the service's at one answer."""
    outcomes = {scenario: simulate(scenario) for scenario in scenarios(kind, place, "continuous")}
    assert [scenario for scenario, outcome in outcomes.items() if outcome.wrong] == []
    refused = {"refused"} if kind != "insert" else set()
    assert {outcome.ending for outcome in outcomes.values()} == {"stable", "exact"} | refused


@pytest.mark.parametrize("place", ["front", "end", "anywhere"])
@pytest.mark.parametrize("kind", ["insert", "delete", "swap"])
def test_a_certificate_is_never_wrong(kind: Kind, place: Place) -> None:
    """In simulated walks, every exact listing was the service's at one answer, wherever rows were added."""
    outcomes = {scenario: simulate(scenario) for scenario in scenarios(kind, place, "exact")}
    assert [scenario for scenario, outcome in outcomes.items() if outcome.wrong] == []
    refused = {"refused"} if kind != "insert" or place == "anywhere" else set()
    assert {outcome.ending for outcome in outcomes.values()} == {"exact"} | refused


def test_the_simulation_finds_wrong_acceptances() -> None:
    """If rows are added anywhere, some stable walks are wrong, and no others."""
    outcomes = [simulate(scenario) for scenario in scenarios("swap", "anywhere", "continuous")]
    wrong = Counter(outcome.ending for outcome in outcomes if outcome.wrong)
    assert wrong.keys() == {"stable"}


def test_a_simulation_ends_the_same_way_each_time() -> None:
    """A scenario determines its walk completely."""
    scenario = Scenario(Drift("swap", "end", 0.1), "continuous", seed=7)
    assert simulate(scenario) == simulate(scenario)


class Shuffled(SimulatedService):
    """A service that lists its rows in another order at each answer."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Change the order of all rows, then answer."""
        self.rng.shuffle(self.rows)
        return super().answer(window)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("proof", ["continuous", "exact"])
def test_an_unstable_order_is_refused(proof: Proof, seed: int) -> None:
    """A listing whose order changes with every response is refused after as many passes as are allowed."""
    scenario, rng = Scenario(STILL, proof, seed, window=1), random.Random(seed)
    service = Shuffled(scenario, rng)
    service.fill(scenario.rows)
    with pytest.raises(IncompleteListing, match="do not add up"):
        walk_listing(ConcurrentReader(service, scenario.window, rng).read, "contacts", Wanted(proof))
    assert service.requests == 34 * 4


def outcomes(kind: Kind, place: Place, rates: Iterable[float]) -> list[Outcome]:
    """Walks over 40 pages of 50 rows, with 1 to 8 requests in flight."""
    return [
        simulate(Scenario(Drift(kind, place, rate), "continuous", seed, window, 40 * 50 - 3, 50))
        for rate in rates
        for window in (1, 4, 8)
        for seed in range(3)
    ]


@pytest.mark.parametrize(("kind", "place"), ORDERED)
def test_no_row_that_stayed_is_missed(kind: Kind, place: Place) -> None:
    """Only stable verdicts may be wrong: swaps anywhere leave the count unchanged."""
    ended = outcomes(kind, place, (0.02, 0.1, 0.25))
    assert [one for one in ended if one.wrong and one.ending != "stable"] == []
    assert {one.ending for one in ended} == {"continuous", "stable"}


@pytest.mark.parametrize(("kind", "place"), [pair for pair in ORDERED if pair[0] != "swap"])
def test_a_listing_that_changes_ten_times_is_not_refused(kind: Kind, place: Place) -> None:
    """A listing with ten changes is accepted with fewer requests than two passes take."""
    ended = outcomes(kind, place, (0.25,))
    assert {one.ending for one in ended} == {"continuous"}
    assert max(one.requests for one in ended) < 2 * 40


@pytest.mark.parametrize(("kind", "place"), [pair for pair in ORDERED if pair[0] != "swap"])
@pytest.mark.parametrize("changes", [1, 10])
def test_pages_of_a_listing_that_is_expected_to_change_overlap_from_the_start(
    kind: Kind, place: Place, changes: int
) -> None:
    """A change makes no load start over then: pages of 100 rows take at most three requests more for ten pages."""
    drift = Drift(kind, place, changes / 100)
    ended = [
        simulate(Scenario(drift, "continuous", seed, window, 10_000, 100, expects_change=True))
        for seed, window in enumerate((1, 4, 16))
    ]
    assert [one for one in ended if one.wrong or one.ending == "refused"] == []
    assert max(one.requests for one in ended) <= 1.3 * 100


@pytest.mark.parametrize(("seed", "rows"), [(83000177, 10_490), (910037, 8_990)])
def test_a_row_that_moved_to_the_front_does_not_stand_for_those_that_followed_it(seed: int, rows: int) -> None:
    """In these walks, the front shares one row with the pages that were read first: it moved, as many others did."""
    drift = Drift("mixture", "front", 1)
    ended = simulate(Scenario(drift, "continuous", seed, 4, rows, 30, expects_change=True))
    assert not ended.wrong


def test_pages_of_a_listing_that_is_not_expected_to_change_do_not_overlap() -> None:
    """Without a change, they take two requests more than there are pages."""
    ended = simulate(Scenario(Drift("insert", "end", 0), "continuous", 1, 4, 10_000, 100))
    assert ended.ending == "stable"
    assert ended.requests == 102


@pytest.mark.parametrize("kind", ["swap", "move"])
@pytest.mark.parametrize("place", get_args(Place))
def test_changes_that_no_count_shows_take_another_reading(kind: Kind, place: Place) -> None:
    """A row that windows lack may have moved over them, and then another pass shows it."""
    ended = outcomes(kind, place, (0.25,))
    assert {(one.ending, one.wrong) for one in ended} == {("continuous", False)}
    assert max(one.requests for one in ended) < 3 * 40


@pytest.mark.parametrize("place", get_args(Place))
@pytest.mark.parametrize("page_size", [50, 500])
def test_a_listing_whose_rows_only_move_is_loaded_whole(place: Place, page_size: int) -> None:
    """Each row once, though no windows showed all of them."""
    service, verdict = walk(SimulatedService, Drift("move", place, 0.5), 4, page_size, 20)
    assert verdict.name == "continuous"
    assert sorted(accepted_rows(verdict)) == sorted(service.rows)


class SortedByChange(SimulatedService):
    """A listing sorted by its last change: rows move to its front, and others leave or are added at its end."""

    def change(self, drift: Drift) -> None:
        """Move a row to the front, or change the listing as the drift says."""
        moving = self.rng.random() < 0.4
        super().change(Drift("move", "front", 1) if moving else drift)


@pytest.mark.parametrize("kind", ["delete", "insert"])
def test_rows_that_move_to_the_front_are_not_missed_while_others_come_or_go(kind: Kind) -> None:
    """The first window is read again at the end, and contains them."""
    for seed in range(20):
        scenario, rng = Scenario(Drift(kind, "end", 0.1), "continuous", seed, 4, 1_997, 50), random.Random(seed)
        service = SortedByChange(scenario, rng)
        service.fill(scenario.rows)
        with suppress(IncompleteListing):
            verdict = walk_listing(ConcurrentReader(service, 4, rng).read, "contacts")
            assert service.stayed <= set(accepted_rows(verdict))


class FixedPageSize(SimulatedService):
    """A service whose pages always have the same size."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer a window as if it had no size."""
        return super().answer(Window(window.page))


class GrowingInFront(SimulatedService):
    """A service with a page of new rows in front at each answer."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Add a page of rows in front, then answer."""
        for _ in range(self.scenario.page_size):
            self.change(Drift("insert", "front", 1))
        return super().answer(window)


class Overcounting(SimulatedService):
    """A service that counts more and more rows, and lists none of them."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer with a count that is too high, and grows with each answer."""
        listed, rows = super().answer(window)
        return listed + 500 + self.requests, rows


class CountingOnPage0(SimulatedService):
    """A service that counts the rows of page 0 alone."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer with count 0 for every page but page 0."""
        listed, rows = super().answer(window)
        return 0 if window.page else listed, rows


class Undercounting(SimulatedService):
    """A service that counts a row less than it lists."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer with a count that is one too low."""
        listed, rows = super().answer(window)
        return listed - 1, rows


class RejectingPageSizes(SimulatedService):
    """A service that rejects page sizes it does not know."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer a page of the usual size, and refuse any other size."""
        if window.size not in (None, self.scenario.page_size):
            raise ServiceRejected("contacts: the service refused the request (400)")
        return super().answer(window)


def walk(
    kind: type[SimulatedService], drift: Drift = STILL, max_walks: int = 2, page_size: int = 50, pages: int = 10
) -> tuple[SimulatedService, Verdict]:
    """The verdict on ten pages of such a service."""
    scenario, rng = Scenario(drift, "continuous", 1, 4, pages * page_size, page_size), random.Random(1)
    service = kind(scenario, rng)
    service.fill(scenario.rows)
    return service, walk_listing(ConcurrentReader(service, 4, rng).read, "contacts", Wanted(max_walks=max_walks))


@pytest.mark.parametrize(
    ("kind", "drift", "reason"),
    [
        (
            FixedPageSize,
            Drift("insert", "end", 0.3),
            r": page \d+ \(page size \d+\) returned 50 rows, and its count implies \d+: ",
        ),
        (GrowingInFront, STILL, "its rows shifted faster than overlapping pages could follow"),
        (CountingOnPage0, STILL, "its rows|it lists|returned"),
        (Overcounting, STILL, r": page \d+ \(page size \d+\) returned 20 rows, and its count implies \d+: "),
    ],
)
def test_what_windows_cannot_prove_is_refused(kind: type[SimulatedService], drift: Drift, reason: str) -> None:
    """A listing that windows cannot prove is refused with the reason."""
    with pytest.raises(IncompleteListing, match=reason):
        walk(kind, drift)


def test_a_count_that_is_too_low_is_refused_with_large_pages() -> None:
    """Windows show all rows, but nothing came or went that could explain one more than is counted."""
    with pytest.raises(WrongCount, match="it counts 7499 rows and lists 7500"):
        walk(Undercounting, max_walks=4, page_size=500, pages=15)


@pytest.mark.parametrize("kind", [FixedPageSize, RejectingPageSizes])
def test_fixed_page_sizes_are_read_in_whole_passes(kind: type[SimulatedService]) -> None:
    """A service with fixed page sizes is read in whole passes, because it returns no windows."""
    service, verdict = walk(kind, Drift("insert", "end", 0.1), max_walks=6)
    assert verdict.name != "continuous"
    assert service.stayed <= set(accepted_rows(verdict))


@dataclass(slots=True)
class Apart:
    """Reads each range with a clock of its own, in a random order, while the listing keeps changing."""

    service: SimulatedService
    rng: random.Random
    shown: dict[Evidence, list[Reading]] = field(default_factory=dict)

    def read(self, ranges: Sequence[Range]) -> list[Evidence]:
        """The evidence of ranges, in their order."""
        found: dict[int, Evidence] = {}
        for place in self.rng.sample(range(len(ranges)), len(ranges)):
            clock = count(self.rng.randrange(10**6))
            reader = ConcurrentReader(self.service, 4, self.rng, clock)
            readings = (chain := read_range(reader.read, ranges[place], 1)).readings()
            evidence = evidence_of(chain, moved_row(readings, Coded.of(readings)))
            self.shown[evidence] = readings
            found[place] = evidence
        return [found[place] for place in range(len(ranges))]


def fault_of(evidence: Sequence[Evidence], shown: dict[Evidence, list[Reading]]) -> str | None:
    """The fault of ranges whose rows were counted where they are, the front as the first."""
    parts = [shown[one] for one in evidence]
    coded = Coded.of(reading for part in parts for reading in part)
    return find_fault(evidence, Listed(coded.size, count_displaced(parts[1:], coded)))


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("insert", "front"),
        ("insert", "end"),
        ("insert", "anywhere"),
        ("delete", "anywhere"),
        ("mixed", "front"),
        ("mixed", "end"),
        ("mixed", "anywhere"),
        ("swap", "front"),
        ("swap", "end"),
        ("swap", "anywhere"),
        ("move", "front"),
        ("move", "anywhere"),
    ],
)
def test_ranges_read_in_any_order_hold_every_row_that_stayed(kind: Kind, place: Place) -> None:
    """Accepted ranges hold every row that stayed, and a listing is accepted if rows only come and go."""
    accepted = 0
    for rate, seeds in ((0, 1), (0.02, 2), (0.1, 2), (0.25, 2)):
        for seed in range(seeds):
            scenario = Scenario(Drift(kind, place, rate), "continuous", seed, rows=1_997, page_size=50)
            service = SimulatedService(scenario, random.Random(seed))
            service.fill(scenario.rows)
            apart = Apart(service, random.Random(seed))
            try:
                evidence = read_linked(apart.read, plan_ranges(len(service.rows), 50, 5))
            except NotContinuous:
                assert rate
                continue
            if fault_of(evidence, apart.shown):
                assert rate
                continue
            keys = {key for one in evidence for reading in apart.shown[one] for key in reading.keys.to_pylist()}
            assert service.stayed <= keys
            accepted += 1
    # rows that move between ranges can look like rows that were missed
    assert accepted == 7 or kind in ("swap", "move")
