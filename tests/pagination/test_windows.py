"""Overlapping pages hold every row that stayed, or the walk reports that they do not."""

import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import get_args

import pyarrow as pa
import pytest

from letters_source.errors import IncompleteListing, RepeatedIds, ServiceRejected, WrongCount
from letters_source.pagination.readings import NUL, Read, Reading, Window
from letters_source.pagination.verdicts import Verdict
from letters_source.pagination.walk import walk_listing
from letters_source.pagination.windows import (
    LEAST_OVERLAP,
    SMALLEST_PAGE,
    example,
    moved_row,
    next_window,
    previous_window,
    share_most,
    shared_rows,
    show_all,
    steady_rows,
)
from simulated_service import (
    ConcurrentReader,
    Kind,
    Outcome,
    Place,
    Scenario,
    SimulatedService,
    Weather,
    accepted_rows,
    simulate,
)

STILL = Weather("insert", "end", 0)
ORDERED: list[tuple[Kind, Place]] = [
    ("delete", "anywhere"),
    *((kind, place) for kind in ("insert", "mixed", "swap") for place in get_args(Place)),
]


def reading(keys: Iterable[str], page: int = 0, *, total: int = 100, answered: int = 1) -> Reading:
    """A response with these keys."""
    shown = pa.array(list(keys), pa.string())
    rejected = sum(key.as_py().startswith(NUL) for key in shown)
    return Reading(page, 1, total, shown, rejected, answered - 1, answered)


@pytest.mark.parametrize(
    ("size", "overlap", "most"),
    [
        (SMALLEST_PAGE, LEAST_OVERLAP, 140),
        (SMALLEST_PAGE, 6, 160),
        (50, LEAST_OVERLAP, 128),
        (50, 6, 134),
        (100, LEAST_OVERLAP, 117),
        (100, 6, 120),
        (1_000, LEAST_OVERLAP, 104),
        (1_000, 6, 105),
    ],
)
def test_each_window_begins_before_the_one_before_it_ends(size: int, overlap: int, most: int) -> None:
    """Windows overlap by at least the overlap, each reaches further, and a hundred full pages take few of them."""
    end, windows = size, 1
    while end < 100 * size:
        window = next_window(end, size, overlap)
        assert window.size is not None
        assert window.offset <= end - overlap
        assert window.end > end
        assert size // 2 < window.size <= size
        end, windows = window.end, windows + 1
    assert windows == most


@pytest.mark.parametrize(
    ("size", "start", "window"),
    [
        (30, 0, Window(0, 30)),
        (30, 1, Window(0, 30)),
        (30, 37, Window(1, 20)),
        (30, 1_234, Window(45, 27)),
        (30, 98_765, Window(3_405, 29)),
        (100, 0, Window(0, 100)),
        (100, 37, Window(0, 100)),
        (100, 1_234, Window(12, 96)),
        (100, 98_765, Window(1_161, 85)),
    ],
)
def test_a_window_before_another_shares_its_first_rows(size: int, start: int, window: Window) -> None:
    """The window before another shares three rows or more, and begins as early as a page of that size can."""
    assert previous_window(start, size, LEAST_OVERLAP) == window


def test_shared_rows_are_found_in_both_windows() -> None:
    """Shared rows are given by their places in both windows, but not those without an id."""
    here, there = shared_rows(reading("abcd"), reading("cdef"))
    assert (here.tolist(), there.tolist()) == ([2, 3], [0, 1])
    here, _ = shared_rows(reading(["a", NUL + "{}"]), reading([NUL + "{}", "b"]))
    assert here.tolist() == []


def test_rows_that_kept_their_order_stay_shared() -> None:
    """Shared rows that kept their order stay shared, and one that moved among them is left out."""
    here, there = steady_rows(*shared_rows(reading("abcd"), reading("dbce")))
    assert (here.tolist(), there.tolist()) == ([1, 2], [1, 2])


@pytest.mark.parametrize(
    ("left", "right", "is_link"),
    [
        ("abcd", "cdef", True),
        ("cdef", "abcd", True),
        ("abcdef", "cd", True),
        ("abxd", "cdef", True),
        ("abcd", "efgh", False),
        ("abcm", "mefg", True),
        ("abmc", "emfg", False),
        ("mabc", "efgm", True),
    ],
)
def test_a_row_that_moved_links_no_windows(left: str, right: str, *, is_link: bool) -> None:
    """Windows that overlap do not both have other rows before or after what they share."""
    shown = reading(left), reading(right)
    assert share_most(*shown, *shared_rows(*shown)) is is_link


