"""The order in which pages are read, and which passes are accepted."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice

import pyarrow as pa
import pytest

from letters_source.errors import IncompleteListing, WrongCount
from letters_source.pagination.passes import MOST_REPEATS, Walk
from letters_source.pagination.readings import NUL, Reading, Window
from letters_source.pagination.verdicts import Verdict
from letters_source.pagination.walk import walk_listing
from letters_source.pagination.wanted import Proof, Wanted
from simulated_service import (
    ConcurrentReader,
    Drift,
    Scenario,
    SimulatedService,
    accepted_rows,
)

Answer = Callable[[int, int], tuple[int, list[str]]]
"""The count and the rows of a page, given the page and how many requests came before."""
ADVICE = "nothing was loaded. Run again when the listing is quieter, or raise sources.letters.max_walks."
STILL = Drift("swap", "end", 0)


@dataclass(slots=True)
class Reader:
    """Reads pages one after another from a function, and records which."""

    answer: Answer
    asked: list[int] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=count)

    def read(self, windows: Iterable[Window], walk: int) -> Iterator[Reading]:
        """See `letters_source.pagination.readings.Read`."""
        for page, size in windows:
            total, rows = self.answer(page, len(self.asked))
            self.asked.append(page)
            rejected = sum(row.startswith(NUL) for row in rows)
            keys = pa.array(rows, pa.string())
            yield Reading(page, walk, total, keys, rejected, next(self.clock), next(self.clock), size)

    def walk(self, proof: Proof = "continuous", max_walks: int = 4) -> Verdict:
        """The verdict on a listing called contacts."""
        return walk_listing(self.read, "contacts", Wanted(proof, max_walks))

    def refusal(self, max_walks: int = 4) -> IncompleteListing:
        """The error that the walk ends with."""
        with pytest.raises(IncompleteListing) as caught:
            self.walk(max_walks=max_walks)
        return caught.value


UNREAD = Reader(lambda _page, _asked: (0, [])).read
"""Reads for walks to which tests add the responses themselves."""


@dataclass(slots=True)
class OvercountingService(SimulatedService):
    """A service that counts far more rows than it returns; `asked` has the number of requests for each page."""

    asked: Counter[int] = field(default_factory=Counter)

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """The page's rows, under a count of 2**53."""
        self.asked[window.page] += 1
        _, rows = SimulatedService.answer(self, window)
        return 2**53, rows


def ids(number: int, start: int = 0) -> list[str]:
    """Return that many different ids."""
    return [f"id{index}" for index in range(start, start + number)]


def cut(rows: list[str], page: int, size: int = 10) -> list[str]:
    """The rows of a page."""
    return rows[page * size : (page + 1) * size]


def quiet(rows: list[str], size: int = 10, total: int | None = None) -> Reader:
    """A listing that does not change, whatever count it reports."""
    return Reader(lambda page, _: (len(rows) if total is None else total, cut(rows, page, size)))


def changing(*states: tuple[int, list[str]]) -> Reader:
    """A listing in pages of ten rows; each of the given states begins with the given request."""

    def answer(page: int, turn: int) -> tuple[int, list[str]]:
        rows = next(rows for since, rows in reversed(states) if since <= turn)
        return len(rows), cut(rows, page)

    return Reader(answer)


@pytest.mark.parametrize(
    ("rows", "size", "asked"),
    [
        (11, 10, [0, 1, 0, 1]),
        (20, 10, [0, 1, 0, 1]),
        (21, 10, [0, 2, 1, 0, 2]),
        (50, 10, [0, 4, 1, 2, 3, 0, 4]),
        (3, 1, [0, 2, 1, 0, 2]),
    ],
)
def test_a_quiet_walk_requests_each_page_once_and_the_first_and_the_last_twice(
    rows: int, size: int, asked: list[int]
) -> None:
    """A quiet walk reads page 0, the last page, those between, and then the first and the last again."""
    reader = quiet(ids(rows), size)
    verdict = reader.walk()
    assert reader.asked == asked
    assert verdict.name == "stable"
    assert sorted(accepted_rows(verdict)) == sorted(ids(rows))


