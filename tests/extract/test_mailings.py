"""The date ranges in which mailings are requested, whether the service honors them, and the rows of one."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest

from letters_source.errors import MalformedResponse, ServiceError, ServiceRejected, ServiceUnreachable, SettingsError
from letters_source.extract.mailings import (
    DateRange,
    check_days_honored,
    check_days_whole,
    count_together,
    first_day,
    first_open_day,
    held_days,
    plan_date_ranges,
    plan_mailings,
    read_date_range,
    read_date_ranges,
    readable_ranges,
    replaced_days,
)
from letters_source.extract.task import Task
from letters_source.service.listings import LONG_AGO
from letters_source.tables import LISTING_AUDIT, MAILINGS
from rows_in_memory import Rows, RowsInMemory
from tasks import audit_with, task_from

LENGTHS = (1, 2, 7, 30)
Day = tuple[int, int]
FEBRUARY = date(2024, 2, 25)
MARCH = date(2024, 3, 9)
WEEKS = plan_date_ranges(FEBRUARY, MARCH, 7)
"""The last week of February and the first one of March."""
FAR = date(2025, 3, 10)
"""A day ahead by which a load on the last day of these weeks finds out if days are honored."""


def days_of(dates: DateRange) -> list[date]:
    """The days of a date range."""
    return [dates.first + timedelta(days=day) for day in range((dates.last - dates.first).days + 1)]


def test_ranges_of_one_day_are_the_days() -> None:
    """Ranges of one day are the days from the start until before the end, also across months."""
    days = [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)]
    assert plan_date_ranges(date(2024, 2, 28), date(2024, 3, 2), 1) == [DateRange(day, day) for day in days]


def test_ranges_of_seven_days_begin_on_one_weekday() -> None:
    """Ranges of seven days begin on a Sunday, whichever day is first, and the last one may end after the last day."""
    weeks = [DateRange(date(2024, 2, 25), date(2024, 3, 2)), DateRange(date(2024, 3, 3), date(2024, 3, 9))]
    assert plan_date_ranges(date(2024, 2, 25), date(2024, 3, 4), 7) == weeks
    assert plan_date_ranges(date(2024, 3, 2), date(2024, 3, 4), 7) == weeks
    assert plan_date_ranges(date(2024, 3, 3), date(2024, 3, 4), 7) == weeks[1:]
    assert plan_date_ranges(date(2024, 3, 2), date(2024, 3, 3), 7) == weeks[:1]


@pytest.mark.parametrize("length", [1, 7, 30])
@pytest.mark.parametrize("start", [date(2024, 3, 6), date(2024, 3, 7), date(2024, 3, 20)])
def test_no_days_need_no_range(start: date, length: int) -> None:
    """If the end is not after the start, there is no range, not even the one with both."""
    assert plan_date_ranges(start, date(2024, 3, 6), length) == []


def periods(length: int) -> Iterator[tuple[date, date]]:
    """Starts and ends of loads: on each day of a range of this length, for no days, some, one range, and two."""
    for start in days_of(DateRange(date(2024, 2, 20), date(2024, 2, 19) + timedelta(days=length))):
        for span in (0, 1, length - 1, length, length + 1, 2 * length):
            yield start, start + timedelta(days=span)


@pytest.mark.parametrize("length", LENGTHS)
def test_every_day_is_in_one_range(length: int) -> None:
    """Ranges have the given length, follow each other without gaps, and each contains a requested day."""
    for start, end in periods(length):
        ranges = plan_date_ranges(start, end, length)
        assert [len(days_of(dates)) for dates in ranges] == [length] * len(ranges)
        assert [later.first for _, later in pairwise(ranges)] == [
            earlier.last + timedelta(days=1) for earlier, _ in pairwise(ranges)
        ]
        held = {day for dates in ranges for day in days_of(dates)}
        asked = {start + timedelta(days=day) for day in range((end - start).days)}
        assert asked - held == set()
        assert [dates for dates in ranges if asked.isdisjoint(days_of(dates))] == []


@pytest.mark.parametrize(
    ("today", "ahead", "parts"),
    [
        ((3, 20), 0, [((2, 25), (3, 2)), ((3, 3), (3, 9))]),
        ((3, 9), 0, [((2, 25), (3, 2)), ((3, 3), (3, 9))]),
        ((3, 6), 0, [((2, 25), (3, 2)), ((3, 3), (3, 6))]),
        ((3, 2), 0, [((2, 25), (3, 2))]),
        ((2, 24), 0, []),
        ((3, 1), 3, [((2, 25), (3, 1)), ((3, 2), (3, 2)), ((3, 3), (3, 4))]),
        ((3, 6), 90, [((2, 25), (3, 2)), ((3, 3), (3, 6)), ((3, 7), (3, 9))]),
    ],
)
def test_ranges_end_today_and_days_ahead_are_apart(today: Day, ahead: int, parts: list[tuple[Day, Day]]) -> None:
    """No range has days that were over and days ahead, and none has a day after those that are asked for."""
    now = date(2024, *today)
    found = list(readable_ranges(WEEKS, now, now + timedelta(days=ahead + 1)))
    assert found == [DateRange(date(2024, *first), date(2024, *last)) for first, last in parts]


@pytest.mark.parametrize(("end", "last"), [(None, 12), (date(2024, 5, 9), 8), (date(2024, 5, 30), 12)])
def test_days_ahead_are_planned_only_without_an_end(end: date | None, last: int) -> None:
    """Ranges end with the days ahead, or before the end of an interval, which may not be later."""
    settings = task_from(RowsInMemory({"": []}), mailings_ahead=2).settings
    found = plan_mailings(settings, date(2024, 5, 8), end, date(2024, 5, 10))
    assert (found[0].first.day, found[-1].last.day) == (8, last)


@pytest.mark.parametrize(("today", "until"), [(date(2024, 3, 9), date.max), (date(2024, 3, 10), date(2024, 3, 9))])
def test_a_load_replaces_its_days_and_with_today_all_later_ones(today: date, until: date) -> None:
    """A row names the first and the last day; it is no mailing, as it is neither planned nor not."""
    [row] = replaced_days(WEEKS, today).to_pylist()
    assert row == {"contact_id": "", "mailed_on": FEBRUARY, "mailed_until": until, "is_planned": None}
    assert replaced_days([], today).num_rows == 0


@pytest.mark.parametrize("length", LENGTHS)
def test_ranges_of_two_loads_are_the_same_or_apart(length: int) -> None:
    """Ranges never overlap partially, wherever loads start."""
    ranges = {dates for start, end in periods(length) for dates in plan_date_ranges(start, end, length)}
    days = [day for dates in ranges for day in days_of(dates)]
    assert len(days) == len(set(days))


IGNORED = (
    "mailings: the service ignores the days of the last mailing, so that all contacts would seem to be mailed each day"
    "; load without mailings, or set another sources.letters.date_format."
)


def mailings(service: RowsInMemory, **settings: Any) -> Task:
    """The task of reading mailings."""
    return replace(task_from(service, page_size=50, **settings), name=MAILINGS.name)


def mailed(first: date, last: date) -> str:
    """The query for contacts last mailed from one day to another."""
    return f"lastMailedDate={json.dumps({'startDate': str(first), 'endDate': str(last)})}"


def day_in(query: str) -> date:
    """The only day in a query."""
    first, last = map(date.fromisoformat, json.loads(query.partition("=")[2]).values())
    assert first == last
    return first


def test_a_range_counts_its_days() -> None:
    """The first and the last day count, also in a leap year."""
    assert [DateRange(date(2024, 2, 28), last).days for last in (date(2024, 2, 28), date(2024, 3, 1))] == [1, 3]


@pytest.mark.parametrize(
    ("started_at", "last"),
    [
        (datetime(2024, 3, 8, tzinfo=UTC), date(2024, 3, 7)),
        (datetime(2024, 3, 8, 23, 59, tzinfo=UTC), date(2024, 3, 7)),
        (datetime(2024, 3, 8, 1, 30, tzinfo=timezone(timedelta(hours=2))), date(2024, 3, 6)),
        (datetime(2024, 3, 11, tzinfo=UTC), date(2024, 3, 9)),
    ],
)
def test_only_days_that_were_over_are_held(started_at: datetime, last: date) -> None:
    """An audit holds the days that it requested up to the day before its load began, in UTC."""
    filters = {"last_mailed_from": "2024-03-03", "last_mailed_to": "2024-03-09"}
    assert held_days(audit_with(filters=filters, started_at=started_at)) == DateRange(date(2024, 3, 3), last)


@pytest.mark.parametrize(
    ("held", "first"),
    [
        ([], 1),
        ([(2, 3)], 1),
        ([(1, 3)], 4),
        ([(4, 5), (1, 3)], 6),
        ([(1, 3), (5, 6)], 4),
        ([(1, 9), (2, 3)], 10),
    ],
)
def test_the_first_open_day_is_the_first_that_no_range_holds(held: list[tuple[int, int]], first: int) -> None:
    """Ranges count from the first day on, in any order, up to a gap between them."""
    ranges = [DateRange(date(2024, 5, begin), date(2024, 5, end)) for begin, end in held]
    assert first_open_day(ranges, date(2024, 5, 1)) == date(2024, 5, first)


@pytest.mark.parametrize(
    ("since", "held", "first"),
    [(None, [], 20), (25, [], 20), (1, [], 1), (1, [(1, 9)], 7), (1, [(1, 30)], 20), (8, [(1, 9)], 8)],
)
def test_the_first_day_to_request_is_one_that_the_destination_lacks(
    since: int | None, held: list[tuple[int, int]], first: int
) -> None:
    """The first day is the stored one, or an earlier wanted one: three days before the first that no audit holds."""
    wanted = date(2024, 5, since) if since else None
    audits = [
        audit_with(
            filters={"last_mailed_from": f"2024-05-{begin:02}", "last_mailed_to": f"2024-05-{end:02}"},
            started_at=datetime(2024, 6, 1, tzinfo=UTC),
        )
        for begin, end in held
    ]
    task = task_from(RowsInMemory({"": []}), mailings_since=wanted, mailings_lag=3)
    assert first_day(task, date(2024, 5, 20), date(2024, 6, 1), audits) == date(2024, 5, first)


def test_the_audit_of_a_load_with_a_fast_clock_holds_no_days() -> None:
    """Days count as loaded only if the load began before now."""
    filters = {"last_mailed_from": "2024-05-01", "last_mailed_to": "2024-05-09"}
    audit = audit_with(filters=filters, started_at=datetime.now(UTC) + timedelta(days=1))
    task = task_from(RowsInMemory({"": []}), mailings_since=date(2024, 5, 1))
    assert first_day(task, date(2024, 5, 20), date(2024, 6, 1), [audit]) == date(2024, 5, 1)


def test_a_first_day_after_the_last_is_refused() -> None:
    """The setting must lie before the end, which is tomorrow."""
    task = task_from(RowsInMemory({"": []}), mailings_since=date(2024, 6, 1))
    with pytest.raises(SettingsError) as caught:
        first_day(task, date(2024, 5, 20), date(2024, 6, 1), [])
    assert caught.value.problem == "must be no day after today, got 2024-06-01"


def test_days_are_honored_if_days_without_mailings_have_none() -> None:
    """A day before the service existed and one about a year ahead are requested in pages of the usual size."""
    service = RowsInMemory({"": []})
    check_days_honored(mailings(service), MARCH)
    assert [day_in(query) for query in service.queries] == [LONG_AGO, FAR]
    assert service.windows == [(0, 50)] * 2


@pytest.mark.parametrize(("first", "requests"), [(LONG_AGO, 3), (FAR, 4)])
def test_days_are_ignored_if_two_days_have_as_many_contacts_as_each(first: date, requests: int) -> None:
    """A service that ignores one end of a range, or both, lists the same contacts for one day and for two."""
    ignoring = dict.fromkeys(counted_at(first), "ab")
    service = RowsInMemory({"": "", **ignoring})
    with pytest.raises(ServiceError) as caught:
        check_days_honored(mailings(service), MARCH)
    assert (str(caught.value), len(service.asked)) == (IGNORED, requests)


@pytest.mark.parametrize("rows", [("a", "", "a"), ("ab", "c", "abc"), ("a", "b", "ab")])
def test_days_are_honored_if_letters_are_planned_for_them(rows: tuple[str, str, str]) -> None:
    """Each contact is on one of two days, and on both together."""
    check_days_honored(mailings(RowsInMemory({"": "", **dict(zip(counted_at(FAR), rows, strict=True))})), MARCH)


def test_days_that_are_partly_refused_are_not_checked() -> None:
    """A service that refuses a range of two days is read without the check."""
    one, other, both = counted_at(FAR)
    check_days_honored(
        mailings(RowsInMemory({"": "", one: "ab", other: "ab", both: ServiceRejected("contacts: no")})), MARCH
    )


def counted_at(first: date) -> tuple[str, str, str]:
    """The queries by which a day is checked: that day, the next one, and both."""
    after = first + timedelta(days=1)
    return mailed(first, first), mailed(after, after), mailed(first, after)


@pytest.mark.parametrize(
    ("error", "level"),
    [(ServiceRejected("contacts: too early"), "INFO"), (ServiceUnreachable("contacts: no response"), "WARNING")],
)
def test_days_that_cannot_be_checked_are_no_error(
    error: ServiceError, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal of the checked days is information, as every load has it, and a failure is a warning."""
    with caplog.at_level("INFO"):
        check_days_honored(mailings(RowsInMemory({"": error})), MARCH)
    message = f"mailings: could not check whether the service honors the days: {error}"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [(level, message)] * 2


