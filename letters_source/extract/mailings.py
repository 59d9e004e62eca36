"""Read who was last mailed when: the listing of contacts, filtered by windows of days."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from letters_source.errors import ServiceError, ServiceRejected, ServiceUnreachable
from letters_source.extract.audit import audit_row
from letters_source.extract.listing import read_ids
from letters_source.extract.probe import count_listing
from letters_source.extract.task import TableRows, Task
from letters_source.results import Audit
from letters_source.service.listings import LONG_AGO
from letters_source.tables import MAILINGS

logger = logging.getLogger("letters_source")

DAYS = ("last_mailed_from", "last_mailed_to")  # the filters of a window
REMEDY = "set sources.letters.mailings to false, or another date_format"


@dataclass(frozen=True, slots=True, order=True)
class MailingWindow:
    """Consecutive days, the last one included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1


def plan_windows(start: date, end: date, days: int) -> list[MailingWindow]:
    """Return the windows of `days` days that cover `start` up to, but not including, `end`."""
    # windows start at fixed dates whatever `start` is, so windows of two loads are the same or do not overlap
    first = start.toordinal() // days * days
    starts = range(first, end.toordinal(), days) if start < end else ()
    return [MailingWindow(date.fromordinal(day), date.fromordinal(day + days - 1)) for day in starts]


def held_window(audit: Audit) -> MailingWindow:
    """Return the days of an audited window that were over when it was read."""
    window = window_of(audit["filters"])
    return replace(window, last=min(window.last, audit["started_at"].astimezone(UTC).date() - timedelta(days=1)))


def window_of(filters: Mapping[str, Any]) -> MailingWindow:
    """Return the window that an audit's filters select."""
    first, last = (date.fromisoformat(filters[name]) for name in DAYS)
    return MailingWindow(first, last)


def first_open_day(held: Iterable[MailingWindow], since: date) -> date:
    """Return the first day from `since` on that no window holds."""
    day = since
    for window in sorted(held):
        if window.first > day:
            break
        day = max(day, window.last + timedelta(days=1))
    return day


def check_days_honored(task: Task) -> None:
    """Raise ServiceError if the service ignores a day of the filter: it returns contacts for days without mailings."""
    for day in (LONG_AGO, far_ahead()):
        if count_within(task, MailingWindow(day, day)):
            raise ServiceError(
                f"{task.name}: the service ignores the days of the last mailing, so that all contacts would seem to be "
                f"mailed each day; {REMEDY}."
            )


def count_within(task: Task, window: MailingWindow) -> int | None:
    """Return the service's count for a window that is only a check; None if the service refuses it or fails."""
    try:
        return count_listing(within(task, window), page_size=None)
    except (ServiceRejected, ServiceUnreachable) as error:
        # a refusal would come with every load, so it is no warning
        level = logging.INFO if isinstance(error, ServiceRejected) else logging.WARNING
        logger.log(level, "%s: could not check whether the service honors the days: %s", task.name, error)
        return None


def far_ahead() -> date:
    """Return a day in the future, but not so far that a service could refuse it."""
    return datetime.now(UTC).date() + timedelta(days=366)


def count_together(task: Task, windows: Sequence[MailingWindow]) -> int | None:
    """Return the service's count for the days of all windows at once; None for a single window or none."""
    return count_within(task, MailingWindow(windows[0].first, windows[-1].last)) if len(windows) > 1 else None


def check_days_whole(task: Task, windows: Sequence[MailingWindow], together: int | None, mailed: int) -> None:
    """Raise ServiceError if the windows had so few of the `together` contacts that each must lack its last day."""
    days = task.settings.mailings_window
    if together is None or mailed >= together:
        return
    again = count_together(task, windows)
    fewest = together if again is None else min(together, again)
    # each window lacks at least half of a day's contacts; fewer may have been deleted, or reported late
    if 2 * days * (fewest - mailed) >= fewest > mailed:
        raise ServiceError(
            f"{task.name}: the service counts {fewest} contacts for all days at once, and {mailed} in windows of "
            f"{days} days, as if it left out the last day of each; {REMEDY}."
        )


def within(task: Task, window: MailingWindow) -> Task:
    """Return the task for contacts last mailed in a window."""
    return task.narrowed(last_mailed_from=window.first, last_mailed_to=window.last)


def read_window(task: Task, window: MailingWindow) -> tuple[TableRows, TableRows, int]:
    """Return the mailings of one window, their audit, and the service's count."""
    detail = window.first.isoformat()
    # years of mailings have hundreds of windows, which are logged together
    quiet = replace(within(task, window), context=task.context.silent(), detail=detail)
    outcome, ids = read_ids(quiet, logging.DEBUG)
    days = [pa.repeat(pa.scalar(day, pa.date32()), len(ids)) for day in (window.first, window.last)]
    rows = TableRows(MAILINGS.name, pa.Table.from_arrays([ids, *days], schema=MAILINGS.schema))
    return rows, audit_row(outcome, len(ids)), outcome.count