@pytest.mark.parametrize("rows", [0, 1, 9, 10])
@pytest.mark.parametrize("proof", ["continuous", "exact"])
def test_a_listing_of_one_page_is_exact_after_one_request(rows: int, proof: Proof) -> None:
    """A listing of one page is exact after one request, even if it is empty."""
    reader = quiet(ids(rows))
    verdict = reader.walk(proof)
    assert reader.asked == [0]
    assert verdict.name == "exact"
    assert accepted_rows(verdict) == ids(rows)


def test_the_page_size_is_the_one_that_page_0_shows() -> None:
    """A service that returns 7 rows per page is read in pages of 7, whatever was requested."""
    reader = quiet(ids(35), size=7)
    assert sorted(accepted_rows(reader.walk())) == sorted(ids(35))
    assert reader.asked == [0, 4, 1, 2, 3, 0, 4]


def test_the_recheck_is_read_from_its_second_reading() -> None:
    """Rows of the first and the last page come from their newest reading."""
    verdict = quiet(ids(30)).walk()
    kept = [(reading.page, keep) for reading, keep in zip(verdict.readings, verdict.keep, strict=True)]
    assert kept == [(0, False), (2, False), (1, True), (0, True), (2, True)]


def test_no_page_past_a_shrunken_end_is_read() -> None:
    """If the count falls, pages after the new end are skipped."""
    reader = changing((0, ids(50)), (3, ids(30)))
    verdict = reader.walk()
    assert reader.asked == [0, 4, 1, 2, 0, 2, 0, 2, 1]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(ids(30))


def test_the_last_page_is_read_again_when_the_end_grows() -> None:
    """A walk reads the previous last page again if the count grows, then the new pages."""
    reader = changing((0, ids(25)), (2, ids(38)))
    verdict = reader.walk()
    assert reader.asked == [0, 2, 1, 2, 3, 0, 3, 0, 3, 1, 2]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(ids(38))


def test_a_listing_that_multiplies_while_it_is_read_is_left_to_the_next_walk() -> None:
    """A walk reads only so far beyond the end that it was planned to."""
    reader = changing((0, ids(30)), (2, ids(500)))
    verdict = reader.walk()
    assert reader.asked == [0, 2, *range(1, 14), 0, 49, 0, 49, *range(1, 49), 0, 49]
    assert verdict.name == "stable"
    assert sorted(accepted_rows(verdict)) == sorted(ids(500))


def test_the_newest_count_is_that_of_the_newest_answer() -> None:
    """An older answer that arrives late changes neither the count nor the last page."""
    walk = Walk(UNREAD, "contacts", 1)
    for page, total, answered in ((0, 50, 1), (2, 30, 5), (1, 50, 4)):
        walk.add(Reading(page, 1, total, pa.array(cut(ids(50), page)), 0, page, answered))
    assert (walk.count, walk.last_page) == (30, 2)


@pytest.mark.parametrize("rows", [2, 10])
def test_a_service_that_does_not_page_is_refused_at_the_second_page(rows: int) -> None:
    """A service whose last page repeats page 0 is refused after two requests."""
    reader = Reader(lambda *_: (50, ids(rows)))
    error = reader.refusal()
    last = 50 // rows - 1
    assert reader.asked == [0, last]
    assert str(error) == (
        f"contacts: page {last} repeats page 0, so the service ignores the page parameter: "
        f"count 50, received {rows}, missing {50 - rows}, passes 1; nothing was loaded. "
        "Set sources.letters.page_size to 50 or more, or select fewer rows with filters."
    )


def test_pages_that_share_only_their_ends_are_no_repeat() -> None:
    """Pages with the same first and last row but others between are refused by the count instead."""
    reader = Reader(lambda page, _: (9, ["first", f"id{page}", "last"]))
    error = reader.refusal()
    assert error.reason == "4 rows repeat the id of another row, for example first, the same in two passes"
    assert (error.received, error.walks) == (9, 2)