def test_another_failure_of_a_check_is_raised() -> None:
    """A response that is not as documented ends the check."""
    error = MalformedResponse("contacts: odd")
    with pytest.raises(MalformedResponse) as caught:
        check_days_honored(mailings(RowsInMemory({"": error})), MARCH)
    assert caught.value is error


@pytest.mark.parametrize(("ranges", "count"), [(WEEKS, 3), (WEEKS[:1], None), ([], None)])
def test_several_ranges_are_counted_at_once(ranges: Sequence[DateRange], count: int | None) -> None:
    """The count of all days takes one request; a single range, or none, takes no further one."""
    service = RowsInMemory({"": "abcd", mailed(FEBRUARY, MARCH): "abc"})
    assert count_together(mailings(service), ranges) == count
    assert service.queries == [mailed(FEBRUARY, MARCH)] * (count is not None)


@pytest.mark.parametrize(
    ("days", "together", "mailed_within", "again", "requests"),
    [
        (7, None, 0, 9, 0),
        (7, 14, 14, 9, 0),
        (7, 14, 15, 9, 0),
        (7, 15, 14, 15, 1),
        (7, 14, 13, 13, 1),
        (7, 28, 26, 27, 1),
        (7, 3, 0, 0, 1),
        (1, 4, 3, 4, 1),
    ],
)
def test_ranges_with_about_as_many_contacts_as_all_days_are_whole(
    days: int, together: int | None, mailed_within: int, again: int, requests: int
) -> None:
    """Ranges may lack less than half a day's contacts, as these are deleted, or mailed again, while ranges are read."""
    service = RowsInMemory({"": [], mailed(FEBRUARY, MARCH): [str(row) for row in range(again)]})
    check_days_whole(mailings(service, mailings_window=days), WEEKS, together, mailed_within)
    assert len(service.asked) == requests


