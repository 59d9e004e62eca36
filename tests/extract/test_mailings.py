"""The windows of days in which mailings are requested."""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from letters_source.extract.mailings import MailingWindow, plan_windows

DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1))
SPANS = st.integers(0, 400).map(timedelta)
LENGTHS = st.integers(1, 60)


def days_of(window: MailingWindow) -> list[date]:
    """The days of a window."""
    return [window.first + timedelta(days=day) for day in range((window.last - window.first).days + 1)]


def test_windows_of_one_day_are_the_days() -> None:
    """Windows of one day are the days from the start until before the end, also across months."""
    days = [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)]
    assert plan_windows(date(2024, 2, 28), date(2024, 3, 2), 1) == [MailingWindow(day, day) for day in days]


def test_windows_of_seven_days_begin_on_one_weekday() -> None:
    """Windows of seven days begin on a Sunday, whichever day is first, and the last one may end after the last day."""
    weeks = [MailingWindow(date(2024, 2, 25), date(2024, 3, 2)), MailingWindow(date(2024, 3, 3), date(2024, 3, 9))]
    assert plan_windows(date(2024, 2, 25), date(2024, 3, 4), 7) == weeks
    assert plan_windows(date(2024, 3, 2), date(2024, 3, 4), 7) == weeks
    assert plan_windows(date(2024, 3, 3), date(2024, 3, 4), 7) == weeks[1:]
    assert plan_windows(date(2024, 3, 2), date(2024, 3, 3), 7) == weeks[:1]


@pytest.mark.parametrize("length", [1, 7, 30])
@pytest.mark.parametrize("start", [date(2024, 3, 6), date(2024, 3, 7), date(2024, 3, 20)])
def test_no_days_take_no_window(start: date, length: int) -> None:
    """If the end is not after the start, there is no window, not even the one with both."""
    assert plan_windows(start, date(2024, 3, 6), length) == []


@given(DAYS, SPANS, LENGTHS)
def test_every_day_is_in_one_window(start: date, span: timedelta, length: int) -> None:
    """Windows have the given length, follow each other without gaps, and each contains a requested day."""
    windows = plan_windows(start, start + span, length)
    assert [len(days_of(window)) for window in windows] == [length] * len(windows)
    assert [later.first for _, later in pairwise(windows)] == [
        earlier.last + timedelta(days=1) for earlier, _ in pairwise(windows)
    ]
    held = {day for window in windows for day in days_of(window)}
    asked = {start + timedelta(days=day) for day in range(span.days)}
    assert asked - held == set()
    assert [window for window in windows if asked.isdisjoint(days_of(window))] == []


@given(DAYS, DAYS, SPANS, LENGTHS)
def test_windows_of_two_loads_are_the_same_or_apart(one: date, other: date, span: timedelta, length: int) -> None:
    """Windows never overlap partially, wherever loads start."""
    windows = {*plan_windows(one, one + span, length), *plan_windows(other, other + span, length)}
    days = [day for window in windows for day in days_of(window)]
    assert len(days) == len(set(days))
