"""Overlapping pages hold every row that stayed, or the walk reports that they do not."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest

from letters_source.errors import RepeatedIds
from letters_source.pagination.coding import Coded
from letters_source.pagination.readings import NUL, Read, Reading, Window
from letters_source.pagination.walk import walk_listing
from letters_source.pagination.wanted import Wanted
from letters_source.pagination.windows import (
    LEAST_OVERLAP,
    SMALLEST_PAGE,
    compare,
    example,
    largest_overlap,
    moved_row,
    next_window,
    previous_window,
    share_most,
    shared_rows,
    show_all,
    steady_rows,
)
from simulated_service import (
    Drift,
    Scenario,
    SimulatedService,
    accepted_rows,
)


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


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMALLEST_PAGE, 31, 47, 100, 333, 1_000])
def test_windows_with_the_largest_overlap_make_progress(size: int) -> None:
    """Windows that overlap by the largest number of rows reach further than the ones before them."""
    window = next_window(0, size, 0)
    for _ in range(1_000):
        following = next_window(window.end, size, largest_overlap(size))
        assert following.end > window.end
        window = following


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
    assert share_most(*shown, *shared_rows(*shown), apart=False) is is_link


@pytest.mark.parametrize(
    ("left", "right", "is_link"),
    [
        ("abcd", "cdef", True),
        ("abcd", "xcdef", True),
        ("abcd", "def", False),
        ("mabc", "efgm", False),
        ("abcm", "mefg", False),
        ("abcdm", "xmefg", False),
        ("d", "de", True),
        ("", "de", False),
    ],
)
def test_windows_read_long_after_each_other_are_linked_by_more_than_a_row(
    left: str, right: str, *, is_link: bool
) -> None:
    """A single row can have moved, wherever it is; only where a window has no more can one row link it."""
    assert compare(reading(left), reading(right), apart=True).is_link is is_link


def test_a_row_that_is_in_windows_far_apart_has_moved() -> None:
    """A row in two windows that are not neighbors has moved."""
    for windows, moved in ((("abc", "cde", "def"), None), (("abc", "cde", "efb"), "b"), (("aab", "bcd", "dae"), "a")):
        readings = [*map(reading, windows)]
        assert moved_row(readings, Coded.of(readings)) == moved


@pytest.mark.parametrize(
    ("totals", "shown", "has_displaced", "is_all"),
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
    has_displaced: bool,
    is_all: bool,
) -> None:
    """Windows show all rows if they show as many as were counted; displaced among more rows leave it open."""
    before, after = totals
    readings = [reading(shown, total=before), reading(shown, total=after, answered=3)]
    assert show_all(Coded.of(readings), has_displaced=has_displaced) is is_all
    assert not show_all(Coded.of([readings[0], reading("ab", total=after, answered=3)]), has_displaced=has_displaced)


def test_rows_without_an_id_come_once() -> None:
    """Rows without an id that two windows show are accepted once."""
    scenario, rng = Scenario(Drift("insert", "front", 0.2), "continuous", 3, 1, 500, 50), random.Random(3)
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
def test_an_id_that_is_listed_twice_permanently_is_reported_so(size: int, max_walks: int) -> None:
    """The error says that all rows arrived, so nothing is missing, and loading at a quieter time would not help."""
    with pytest.raises(RepeatedIds) as caught:
        walk_listing(repeating(size), "contacts", Wanted(max_walks=max_walks))
    # where pages can overlap and there are passes to spare, one of overlapping pages is in between
    passes = 3 if (size, max_walks) == (50, 4) else 2
    assert str(caught.value) == (
        f"contacts: 2 rows repeat the id of another row, for example 0, the same in two passes: count {5 * size}, "
        f"received {5 * size}, missing 0, passes {passes}; nothing was loaded. "
        "Set sources.letters.duplicates to drop, to load each id once."
    )


@pytest.mark.parametrize("size", [20, 50])
def test_an_id_that_is_listed_twice_permanently_can_be_loaded_once(size: int) -> None:
    """Two equal passes show that no row was missed; equal rows without an id are all loaded."""
    verdict = walk_listing(repeating(size), "contacts", Wanted(max_walks=2, duplicates="drop"))
    assert verdict.name == "stable"
    assert verdict.rejected == 2
    assert sorted(accepted_rows(verdict)[2:], key=int) == [str(row) for row in range(5 * size - 4)]


def test_an_example_is_only_an_id() -> None:
    """Other text may be part of a row, or an escape sequence for terminals."""
    assert example("a-1") == ", for example a-1"
    assert [example(key) for key in ("", NUL + "{}", "\x1b[2J", "a b", "x" * 65)] == [""] * 5