@pytest.mark.parametrize(
    ("days", "together", "mailed_within", "again", "fewest"),
    [(7, 14, 13, 14, 14), (7, 28, 26, 28, 28), (7, 29, 26, 28, 28), (7, 14, 13, 20, 14), (1, 4, 2, 4, 4)],
)
def test_ranges_that_lack_their_last_day_are_refused(
    days: int, together: int, mailed_within: int, again: int, fewest: int
) -> None:
    """The error names the fewest contacts that all days were counted with, before or after their ranges were read."""
    service = RowsInMemory({"": [], mailed(FEBRUARY, MARCH): [str(row) for row in range(again)]})
    with pytest.raises(ServiceError) as caught:
        check_days_whole(mailings(service, mailings_window=days), WEEKS, together, mailed_within)
    assert str(caught.value) == (
        f"mailings: the service counts {fewest} contacts for all days at once, and {mailed_within} in windows of "
        f"{days} days, as if it left out the last day of each; load without mailings, or set another "
        "sources.letters.date_format."
    )


def test_a_count_that_fails_the_second_time_leaves_the_first() -> None:
    """If the count of all days is refused after the ranges were read, the one from before is used."""
    service = RowsInMemory({"": ServiceRejected("contacts: refused")})
    with pytest.raises(ServiceError, match=r"^mailings: the service counts 14 contacts for all days at once, and 13 "):
        check_days_whole(mailings(service, mailings_window=7), WEEKS, 14, 13)