def test_a_single_row_that_moves_to_the_next_page_is_no_repeat() -> None:
    """A walk with one row per page reads on if an insert and a delete show one row on two pages."""
    before, after = ["a", "b", "c"], ["new", "a", "b"]
    reader = Reader(lambda page, turn: (3, cut(before if turn < 1 else after, page, size=1)))
    verdict = reader.walk()
    assert reader.asked == [0, 2, 1, 0, 2, 0, 2, 1]
    assert sorted(accepted_rows(verdict)) == sorted(after)


def test_a_page_of_rows_that_moves_with_the_count_is_no_repeat() -> None:
    """A walk reads on if page 1 repeats page 0 because a page of rows was added in front."""
    after = [*ids(10, start=50), *ids(50)]
    reader = changing((0, ids(50)), (2, after))
    verdict = reader.walk()
    assert reader.asked == [0, 4, 1, 2, 3, 4, 5, 0, 5, 0, 5, 1, 2, 3, 4]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(after)


@pytest.mark.parametrize(
    ("total", "rows", "walk", "missing"),
    [
        (25, 20, [0, 2, 1, 0, 2], 5),
        (15, 20, [0, 1, 0, 1], -5),
        (5, 10, [0], -5),
        (12, 10, [0, 1, 0, 1], 2),
        (5, 0, [0], 5),
    ],
)
def test_a_wrong_count_is_refused_after_two_equal_walks(total: int, rows: int, walk: list[int], missing: int) -> None:
    """A listing whose rows never add up to its count is refused after two equal walks, with all figures."""
    reader = quiet(ids(rows), total=total)
    error = reader.refusal()
    assert reader.asked == walk * 2
    assert isinstance(error, WrongCount)
    remedy = "Report it to the service, or select rows that it counts correctly with filters."
    if missing < 0:
        remedy = "Set sources.letters.count to at_least, to load all rows that are listed."
    assert str(error) == (
        f"contacts: it counts {total} rows and lists {rows}, the same in two passes: count {total}, received {rows}, "
        f"missing {missing}, passes 2; nothing was loaded. {remedy}"
    )
    assert error.listing == "contacts"
    assert (error.count, error.received, error.missing, error.walks) == (total, rows, missing, 2)


@pytest.mark.parametrize("max_walks", [1, 2, 3])
def test_there_are_as_many_walks_as_the_terms_allow(max_walks: int) -> None:
    """A listing that never settles is refused after `max_walks` walks."""
    reader = Reader(lambda page, turn: (29, cut(ids(28, start=turn), page)))
    assert reader.refusal(max_walks).walks == max_walks
    assert reader.asked == [0, 2, 1, 0, 2] * max_walks


@pytest.mark.parametrize(
    ("rows", "total", "walk"),
    [
        (20, 25, [0, 2, 1, 0, 2]),
        (40, 43, [0, 4, 1, 2, 3, 0, 4]),
        (10, 1_000, [0, 99, 1, 0, 99]),
        (35, 1_000, [0, 99, 1, 2, 3, 4, 0, 99]),
        (90, 1_000, [0, 99, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 99]),
    ],
)
def test_a_count_too_high_reads_the_real_pages_and_the_first_empty_one(rows: int, total: int, walk: list[int]) -> None:
    """Each walk reads page 0, the last page, those up to the first empty one, and the recheck."""
    reader = quiet(ids(rows), total=total)
    error = reader.refusal()
    assert reader.asked == walk * 2
    assert error.reason == f"it counts {total} rows and lists {rows}, the same in two passes"
    assert (error.count, error.received, error.missing, error.walks) == (total, rows, total - rows, 2)


@pytest.mark.parametrize(
    ("rows", "repeated", "requests"),
    [
        (["1"], 0, 2 * (MOST_REPEATS + 4)),
        (["1"], 3, 2 * (MOST_REPEATS + 7)),
        (ids(10), 0, 2),  # the last page repeats page 0
        (ids(10), 3, 2 * (MOST_REPEATS + 7)),
    ],
)
def test_a_service_that_repeats_a_page_does_not_keep_a_walk_going(
    rows: list[str], repeated: int, requests: int
) -> None:
    """A walk ends after `MOST_REPEATS` repeated pages, however high the count is."""

    def answer(page: int, _: int) -> tuple[int, list[str]]:
        """Pages of their own, and then the same one forever."""
        return 10**9, [f"{row} of {page}" for row in rows] if page < repeated else rows

    reader = Reader(answer)
    assert reader.refusal(max_walks=2).received == (repeated + 1) * len(rows)
    assert len(reader.asked) == requests