def test_a_row_that_is_in_windows_far_apart_has_moved() -> None:
    """A row in two windows that are not neighbors has moved."""
    assert moved_row([reading("abc"), reading("cde"), reading("def")]) is None
    assert moved_row([reading("abc"), reading("cde"), reading("efb")]) == "b"
    assert moved_row([reading("aab"), reading("bcd"), reading("dae")]) == "a"


@pytest.mark.parametrize(
    ("totals", "shown", "has_strays", "is_all"),
    [
        ((5, 5), "abcde", True, True),
        ((5, 5), "abcd", False, False),
        ((5, 5), "abcdef", False, True),
        ((5, 5), "abcdef", True, False),
        ((5, 4), "abcd", False, False),
        ((4, 5), "abcd", False, False),
        ((4, 5), "abcde", True, True),
    ],
)
def test_as_many_rows_as_ever_were_counted_are_all(
    totals: tuple[int, int],
    shown: str,
    *,
    has_strays: bool,
    is_all: bool,
) -> None:
    """Windows show all rows if they show as many as were counted; strays among more rows leave it open."""
    before, after = totals
    readings = [reading(shown, total=before), reading(shown, total=after, answered=3)]
    assert show_all(readings, has_strays=has_strays) is is_all
    assert not show_all([readings[0], reading("ab", total=after, answered=3)], has_strays=has_strays)