def test_a_range_has_a_row_for_each_contact(caplog: pytest.LogCaptureFixture) -> None:
    """Contacts with an id are yielded with the first and the last day; their audit has the days as filters."""
    rows: Rows = ["a", {"id": None, "city": "Bend"}, "b"]
    service, progress = RowsInMemory({"": [], mailed(WEEKS[0].first, WEEKS[0].last): rows}), list[object]()
    task = mailings(service)
    loud = replace(task, context=replace(task.context, progress=lambda *figures: progress.append(figures)))
    with caplog.at_level("INFO"):
        found, audit, count = read_date_range(loud, WEEKS[0], is_planned=False)
    assert (found.table, found.rows.schema, count) == (MAILINGS.name, MAILINGS.schema, 3)
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        ("a", FEBRUARY, date(2024, 3, 2), False),
        ("b", FEBRUARY, date(2024, 3, 2), False),
    ]
    assert audit.table == LISTING_AUDIT.name
    assert audit.rows.select(["listing", "filters", "mode", "rows_yielded", "rows_rejected"]).to_pylist() == [
        {
            "listing": "mailings",
            "filters": '{"last_mailed_from": "2024-02-25", "last_mailed_to": "2024-03-02"}',
            "mode": "merge",
            "rows_yielded": 2,
            "rows_rejected": 1,
        }
    ]
    # hundreds of ranges are logged together
    assert progress == []
    assert caplog.messages == ["mailings 2024-02-25: 1 row without a usable id, left out"]


