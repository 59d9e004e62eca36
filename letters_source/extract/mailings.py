"""Read who was last mailed when: the listing of contacts, filtered by date ranges."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from letters_source.config.messages import wrong
from letters_source.config.settings import Settings
from letters_source.errors import IncompleteListing, NotAuthorized, ServiceError, ServiceRejected, ServiceUnreachable
from letters_source.extract.audit import audit_row
from letters_source.extract.listing import read_ids
from letters_source.extract.probe import count_listing
from letters_source.extract.task import TableRows, Task
from letters_source.results import Audit
from letters_source.service.listings import DAYS, LONG_AGO
from letters_source.tables import MAILINGS
from letters_source.wording import counted

logger = logging.getLogger("letters_source")

# a log tells of years of mailings while they are read
WINDOWS_PER_LINE = 100
REMEDY = "load without mailings, or set another $date_format."


@dataclass(frozen=True, slots=True, order=True)
class DateRange:
    """Consecutive days, the last one included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1


DatedTables = tuple[DateRange, TableRows, TableRows]
"""A date range, its mailings, and its audit."""


def plan_date_ranges(start: date, end: date, days: int) -> list[DateRange]:
    """Return the date ranges of `days` days that cover `start` up to, but not including, `end`."""
    # they start at fixed dates whatever `start` is, so those of two loads are the same or do not overlap
    first = start.toordinal() // days * days
    starts = range(first, end.toordinal(), days) if start < end else ()
    return [DateRange(date.fromordinal(day), date.fromordinal(day + days - 1)) for day in starts]


def readable_ranges(planned: Iterable[DateRange], today: date, end: date) -> Iterator[DateRange]:
    """Yield the ranges without the days from `end` on; one with later days than `today` is split after it."""
    tomorrow = today + timedelta(days=1)
    for dates in planned:
        past = replace(dates, last=min(dates.last, today))
        ahead = DateRange(max(dates.first, tomorrow), min(dates.last, end - timedelta(days=1)))
        yield from (part for part in (past, ahead) if part.days > 0)


def replaced_days(date_ranges: Sequence[DateRange], today: date) -> pa.Table:
    """Return one row, from the first to the last day that a load replaces; no row if it reads no day.

    The row marks days and is not a mailing. A load that reads today also replaces all later days, because an earlier
    load may have found planned mailings there.
    """
    if not date_ranges:
        return MAILINGS.schema.empty_table()
    last = date_ranges[-1].last
    values = ("", date_ranges[0].first, date.max if last >= today else last, None)
    return pa.Table.from_pylist([dict(zip(MAILINGS.schema.names, values, strict=True))], MAILINGS.schema)


def plan_mailings(settings: Settings, start: date, end: date | None, today: date) -> list[DateRange]:
    """Return the ranges to request from `start` until before `end`, or, without an end, until the last day ahead."""
    horizon = today + timedelta(days=settings.mailings_ahead + 1)
    planned = plan_date_ranges(start, end or horizon, settings.mailings_window)
    return list(readable_ranges(planned, today, horizon))


def held_days(audit: Audit) -> DateRange:
    """Return the days that an audited request was for, and that were over by then."""
    asked = days_asked(audit["filters"])
    return replace(asked, last=min(asked.last, audit["started_at"].astimezone(UTC).date() - timedelta(days=1)))


def days_asked(filters: Mapping[str, Any]) -> DateRange:
    """Return the days that an audit's filters select."""
    first, last = (date.fromisoformat(filters[name]) for name in DAYS)
    return DateRange(first, last)


def first_open_day(held: Iterable[DateRange], since: date) -> date:
    """Return the first day from `since` on that no range holds."""
    day = since
    for dates in sorted(held):
        if dates.first > day:
            break
        day = max(day, dates.last + timedelta(days=1))
    return day


def first_day(task: Task, stored: date, end: date, audits: Iterable[Audit]) -> date:
    """Return the first day to request: the one that dlt stored, or an earlier one that the destination lacks.

    dlt stores it per pipeline, whatever its destination; the audits show which days the destination has.
    """
    since = task.settings.mailings_since
    if since is None:
        return stored
    if since >= end:
        raise wrong("mailings_since", "no day after today", since)
    # a load with a fast clock would make days count as loaded that were never requested
    held = [held_days(audit) for audit in audits if audit["started_at"] <= datetime.now(UTC)]
    missing = first_open_day(held, since) - timedelta(days=task.settings.mailings_lag)
    return min(stored, max(since, missing))


def check_days_honored(task: Task, today: date) -> None:
    """Raise ServiceError if the service ignores one end of a range, or both.

    It then counts the same contacts on each of two days without mailings, and on both together. A letter may be planned
    for such a day, but it is on one of them.
    """
    for day in (LONG_AGO, far_ahead(today)):
        if is_ignored(task, day):
            raise ServiceError(
                f"{task.name}: the service ignores the days of the last mailing, so that all contacts would seem to be "
                "mailed each day",
                advice=REMEDY,
            )


