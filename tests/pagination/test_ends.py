"""Where a listing ends, whatever its count says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pytest

from letters_source.errors import ServiceError, WrongCount
from letters_source.pagination.ends import Look, SeenEnd, Shown, ends_as_counted, find_end, full_page, has_more
from letters_source.pagination.readings import NUL, Reading, Window
from letters_source.service.pacing import PageSize

Past = Literal["empty", "refused", "repeated"]
PAST: tuple[Past, ...] = ("empty", "refused", "repeated")


def reading(page: int, rows: Sequence[str], count: int, size: int | None = None, answered: int = 0) -> Reading:
    """A response in the first pass."""
    rejected = sum(row.startswith(NUL) for row in rows)
    return Reading(page, 1, count, pa.array(rows, pa.string()), rejected, answered, answered, size)


def ids(start: int, stop: int) -> list[str]:
    """The ids at these places of a listing."""
    return [f"id{place}" for place in range(start, stop)]


def ends(readings: Sequence[Reading], look: Look, *, is_exact: bool = True) -> bool:
    """Whether a listing of which these rows are loaded ends as it counts."""
    return ends_as_counted("contacts", Shown(readings, [True] * len(readings), 10), look, is_exact=is_exact)


@dataclass(slots=True)
class Listed:
    """A listing of some rows, whose pages past the end are empty, are refused, or repeat the last one."""

    rows: int
    page_size: int = 10
    count: int = 0
    past: Past = "empty"
    asked: list[int] = field(default_factory=list)

    def look(self, page: int) -> Reading | None:
        """See `letters_source.pagination.ends.Look`."""
        self.asked.append(page)
        last = max(0, self.rows - 1) // self.page_size
        if page > last and self.past == "refused":
            return None
        place = min(page, last) if self.past == "repeated" else page
        rows = ids(place * self.page_size, min(self.rows, (place + 1) * self.page_size))
        return reading(page, rows, self.count, answered=-1)

    def shown(self) -> list[Reading]:
        """The pages of a pass over the rows that are counted, in order."""
        starts = range(0, max(1, self.count), self.page_size)
        pages = (ids(start, min(self.rows, start + self.page_size)) for start in starts)
        return [reading(number, rows, self.count, answered=number) for number, rows in enumerate(pages)]

    def ends(self, *, is_exact: bool = True) -> bool:
        """Whether the listing ends as it counts."""
        return ends(self.shown(), self.look, is_exact=is_exact)


@pytest.mark.parametrize(
    ("rows", "count", "asked", "expected"),
    [
        (1_000, 2_500, 1_000, 1_000),  # one of several pages
        (37, 400, 1_000, 37),  # one of several pages, of a service with a limit of its own
        (1_000, 1_000, 1_000, 1_000),
        (1_200, 1_200, 1_000, 1_200),  # more than was asked for
        (999, 999, 1_000, 1_000),
        (1, 1, 1_000, 1_000),
        (0, 0, 1_000, 1_000),
        (0, 7, 1_000, 1_000),
    ],
)
def test_a_full_page_has_the_rows_of_page_0_unless_it_is_the_only_one(
    rows: int, count: int, asked: int, expected: int
) -> None:
    """The only page is full if it has as many rows as were asked for, or more."""
    assert full_page(rows, count, asked) == expected


@pytest.mark.parametrize("past", PAST)
@pytest.mark.parametrize(("rows", "looks"), [(20, [2]), (25, []), (1, []), (0, [])])
def test_an_honest_listing_is_looked_past_once_if_its_last_page_is_full(
    past: Past, rows: int, looks: list[int]
) -> None:
    """A last page that is not full shows the end; a page past a full one may be empty, refused, or the last one."""
    listing = Listed(rows, count=rows, past=past)
    assert listing.ends()
    assert listing.asked == looks


@pytest.mark.parametrize("past", PAST)
@pytest.mark.parametrize("rows", [21, 30, 31, 500])
def test_rows_past_the_count_are_an_error_once_a_second_look_shows_them(past: Past, rows: int) -> None:
    """The error says where the rows are, and which setting accepts the count."""
    listing = Listed(rows, count=20, past=past)
    with pytest.raises(WrongCount) as caught:
        listing.ends()
    more = min(10, rows - 20)
    named = "1 new row" if more == 1 else f"{more} new rows"
    assert caught.value.reason == f"page 2 returned {named} past its count"
    assert (caught.value.count, caught.value.received, caught.value.missing) == (20, 20 + more, -more)
    assert "Set sources.letters.count to at_least" in str(caught.value)
    assert listing.asked == [2, 2]


def test_a_count_that_is_a_lower_bound_is_no_error() -> None:
    """Rows past it only mean that the listing has to be read on."""
    listing = Listed(31, count=20)
    assert not listing.ends(is_exact=False)
    assert listing.asked == [2]


def looks_in_turn(*answers: Reading | None) -> Look:
    """A look that answers with each of these in turn."""
    waiting = iter(answers)
    return lambda _page: next(waiting)


def test_rows_that_came_since_are_not_past_the_count() -> None:
    """If the count that comes with new rows includes them, the listing has grown, and is to be read again."""
    grown = reading(2, ids(20, 22), 22)
    assert not ends(Listed(20, count=20).shown(), looks_in_turn(grown))


def test_a_row_that_came_between_the_count_and_the_rows_of_a_response_is_no_error() -> None:
    """The second look has a count that includes it."""
    between, after = reading(2, ids(20, 21), 20), reading(2, ids(20, 21), 21)
    looks = looks_in_turn(between, after)
    assert not ends(Listed(20, count=20).shown(), looks)
    gone = looks_in_turn(between, reading(2, [], 20))
    assert ends(Listed(20, count=20).shown(), gone)


def test_rows_that_were_shifted_past_the_end_are_known() -> None:
    """Rows that were read before are no new rows, with an id or without."""
    rows = [*ids(0, 9), f"{NUL}a row"]
    shifted = reading(1, [f"{NUL}a row"], 11)
    assert ends([reading(0, rows, 10)], looks_in_turn(shifted))


def test_an_overlapping_page_that_is_not_full_shows_the_end() -> None:
    """The end is seen at the moment of any response; what was added since need not be loaded."""
    shown = [reading(0, ids(0, 10), 20), reading(2, ids(18, 20), 20, 9), reading(0, ids(0, 10), 30, answered=1)]
    assert ends(shown, looks_in_turn())


@pytest.mark.parametrize("past", PAST)
@pytest.mark.parametrize("count", [1, 10, 11, 20, 25])
@pytest.mark.parametrize("rows", [25, 26, 30, 31, 39, 40, 79, 80, 81, 500, 7_777])
def test_the_end_is_found_wherever_it_is(past: Past, rows: int, count: int) -> None:
    """Whatever a service answers past the end, the number of rows is found in few looks."""
    listing = Listed(rows, count=count, past=past)
    assert find_end("contacts", listing.look, 10, count) == rows
    # steps that double, then bisection, which begins at page 0 if the last page is repeated
    assert len(listing.asked) <= 2 * (rows // 10).bit_length() + 4


def test_a_listing_without_end_is_an_error() -> None:
    """The search is bounded."""
    with pytest.raises(ServiceError, match=r"contacts: page \d+ still has rows; the listing seems to have no end"):
        find_end("contacts", Listed(10**12).look, 10, 10)


@pytest.mark.parametrize("past", PAST)
@pytest.mark.parametrize(
    ("rows", "count", "more"),
    [(20, 20, False), (25, 25, False), (10, 10, False), (25, 20, True), (30, 20, True), (10, 3, True), (20, 0, True)],
)
def test_a_check_tells_whether_there_are_more_rows_than_counted(
    past: Past, rows: int, count: int, *, more: bool
) -> None:
    """A look shows it; a full page past the end is compared with the one before it."""
    listing = Listed(rows, count=count, past=past)
    assert has_more(listing.look, 10, count) == more
    assert len(listing.asked) <= 2
    assert min(listing.asked) >= 0


def counted_by(listing: Listed, *responses: Reading, rows: int = 0) -> tuple[list[int], SeenEnd]:
    """The counts of responses once they are replaced, and what replaced them."""
    end = SeenEnd("contacts", listing.look, PageSize(listing.page_size), rows)
    return [end.counted(response).count for response in responses], end


@pytest.mark.parametrize("past", PAST)
def test_a_count_is_replaced_by_the_rows_up_to_the_end(past: Past) -> None:
    """The end is looked for when page 0 arrives; the service's own count is kept for the audit."""
    listing = Listed(57, count=20, past=past)
    counts, end = counted_by(listing, *listing.shown())
    assert (counts, end.stated) == ([57, 57], 20)


