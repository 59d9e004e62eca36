"""Who was last mailed when? The listing of contacts, asked window by window of days."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta
from typing import Any

import pyarrow as pa

from letters_source.audit import Audit, Loaded, audit_row
from letters_source.destination.versions import MERGE
from letters_source.errors import ServiceError, ServiceRejected
from letters_source.ids import Members, read_ids
from letters_source.job import Job
from letters_source.listing import LONG_AGO, refined
from letters_source.probe import ask_count
from letters_source.reader import ignore
from letters_source.tables import MAILINGS

DAYS = ("last_mailed_from", "last_mailed_to")
"""The filters of a window."""


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Days in a row, the last one included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """How many there are."""
        return (self.last - self.first).days + 1


def plan_windows(start: date, end: date, days: int) -> list[Window]:
    """The windows of so many days that hold all days from `start` until before `end`; none where there is no such day.

    Where a window begins does not depend on `start`, so that one day is never in two windows of different loads.
    """
    first = start.toordinal() // days * days
    starts = range(first, end.toordinal(), days) if start < end else ()
    return [Window(date.fromordinal(day), date.fromordinal(day + days - 1)) for day in starts]


def held_window(audit: Mapping[str, Any]) -> Window:
    """The days of an audited window that were over when it was read."""
    window = window_of(audit["filters"])
    return replace(window, last=min(window.last, audit["started_at"].astimezone(UTC).date() - timedelta(days=1)))


def window_of(filters: Mapping[str, Any]) -> Window:
    """The window that filters choose, as an audit has them."""
    first, last = (date.fromisoformat(filters[name]) for name in DAYS)
    return Window(first, last)


def first_open_day(held: Iterable[Window], since: date) -> date:
    """The first day from `since` on that none of the windows holds."""
    day = since
    for window in sorted(held):
        if window.first > day:
            break
        day = max(day, window.last + timedelta(days=1))
    return day


def check_days_heeded(job: Job) -> None:
    """See that the service heeds the days of a window: one on which nobody was mailed has no rows.

    Raises:
        ServiceError: it does not; all contacts would seem to be mailed each day.
    """
    asked = replace(job, filters=refined(job.filters, last_mailed_from=LONG_AGO, last_mailed_to=LONG_AGO))
    try:
        mailed = ask_count(asked, job.settings.page_size)
    except ServiceRejected:
        # of the day, which it then heeds, or of all that the windows ask for, too
        return
    if mailed:
        raise ServiceError(
            f"{job.name}: the service ignores the days of the last mailing, so that all contacts would seem to be "
            "mailed each day; set sources.letters.mailings to false, or another date_format."
        )


def read_window(job: Job, window: Window) -> Iterator[Members | Audit]:
    """The mailings of one window, and the walk's audit.

    Raises:
        LettersError: as `read_listing` does.
    """
    filters = refined(job.filters, last_mailed_from=window.first, last_mailed_to=window.last)
    asked = replace(job, filters=filters, watch=ignore, detail=window.first.isoformat())
    found = read_ids(asked)
    days = [pa.repeat(pa.scalar(day, pa.date32()), len(found.ids)) for day in (window.first, window.last)]
    yield Members(MAILINGS.name, pa.Table.from_arrays([found.ids, *days], schema=MAILINGS.schema))
    yield Audit(audit_row(asked, found.outcome, Loaded(len(found.ids), found.rejected, mode=MERGE)))