def test_ranges_are_read_in_their_order_after_the_days_are_checked(caplog: pytest.LogCaptureFixture) -> None:
    """Both days without mailings and all days at once are requested first; progress counts the days of each range."""
    weeks = [mailed(week.first, week.last) for week in WEEKS]
    service, progress = RowsInMemory({"": [], weeks[0]: "ab", weeks[1]: "bc"}), list[object]()
    service.listed[mailed(FEBRUARY, MARCH)] = "abc"
    task = mailings(service, mailings_window=7)
    reported = replace(task, context=replace(task.context, progress=lambda *figures: progress.append(figures)))
    with caplog.at_level("INFO"):
        found = list(read_date_ranges(reported, WEEKS, FEBRUARY))
    assert [(dates, rows.rows["contact_id"].to_pylist()) for dates, rows, _ in found] == [
        (WEEKS[0], ["a", "b"]),
        (WEEKS[1], ["b", "c"]),
    ]
    assert [set(rows.rows["is_planned"].to_pylist()) for _, rows, _ in found] == [{False}, {True}]
    assert [audit.table for _, _, audit in found] == [LISTING_AUDIT.name] * 2
    assert service.queries[2:] == [mailed(FEBRUARY, MARCH), *weeks]
    assert progress == [("mailings", 1, 7, 14)] * 2
    assert caplog.messages == ["mailings: 4 rows in 2 windows from 2024-02-25 to 2024-03-09"]


def test_many_windows_are_logged_while_they_are_read(caplog: pytest.LogCaptureFixture) -> None:
    """After each hundred windows there is a line, before the one about all of them."""
    caplog.set_level("INFO", "letters_source")
    start = date(2024, 1, 1)
    task = mailings(RowsInMemory({"": []}), mailings_window=1)
    found = read_date_ranges(task, plan_date_ranges(start, start + timedelta(days=203), 1), start)
    assert (len(list(found)), caplog.messages) == (
        203,
        [
            "mailings: 100 of 203 windows read",
            "mailings: 200 of 203 windows read",
            "mailings: 0 rows in 203 windows from 2024-01-01 to 2024-07-21",
        ],
    )


def test_ranges_that_lack_contacts_are_an_error_after_the_last_one() -> None:
    """Ranges with half as many contacts as all days at once are refused once the last of them was read."""
    service = RowsInMemory({"": [], mailed(WEEKS[0].first, WEEKS[0].last): "a", mailed(FEBRUARY, MARCH): "ab"})
    ranges = read_date_ranges(mailings(service, mailings_window=7), WEEKS, MARCH)
    assert [next(ranges)[0] for _ in WEEKS] == WEEKS
    with pytest.raises(ServiceError, match=r"^mailings: the service counts 2 contacts for all days at once, and 1 in "):
        next(ranges)


def test_no_days_need_no_request() -> None:
    """Without a range, nothing is requested."""
    service = RowsInMemory({"": "ab"})
    assert list(read_date_ranges(mailings(service), [], MARCH)) == []
    assert service.asked == []
