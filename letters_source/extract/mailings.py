"""Who was last mailed when? The listing of contacts, asked window by window of days."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from letters_source.errors import ServiceError, ServiceRejected, ServiceUnreachable
from letters_source.extract.audit import Audit, Loaded, audit_row
from letters_source.extract.ids import Members, read_ids
from letters_source.extract.probe import ask_count
from letters_source.extract.task import Job
from letters_source.pagination.reader import ignore
from letters_source.service.listings import LONG_AGO, Filters, refined
from letters_source.tables import MAILINGS, MERGE

logger = logging.getLogger("letters_source")

DAYS = ("last_mailed_from", "last_mailed_to")
"""The filters of a window."""
REMEDY = "set sources.letters.mailings to false, or another date_format"


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
    """See that the service heeds both days of a window: days on which nobody was mailed have no rows.

    Raises:
        ServiceError: it does not; contacts would seem to be mailed on days on which they were not.
    """
    for day in (LONG_AGO, far_ahead()):
        if count_within(job, Window(day, day)):
            raise ServiceError(
                f"{job.name}: the service ignores the days of the last mailing, so that all contacts would seem to be "
                f"mailed each day; {REMEDY}."
            )


def count_within(job: Job, window: Window) -> int | None:
    """How many contacts the service counts for a window that a load can do without; None where it does not tell.

    It may refuse such days, or fail over them.

    Raises:
        LettersError: as `Client.get` does otherwise.
    """
    try:
        return ask_count(replace(job, filters=within(job, window)), job.settings.page_size)
    except ServiceRejected:
        return None
    except ServiceUnreachable as error:
        logger.warning("%s: not known whether the service heeds its days: %s", job.name, error)
        return None


def far_ahead() -> date:
    """A day on which nobody was mailed yet; services may not know days much later."""
    return datetime.now(UTC).date() + timedelta(days=366)


def count_together(job: Job, windows: Sequence[Window]) -> int | None:
    """How many contacts the service counts for the days of all windows at once; None where one window has them all.

    Raises:
        LettersError: as `count_within` does.
    """
    return count_within(job, Window(windows[0].first, windows[-1].last)) if len(windows) > 1 else None


def check_days_whole(job: Job, windows: Sequence[Window], together: int | None, mailed: int) -> None:
    """See that a service that counts a window's days does not leave the last of them out.

    A few contacts may be missing for another reason: they were deleted, or their mailing was told late.

    Args:
        job: what was read.
        windows: which days.
        together: what `count_together` told before they were read.
        mailed: how many contacts the windows had.

    Raises:
        ServiceError: the windows lack half as many contacts as their last days would have, or more, before and now.
    """
    days = job.settings.mailings_window
    if together is None or mailed >= together:
        return
    again = count_together(job, windows)
    fewest = together if again is None else min(together, again)
    if is_lacking(mailed, fewest, days):
        raise ServiceError(
            f"{job.name}: the service counts {fewest} contacts for all days at once, and {mailed} in windows of "
            f"{days} days, as if it left out the last day of each; {REMEDY}."
        )


def is_lacking(mailed: int, expected: int, days: int) -> bool:
    """Whether so many contacts are missing that one day of each window may be."""
    return 2 * days * (expected - mailed) >= expected > mailed


def within(job: Job, window: Window) -> Filters:
    """The job's filters, for contacts last mailed in a window."""
    return refined(job.filters, last_mailed_from=window.first, last_mailed_to=window.last)


def read_window(job: Job, window: Window) -> tuple[Members, Audit, int]:
    """The mailings of one window, the walk's audit, and how many contacts the service counted.

    Raises:
        LettersError: as `read_listing` does.
    """
    filters = within(job, window)
    asked = replace(job, filters=filters, watch=ignore, detail=window.first.isoformat())
    found = read_ids(asked)
    days = [pa.repeat(pa.scalar(day, pa.date32()), len(found.ids)) for day in (window.first, window.last)]
    rows = Members(MAILINGS.name, pa.Table.from_arrays([found.ids, *days], schema=MAILINGS.schema))
    audit = Audit(audit_row(asked, found.outcome, Loaded(len(found.ids), found.rejected, mode=MERGE)))
    return rows, audit, found.outcome.count