def is_ignored(task: Task, day: date) -> bool:
    """Return whether the service counts more contacts on a day and on the next one than on both together."""
    after = day + timedelta(days=1)
    # nobody is on the first day, so a service that honors days takes one request
    one = count_within(task, DateRange(day, day))
    other = count_within(task, DateRange(after, after)) if one else 0
    both = count_within(task, DateRange(day, after)) if other else None
    return both is not None and (one or 0) + (other or 0) > both


def count_within(task: Task, dates: DateRange) -> int | None:
    """Return the service's count for days that are only a check; None if the service refuses it or fails."""
    try:
        return count_listing(within(task, dates), page_size=None)
    except (ServiceRejected, ServiceUnreachable) as error:
        # a refusal would come with every load, so it is no warning
        level = logging.INFO if isinstance(error, ServiceRejected) else logging.WARNING
        logger.log(level, "%s: could not check whether the service honors the days: %s", task.name, error)
        return None


def far_ahead(today: date) -> date:
    """Return a day in the future, but not so far that a service could refuse it."""
    return today + timedelta(days=366)


def count_together(task: Task, date_ranges: Sequence[DateRange]) -> int | None:
    """Return the service's count for the days of all ranges at once; None for a single range or none."""
    return count_within(task, DateRange(date_ranges[0].first, date_ranges[-1].last)) if len(date_ranges) > 1 else None


def check_days_whole(task: Task, date_ranges: Sequence[DateRange], together: int | None, mailed: int) -> None:
    """Raise ServiceError if the ranges had so few of the `together` contacts that each must lack its last day."""
    days = task.settings.mailings_window
    if together is None or mailed >= together:
        return
    again = count_together(task, date_ranges)
    fewest = together if again is None else min(together, again)
    # each range lacks at least half of a day's contacts; fewer may have been deleted, or reported late
    if 2 * days * (fewest - mailed) >= fewest > mailed:
        raise ServiceError(
            f"{task.name}: the service counts {fewest} contacts for all days at once, and {mailed} in windows of "
            f"{days} days, as if it left out the last day of each",
            advice=REMEDY,
        )


def within(task: Task, dates: DateRange) -> Task:
    """Return the task for contacts last mailed in a date range."""
    return task.narrowed(last_mailed_from=dates.first, last_mailed_to=dates.last)


def read_date_ranges(task: Task, date_ranges: Sequence[DateRange], today: date) -> Iterator[DatedTables]:
    """Yield the mailings and the audit of each date range; raise ServiceError if the service does not honor the days.

    Mailings after `today` are marked as planned.
    """
    if not date_ranges:
        return
    check_days_honored(task, today)
    together, days = count_together(task, date_ranges), sum(each.days for each in date_ranges)
    mailed = loaded = 0
    for number, dates in enumerate(date_ranges, 1):
        rows, audit, count = read_date_range(task, dates, is_planned=dates.first > today)
        mailed, loaded = mailed + count, loaded + rows.rows.num_rows
        yield dates, rows, audit
        task.context.progress(task.name, 1, dates.days, days)
        if number % WINDOWS_PER_LINE == 0:
            logger.info("%s: %d of %s read", task.name, number, counted(len(date_ranges), "window"))
    check_days_whole(task, date_ranges, together, mailed)
    span = date_ranges[0].first, date_ranges[-1].last
    logger.info("%s: %s in %s from %s to %s", task.name, counted(loaded), counted(len(date_ranges), "window"), *span)


def read_or_warn(
    task: Task, date_ranges: list[DateRange], found: Iterator[DatedTables]
) -> tuple[list[DateRange], Iterator[DatedTables]]:
    """Return the ranges and what was read of them, or nothing and a warning if some of it cannot be read."""
    try:
        return date_ranges, iter(list(found))
    except (ServiceError, IncompleteListing, NotAuthorized) as error:
        logger.warning("%s: not loaded, and their table stays as it is: %s", task.name, error)
        return [], iter(())


def read_date_range(task: Task, dates: DateRange, *, is_planned: bool) -> tuple[TableRows, TableRows, int]:
    """Return the mailings of one date range, their audit, and the service's count."""
    detail = dates.first.isoformat()
    # years of mailings have hundreds of date ranges, which are logged together
    quiet = replace(within(task, dates), context=task.context.silent(), detail=detail)
    outcome, ids = read_ids(quiet, logging.DEBUG)
    shared = (dates.first, dates.last, is_planned)
    types = MAILINGS.schema.types[1:]
    values = [pa.repeat(pa.scalar(value, kind), len(ids)) for value, kind in zip(shared, types, strict=True)]
    rows = TableRows(MAILINGS.name, pa.Table.from_arrays([ids, *values], schema=MAILINGS.schema))
    return rows, audit_row(outcome, len(ids)), outcome.count