def test_a_short_page_0_shows_the_end_without_a_look() -> None:
    """A listing of one page takes one request."""
    listing = Listed(7, count=7)
    counts, end = counted_by(listing, *listing.shown())
    assert (counts, end.stated, listing.asked) == ([7], None, [])


def test_an_empty_listing_takes_one_request() -> None:
    """An empty listing shows its end on page 0, and nothing is looked for past it."""
    listing = Listed(0)
    assert counted_by(listing, *listing.shown())[0] == [0]
    assert listing.asked == []


def test_a_count_that_is_higher_than_the_rows_stays() -> None:
    """A lower bound that is not reached means that rows are missing."""
    listing = Listed(25, count=40)
    counts, end = counted_by(listing, reading(0, ids(0, 10), 40), reading(2, ids(20, 25), 40))
    assert (counts, end.stated) == ([40, 40], None)


def test_the_end_moves_with_the_pages_that_show_it() -> None:
    """The end follows a page with rows past it, and the page that had it; a short page before it tells nothing."""
    listing = Listed(57, count=20)
    responses = (
        reading(0, ids(0, 10), 20),
        reading(2, ids(20, 26), 20),  # short, before the end
        reading(5, ids(50, 56), 20),  # a row left
        reading(7, ids(49, 56), 20, 7),  # the same end in an overlapping page
        reading(8, ids(56, 58), 20, 7),  # two rows came
        reading(9, [], 20, 7),
    )
    assert counted_by(listing, *responses)[0] == [57, 57, 56, 56, 58, 58]


def test_a_range_read_elsewhere_knows_the_end_of_the_plan() -> None:
    """Overlapping pages of a range need no look."""
    listing = Listed(57, count=20)
    counts, end = counted_by(listing, reading(0, ids(0, 10), 20, 10), reading(5, ids(50, 57), 20, 10), rows=57)
    assert (counts, end.stated, listing.asked) == ([57, 57], 20, [])
    assert end.counted(reading(0, ids(0, 10), 20)).window == Window(0)