def outcomes(kind: Kind, place: Place, rates: Iterable[float]) -> list[Outcome]:
    """Walks over 40 pages of 50 rows, with 1 to 8 requests in flight."""
    return [
        simulate(Scenario(Weather(kind, place, rate), "continuous", seed, window, 40 * 50 - 3, 50))
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
    service, verdict = walk(SimulatedService, Weather("move", place, 0.5), 4, page_size, 20)
    assert verdict.name == "continuous"
    assert sorted(accepted_rows(verdict)) == sorted(service.rows)


class Touched(SimulatedService):
    """A listing sorted by its last change: rows move to its front, and others leave or are added at its end."""

    def change(self, weather: Weather) -> None:
        """Move a row to the front, or change the listing as the weather says."""
        moving = self.rng.random() < 0.4
        super().change(Weather("move", "front", 1) if moving else weather)


@pytest.mark.parametrize("kind", ["delete", "insert"])
def test_rows_that_move_to_the_front_are_not_missed_while_others_come_or_go(kind: Kind) -> None:
    """The first window is read again at the end, and contains them."""
    for seed in range(20):
        scenario, rng = Scenario(Weather(kind, "end", 0.1), "continuous", seed, 4, 1_997, 50), random.Random(seed)
        service = Touched(scenario, rng)
        service.fill(scenario.rows)
        with suppress(IncompleteListing):
            verdict = walk_listing(ConcurrentReader(service, 4, rng).read, "contacts")
            assert service.stayed <= set(accepted_rows(verdict))


class Rounding(SimulatedService):
    """A service whose pages always have the same size."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer a window as if it had no size."""
        return super().answer(Window(window.page))


class Racing(SimulatedService):
    """A service with a page of new rows in front at each answer."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Add a page of rows in front, then answer."""
        for _ in range(self.scenario.page_size):
            self.change(Weather("insert", "front", 1))
        return super().answer(window)


class Boasting(SimulatedService):
    """A service that counts more and more rows, and lists none of them."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer with a count that is too high, and grows with each answer."""
        listed, rows = super().answer(window)
        return listed + 500 + self.requests, rows


class Forgetful(SimulatedService):
    """A service that counts the rows of page 0 alone."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer with count 0 for every page but page 0."""
        listed, rows = super().answer(window)
        return 0 if window.page else listed, rows


class Modest(SimulatedService):
    """A service that counts a row less than it lists."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer with a count that is one too low."""
        listed, rows = super().answer(window)
        return listed - 1, rows


class Picky(SimulatedService):
    """A service that rejects page sizes it does not know."""

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """Answer a page of the usual size, and refuse any other size."""
        if window.size not in (None, self.scenario.page_size):
            raise ServiceRejected("contacts: the service refused the request (400)")
        return super().answer(window)


def walk(
    kind: type[SimulatedService], weather: Weather = STILL, max_walks: int = 2, page_size: int = 50, pages: int = 10
) -> tuple[SimulatedService, Verdict]:
    """The verdict on ten pages of such a service."""
    scenario, rng = Scenario(weather, "continuous", 1, 4, pages * page_size, page_size), random.Random(1)
    service = kind(scenario, rng)
    service.fill(scenario.rows)
    return service, walk_listing(ConcurrentReader(service, 4, rng).read, "contacts", max_walks=max_walks)


@pytest.mark.parametrize(
    ("kind", "weather", "reason"),
    [
        (
            Rounding,
            Weather("insert", "end", 0.3),
            r": page \d+ \(page size \d+\) returned 50 rows, and its count implies \d+: ",
        ),
        (Racing, STILL, "its rows shifted faster than overlapping pages could follow"),
        (Forgetful, STILL, "its rows|it lists|returned"),
        (Boasting, STILL, r": page \d+ \(page size \d+\) returned 20 rows, and its count implies \d+: "),
    ],
)
def test_what_windows_cannot_prove_is_refused(kind: type[SimulatedService], weather: Weather, reason: str) -> None:
    """A listing that windows cannot prove is refused with the reason."""
    with pytest.raises(IncompleteListing, match=reason):
        walk(kind, weather)


def test_a_count_that_is_too_low_is_refused_with_large_pages() -> None:
    """Windows show all rows, but nothing came or went that could explain one more than is counted."""
    with pytest.raises(WrongCount, match="it counts 7499 rows and lists 7500"):
        walk(Modest, max_walks=4, page_size=500, pages=15)


@pytest.mark.parametrize("kind", [Rounding, Picky])
def test_fixed_page_sizes_are_read_as_ever(kind: type[SimulatedService]) -> None:
    """A service with fixed page sizes is read in whole passes, because it returns no windows."""
    service, verdict = walk(kind, Weather("insert", "end", 0.1), max_walks=6)
    assert verdict.name != "continuous"
    assert service.stayed <= set(accepted_rows(verdict))


def test_rows_without_an_id_come_once() -> None:
    """Rows without an id that two windows show are accepted once."""
    scenario, rng = Scenario(Weather("insert", "front", 0.2), "continuous", 3, 1, 500, 50), random.Random(3)
    service, clock = SimulatedService(scenario, rng), count()
    service.fill(scenario.rows)
    unusable = [NUL + f'{{"n": {number}}}' for number in range(5)]
    service.rows[45:50] = unusable
    service.rows[145:150] = [f"{row}b" for row in unusable]

    def read(windows: Iterable[Window], number: int) -> Iterator[Reading]:
        for window in windows:
            asked = next(clock)
            total, rows = service.answer(window)
            shown = reading(rows, window.page, total=total)
            yield replace(shown, walk=number, asked=asked, answered=next(clock), size=window.size)

    verdict = walk_listing(read, "contacts")
    accepted = accepted_rows(verdict)
    assert verdict.name == "continuous"
    assert verdict.rejected == 10
    assert len(accepted) == len(set(accepted))


def repeating(size: int) -> Read:
    """A listing of five full pages that ends with two rows of page 0; two other rows have no id."""
    rows = [NUL + "{}", NUL + "{}", *map(str, range(5 * size - 4)), "0", "1"]

    def read(windows: Iterable[Window], number: int) -> Iterator[Reading]:
        for page, asked in windows:
            keys = rows[page * (asked or size) :][: asked or size]
            unusable = sum(key.startswith(NUL) for key in keys)
            ticks = 1_000 * number + 2 * page, 1_000 * number + 2 * page + 1
            yield Reading(page, number, 5 * size, pa.array(keys, pa.string()), unusable, *ticks, asked)

    return read


@pytest.mark.parametrize("size", [20, 50])
@pytest.mark.parametrize("max_walks", [2, 4])
def test_an_id_that_is_listed_twice_for_good_is_told_so(size: int, max_walks: int) -> None:
    """All rows arrived, so nothing is missing, and a quieter hour would not help."""
    with pytest.raises(RepeatedIds) as caught:
        walk_listing(repeating(size), "contacts", max_walks=max_walks)
    # where pages can overlap and there are passes to spare, one of overlapping pages is in between
    passes = 3 if (size, max_walks) == (50, 4) else 2
    assert str(caught.value) == (
        f"contacts: 2 rows repeat the id of another row, for example 0, the same in two passes: count {5 * size}, "
        f"received {5 * size}, missing 0, passes {passes}; nothing was loaded. "
        "Set sources.letters.duplicates to drop, to load each id once."
    )


@pytest.mark.parametrize("size", [20, 50])
def test_an_id_that_is_listed_twice_for_good_can_be_loaded_once(size: int) -> None:
    """Two equal passes show that no row was missed; equal rows without an id are all loaded."""
    verdict = walk_listing(repeating(size), "contacts", max_walks=2, duplicates="drop")
    assert verdict.name == "stable"
    assert verdict.rejected == 2
    assert sorted(accepted_rows(verdict)[2:], key=int) == [str(row) for row in range(5 * size - 4)]


def test_an_example_is_an_id_and_nothing_else() -> None:
    """Other text may be part of a row, or an escape sequence for terminals."""
    assert example("a-1") == ", for example a-1"
    assert [example(key) for key in ("", NUL + "{}", "\x1b[2J", "a b", "x" * 65)] == [""] * 5
