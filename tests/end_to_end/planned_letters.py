"""Nights of letters that are planned, postponed, canceled and mailed, and a load each night that reads days again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from random import Random

import pytest
from dlt.common.configuration.container import Container
from dlt.extract.incremental.context import TimeIntervalContext
from row_changes import refill

from programmable_emulator import ChangingListing, Row, Traits

Mailings = set[tuple[str, date]]
"""Who was mailed on which day."""
FIRST_NIGHT, CONTACTS, LAG = date(2024, 2, 10), 30, 4


@contextmanager
def scheduled(first: date | str, end: date | str) -> Iterator[None]:
    """Load as under a scheduler that sets an interval; dlt reads it from the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, moment in (("START", first), ("END", end)):
            patch.setenv(f"DLT_INTERVAL_{name}", moment if isinstance(moment, str) else f"{moment}T00:00:00Z")
        patch.setenv("DLT_ALLOW_EXTERNAL_SCHEDULERS", "true")
        with Container().injectable_context(TimeIntervalContext()):
            yield


def next_day(day: date | None, night: date, random: Random) -> date | None:
    """The last mailing of a contact after a night: a planned one may come, move or go, also on the last day."""
    lot = random.random()
    if day is None or day < night - timedelta(days=1):
        return night + timedelta(days=random.randrange(6)) if lot < 0.3 else day
    if lot < 0.2:
        return day + timedelta(days=random.randrange(1, 5))
    return None if lot < 0.3 else day


def plan(contacts: ChangingListing, days: Sequence[date | None]) -> None:
    """Give the service contacts that were, or will be, mailed on these days."""
    rows = (Row.of({"id": str(n)}, Traits(last_mailed_date=day)) for n, day in enumerate(days))
    refill(contacts, rows)


def load_each_night(
    contacts: ChangingListing, load: Callable[[], object], read: Callable[[], Mailings], nights: int = 40
) -> int:
    """Load each night; after each, every day has what the service listed for it when it was last read.

    Return how many mailings were in the table and left it.
    """
    random, expected = Random(40), Mailings()
    days: list[date | None] = [None] * CONTACTS
    gone = 0
    for night in (FIRST_NIGHT + timedelta(days=n) for n in range(nights)):
        days = [next_day(day, night, random) for day in days]
        plan(contacts, days)
        first = night - timedelta(days=LAG)
        with scheduled(first, night + timedelta(days=1)):
            load()
        listed = {(str(n), day) for n, day in enumerate(days) if day and first <= day <= night}
        before, expected = expected, {each for each in expected if each[1] < first} | listed
        gone += len(before - expected)
        assert read() == expected
    return gone