def test_rows_without_an_id_may_be_the_same_on_any_number_of_pages() -> None:
    """Equal rows without an id on many pages all count as rows of a complete listing."""
    rows = [*ids(20), *[f"{NUL}null"] * (10 * MOST_REPEATS + 200), *ids(20, 20)]
    assert quiet(rows).walk().rows == len(rows)


def test_rows_that_move_by_a_page_repeat_pages_and_are_read_on() -> None:
    """A walk reads on to the end even if half of the pages repeat because rows are added in front."""
    reader = Reader(lambda page, turn: (300 + turn // 2, cut(ids(300 + turn // 2)[::-1], page, 1)))
    assert reader.refusal(max_walks=1).received == 300


def test_pages_before_a_short_last_one_are_read() -> None:
    """A single row on the last page shows that the pages before it exist."""
    reader = quiet(ids(31), total=33)
    error = reader.refusal(max_walks=2)
    assert reader.asked == [0, 3, 1, 2, 0, 3] * 2
    assert (error.count, error.received, error.missing) == (33, 31, 2)


def test_pages_before_an_empty_last_one_are_read_when_the_count_has_moved() -> None:
    """A walk whose last page became empty by a deletion reads the pages before it."""
    reader = changing((0, ids(31)), (1, ids(30)))
    verdict = reader.walk()
    assert reader.asked == [0, 3, 1, 0, 2, 0, 2, 1]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(ids(30))


def test_a_walk_after_an_empty_last_page_may_find_all() -> None:
    """A service with a temporarily wrong count is read completely by the next walk."""
    reader = Reader(lambda page, turn: (41 if turn < 7 else 40, cut(ids(40), page)))
    verdict = reader.walk()
    assert reader.asked == [0, 4, 1, 2, 3, 0, 4, 0, 3, 1, 2]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(ids(40))


@pytest.mark.parametrize(
    ("pages", "first_empty"),
    [
        (((0, "a"), (2, "b"), (1, "c")), math.inf),
        (((0, "a"), (9, ""), (1, "b"), (2, "")), 2),
        (((0, "a"), (9, "b"), (3, ""), (5, ""), (4, "")), 3),
        (((0, ""),), 0),
    ],
)
def test_the_first_empty_page_is_the_one_with_the_lowest_number(
    pages: tuple[tuple[int, str], ...], first_empty: float
) -> None:
    """The first empty page is the one with the lowest number, in whatever order pages arrive."""
    walk = Walk(UNREAD, "contacts", 1)
    for tick, (page, keys) in enumerate(pages):
        walk.add(Reading(page, 1, 10, pa.array(list(keys), pa.string()), 0, 2 * tick, 2 * tick + 1))
    assert walk.first_empty == first_empty


def test_middle_pages_end_behind_the_first_empty_one() -> None:
    """The plan of the middle pages ends at an empty page that arrives meanwhile."""
    walk = Walk(UNREAD, "contacts", 1)
    for page, keys in ((0, "ab"), (9, "y")):
        walk.add(Reading(page, 1, 20, pa.array(list(keys), pa.string()), 0, page, page + 1))
    plan = walk.middle_pages()
    assert list(islice(plan, 4)) == [Window(1), Window(2), Window(3), Window(4)]
    walk.add(Reading(6, 1, 20, pa.array([], pa.string()), 0, 30, 31))
    assert list(plan) == [Window(5), Window(6)]


def test_a_count_far_beyond_the_rows_ends_after_a_bounded_number_of_requests() -> None:
    """Each walk reads the real pages and one empty one besides the last, which is requested by its number."""
    reader = quiet(ids(30), total=2**53)
    error = reader.refusal()
    last = -(-(2**53) // 10) - 1
    assert reader.asked == [0, last, 1, 2, 3, 0, last] * 2
    assert (error.count, error.received, error.missing, error.walks) == (2**53, 30, 2**53 - 30, 2)


@pytest.mark.parametrize("window", [1, 4, 8])
@pytest.mark.parametrize("seed", range(5))
def test_with_pages_side_by_side_a_window_of_empty_ones_is_read_at_most(window: int, seed: int) -> None:
    """Beyond the end, a walk reads only the pages in flight when the first empty one arrives."""
    service = OvercountingService(Scenario(STILL, "continuous", seed, window), random.Random(seed), rows=ids(30))
    reader = ConcurrentReader(service, window, random.Random(seed))
    with pytest.raises(IncompleteListing) as caught:
        walk_listing(reader.read, "contacts")
    error = caught.value
    assert (error.count, error.received, error.missing) == (2**53, 30, 2**53 - 30)
    last = -(-(2**53) // 10) - 1
    assert service.asked.keys() <= {*range(3 + window), last}
    # two equal walks end it, and these may differ by the empty pages under way
    walks = error.walks
    assert [service.asked[page] for page in (0, last, 1, 2, 3)] == [2 * walks, 2 * walks, walks, walks, walks]
    assert service.requests <= walks * (6 + window)


def test_a_count_that_changes_is_named_in_the_error() -> None:
    """The error says that rows moved if rows do not add up while the count changes."""
    reader = Reader(lambda page, turn: (25 + turn % 2, cut(ids(20), page)))
    error = reader.refusal(max_walks=1)
    assert str(error) == (
        f"contacts: its rows moved while they were read: count 25, received 20, missing 5, passes 1; {ADVICE}"
    )


@pytest.mark.parametrize("size", [1, 10])
def test_rows_that_add_up_and_yet_moved_are_reported_as_moved(size: int) -> None:
    """A listing whose rows change under an unchanged count is refused because its rows moved."""

    def answer(page: int, turn: int) -> tuple[int, list[str]]:
        return 3 * size, cut(ids(3 * size, start=1_000 * turn), page, size)

    error = Reader(answer).refusal()
    assert str(error) == (
        f"contacts: its rows moved while they were read: count {3 * size}, received {3 * size}, missing 0, passes 4; "
        f"{ADVICE}"
    )


@pytest.mark.parametrize(("shown", "walk", "received"), [(0, [0, 3, 1, 0, 3], 20), (9, [0, 3, 1, 2, 0, 3], 39)])
def test_an_empty_or_short_page_in_the_middle_is_no_success(shown: int, walk: list[int], received: int) -> None:
    """A listing with an empty or short page in the middle is refused after two walks."""
    reader = Reader(lambda page, _: (40, cut(ids(40), page)[: shown if page == 1 else 10]))
    error = reader.refusal()
    assert reader.asked == walk * 2
    assert (error.count, error.received, error.missing) == (40, received, 40 - received)


@pytest.mark.parametrize(("shown", "walk"), [(0, [0, 4, 1, 2, 0, 4]), (9, [0, 4, 1, 2, 3, 0, 4])])
def test_a_second_walk_makes_up_for_a_short_page(shown: int, walk: list[int]) -> None:
    """A page that was short or empty once is read again, and only the good walk's rows are yielded."""
    reader = Reader(lambda page, turn: (50, cut(ids(50), page)[: shown if turn == 3 else 10]))
    verdict = reader.walk()
    assert reader.asked == [*walk, 0, 4, 1, 2, 3, 0, 4]
    assert verdict.name == "stable"
    assert sorted(accepted_rows(verdict)) == sorted(ids(50))


def test_the_error_has_what_the_last_walk_received() -> None:
    """The error has the rows that the last walk received, even if two walks together received all."""
    reader = Reader(lambda page, turn: (40, cut(ids(40), page)[: 9 if turn in (2, 9) else 10]))
    error = reader.refusal(max_walks=2)
    assert reader.asked == [0, 3, 1, 2, 0, 3] * 2
    assert (error.count, error.received, error.walks) == (40, 39, 2)


def test_a_certificate_for_a_quiet_listing_takes_two_walks() -> None:
    """Proof `exact` reads every page of a quiet listing twice, so that rows are on both sides of a response."""
    reader = quiet(ids(50))
    verdict = reader.walk("exact")
    assert reader.asked == [0, 4, 1, 2, 3, 0, 4, 0, 4, 1, 2, 3]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(ids(50))


def test_a_certificate_is_not_replaced_by_a_recheck() -> None:
    """A listing of several pages is refused if proof `exact` is requested and only one walk is allowed."""
    reader = quiet(ids(50))
    with pytest.raises(IncompleteListing) as caught:
        reader.walk("exact", max_walks=1)
    assert str(caught.value) == (
        f"contacts: its rows moved while they were read: count 50, received 50, missing 0, passes 1; {ADVICE}"
    )
    assert reader.asked == [0, 4, 1, 2, 3, 0, 4]


@pytest.mark.parametrize(
    "after", [["new", *ids(49)], [*ids(49, start=1), "new"]], ids=["enters in front", "enters at the end"]
)
def test_a_changed_recheck_leads_to_another_walk(after: list[str]) -> None:
    """A row that entered while another left is seen at the first or the last page, and leads to another walk."""
    reader = changing((0, ids(50)), (5, after))
    verdict = reader.walk()
    assert reader.asked == [0, 4, 1, 2, 3, 0, 4, 0, 4, 1, 2, 3]
    assert verdict.name == "exact"
    assert sorted(accepted_rows(verdict)) == sorted(after)


def test_rows_that_enter_in_the_middle_can_deceive_the_recheck_but_not_the_certificate() -> None:
    """A single walk can accept a mix of two states of the middle pages; proof `exact` accepts only one state."""
    before = ids(40)
    after = [{"id15": "new15", "id25": "new25"}.get(row, row) for row in before]
    mixed = [{"id25": "new25"}.get(row, row) for row in before]
    assert sorted(accepted_rows(changing((0, before), (3, after)).walk("continuous"))) == sorted(mixed)
    assert sorted(accepted_rows(changing((0, before), (3, after)).walk("exact"))) == sorted(after)


def test_each_row_without_an_id_counts_and_is_yielded() -> None:
    """Rows without an id count one each, even where two have the same text; if on two pages, they are read again."""
    rows = [*ids(10), NUL + "{}", *ids(9, start=10), NUL + "{}", NUL + "null"]
    reader = quiet(rows)
    verdict = reader.walk()
    assert reader.asked == [0, 2, 1, 0, 2] * 2
    assert sorted(accepted_rows(verdict)) == sorted(rows)
    assert (verdict.rows, verdict.rejected) == (len(rows), 3)


def test_equal_rows_without_an_id_on_two_pages_take_two_walks() -> None:
    """Equal rows without an id on two pages are accepted after two walks, and refused with the reason after one."""
    rows = [NUL + "{}", *ids(18), NUL + "{}"]
    assert str(quiet(rows).refusal(max_walks=1)).startswith(
        "contacts: two pages show the same row without an id, which is accepted only if two passes are equal and "
        "sources.letters.proof is continuous: "
    )
    assert quiet(rows).walk(max_walks=2).name == "stable"


def test_a_row_without_an_id_hides_no_other_that_changes_places_with_it() -> None:
    """A walk misses no row that trades places with a row without an id between two readings."""
    rows = ids(40)
    rows[15] = NUL + "{}"
    swapped = [*rows[:15], rows[25], *rows[16:25], rows[15], *rows[26:]]
    reader = Reader(lambda page, number: (40, cut(swapped if number > 2 else rows, page)))
    assert sorted(accepted_rows(reader.walk())) == sorted(rows)


@pytest.mark.parametrize(("second", "proof"), [("null", "exact"), ("{}", "stable")])
def test_a_page_with_rows_without_an_id_needs_one_request(second: str, proof: Proof) -> None:
    """A listing of one page is accepted after one request, also with equal rows without an id."""
    rows = ["id0", NUL + "{}", NUL + second]
    reader = quiet(rows)
    verdict = reader.walk()
    assert (reader.asked, verdict.name, accepted_rows(verdict)) == ([0], proof, rows)
