"""The date ranges in which mailings are requested."""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from letters_source.extract.mailings import DateRange, plan_date_ranges

DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1))
SPANS = st.integers(0, 400).map(timedelta)
LENGTHS = st.integers(1, 60)


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
def test_no_days_take_no_range(start: date, length: int) -> None:
    """If the end is not after the start, there is no range, not even the one with both."""
    assert plan_date_ranges(start, date(2024, 3, 6), length) == []


@given(DAYS, SPANS, LENGTHS)
def test_every_day_is_in_one_range(start: date, span: timedelta, length: int) -> None:
    """Ranges have the given length, follow each other without gaps, and each contains a requested day."""
    ranges = plan_date_ranges(start, start + span, length)
    assert [len(days_of(dates)) for dates in ranges] == [length] * len(ranges)
    assert [later.first for _, later in pairwise(ranges)] == [
        earlier.last + timedelta(days=1) for earlier, _ in pairwise(ranges)
    ]
    held = {day for dates in ranges for day in days_of(dates)}
    asked = {start + timedelta(days=day) for day in range(span.days)}
    assert asked - held == set()
    assert [dates for dates in ranges if asked.isdisjoint(days_of(dates))] == []


@given(DAYS, DAYS, SPANS, LENGTHS)
def test_ranges_of_two_loads_are_the_same_or_apart(one: date, other: date, span: timedelta, length: int) -> None:
    """Ranges never overlap partially, wherever loads start."""
    ranges = {*plan_date_ranges(one, one + span, length), *plan_date_ranges(other, other + span, length)}
    days = [day for dates in ranges for day in days_of(dates)]
    assert len(days) == len(set(days))
