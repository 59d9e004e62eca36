"""Reads listings and mailings for the hidden resources, after checking that the load is allowed."""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dlt

from letters_source.compatibility import check_new_account, check_selection
from letters_source.config.messages import unusable, wrong
from letters_source.destination.audits import finished_audits, open_held, running_pipeline
from letters_source.destination.write_modes import check_mode
from letters_source.errors import SettingsError
from letters_source.extract.facets import read_facet
from letters_source.extract.listing import read_listing
from letters_source.extract.mailings import (
    check_days_honored,
    check_days_whole,
    count_together,
    first_open_day,
    held_window,
    plan_windows,
    read_window,
)
from letters_source.extract.probe import report_ignored
from letters_source.extract.shrinkage import rows_before
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.guarded_source import check_selected_resources
from letters_source.service.listings import LAST_MAILED_STATUSES, unknown_statuses
from letters_source.tables import LISTING_AUDIT, MAILINGS, MERGE, facets_of

logger = logging.getLogger("letters_source")

Item = ListingRows | TableRows
NOTHING = TableRows("", MAILINGS.schema.empty_table())
"""An item that no table uses: yielding it lets every resource run its checks before the first request."""

DOCUMENTED = ", ".join(LAST_MAILED_STATUSES)


def read_pages(task: Task) -> Iterator[Item]:
    """Yield the listing's rows once they are shown to be complete, then those of its facets."""
    audits = check_load(task, task.settings.mode)
    yield NOTHING
    # unlike the system's temporary folder, the working directory is on a disk meant for data
    pipeline = running_pipeline()
    folder = Path(pipeline.working_dir) if pipeline else None
    count = yield from read_listing(task, folder, rows_before(task, audits))
    report_ignored(task, count)
    for table in facets_of(task.name) if task.settings.facets else ():
        yield from read_facet(task, table, count)


def read_mailings(task: Task, days: dlt.sources.incremental[date]) -> Iterator[dict[str, Any]]:
    """Yield the mailings of each window since the last load, each with the day up to which they are complete."""
    audits = check_load(task, MERGE)
    end: date = days.end_value or datetime.now(UTC).date() + timedelta(days=1)
    start = first_day(task, days, end, audits)
    # empty tables, so that both exist with the right types even if there is no day to request
    for table in (LISTING_AUDIT, MAILINGS):
        yield {"item": TableRows(table.name, table.schema.empty_table())}
    windows = plan_windows(start, end, task.settings.mailings_window)
    if windows:
        check_days_honored(task)
    together, mailed = count_together(task, windows), 0
    for window in windows:
        # dlt drops items dated before its start value
        day = max(days.start_value or start, min(window.last, end - timedelta(days=1)))
        rows, audit, count = read_window(task, window)
        mailed += count
        yield from ({"day": day, "item": item} for item in (rows, audit))
        task.context.progress(task.name, 1, 1, len(windows))
    check_days_whole(task, windows, together, mailed)


def first_day(task: Task, days: dlt.sources.incremental[date], end: date, audits: Sequence[dict[str, Any]]) -> date:
    """Return the first day to request: dlt's start value, or an earlier day that the destination lacks.

    dlt stores the start value per pipeline, whatever its destination; the audits show which days the destination has.
    """
    since, start = task.settings.mailings_since, days.start_value
    if start is None:
        raise unusable("mailings_since", "is not set")
    if days.end_value is not None or since is None:
        return start
    if since >= end:
        raise wrong("mailings_since", "no day after today", since)
    # after a load with a clock ahead of time, days would count as loaded that were never requested
    held = [held_window(audit) for audit in audits if audit["started_at"] <= datetime.now(UTC)]
    missing = first_open_day(held, since) - timedelta(days=task.settings.mailings_lag)
    return min(start, max(since, missing))


def check_load(task: Task, mode: str) -> list[dict[str, Any]]:
    """Check that the listing may be loaded into the running pipeline's dataset, or raise `SettingsError`.

    Return the listing's audits from finished loads, newest first; none outside a load.
    """
    if dlt.current.resource().limit:
        raise SettingsError(
            f"add_limit is not supported: it would load part of {task.name} as if it were complete; "
            "to experiment, load from the emulator: letters serve."
        )
    for status in unknown_statuses(task.filters):
        logger.warning("%s: last_mailed_status %s is not one of the documented %s", task.name, status, DOCUMENTED)
    pipeline = running_pipeline()
    if not pipeline:
        return []
    check_selected_resources(task.name, mode)
    check_mode(pipeline, task.name, mode)
    with open_held(pipeline) as client:
        audits = finished_audits(client, task.name)
        check_selection(client, str(pipeline.dataset_name), task, audits)
    if not audits:
        check_new_account(pipeline, task)
    return audits
