"""What the hidden resources yield: the pages of listings and of mailings, once the load is known to be allowed."""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dlt

from letters_source.compatibility import check_selection
from letters_source.config.providers import where_to_set, wrong
from letters_source.destination.audits import finished_audits, open_held, running_pipeline
from letters_source.destination.write_modes import check_mode
from letters_source.errors import SettingsError
from letters_source.extract.audit import Audit
from letters_source.extract.facets import read_facet
from letters_source.extract.ids import Members
from letters_source.extract.listing import Rows, read_listing
from letters_source.extract.mailings import (
    check_days_heeded,
    check_days_whole,
    count_together,
    first_open_day,
    held_window,
    plan_windows,
    read_window,
)
from letters_source.extract.probe import report_ignored
from letters_source.extract.shrinkage import rows_before
from letters_source.extract.task import Job
from letters_source.guarded_source import check_selected_resources
from letters_source.service.listings import LAST_MAILED_STATUSES, unknown_statuses
from letters_source.tables import LISTING_AUDIT, MAILINGS, MERGE, facets_of

logger = logging.getLogger("letters_source")

Item = Rows | Members | Audit
NOTHING = Members("", MAILINGS.schema.empty_table())
"""What no table takes: it gives every other resource its turn to refuse before the service is asked."""
NO_AUDIT = Audit(LISTING_AUDIT.schema.empty_table())
DOCUMENTED = ", ".join(LAST_MAILED_STATUSES)


def read_pages(job: Job) -> Iterator[Item]:
    """The listing's rows once they are shown to be whole, then those of its facets.

    Raises:
        SettingsError: `add_limit` was set, which would make a part look like the whole, or the dataset holds rows that
            were chosen otherwise.
    """
    audits = check_load(job, job.settings.mode)
    yield NOTHING
    count = yield from read_listing(job, working_folder(), rows_before(job, audits))
    report_ignored(job, count)
    for table in facets_of(job.name) if job.settings.facets else ():
        yield from read_facet(job, table, count)


def read_mailings(job: Job, days: dlt.sources.incremental[date]) -> Iterator[dict[str, Any]]:
    """The mailings of each window since the last load, each item with the day that it brings the mailings up to.

    Raises:
        SettingsError: no first day is set, or as for `read_pages`.
        ServiceError: the service ignores the days of a window, or leaves some of them out.
    """
    audits = check_load(job, MERGE)
    end: date = days.end_value or datetime.now(UTC).date() + timedelta(days=1)
    start = first_day(job, days, end, audits)
    # tables of the right types, also where there is no day to ask for
    yield {"item": NO_AUDIT}
    yield {"item": Members(MAILINGS.name, MAILINGS.schema.empty_table())}
    windows = plan_windows(start, end, job.settings.mailings_window)
    if windows:
        check_days_heeded(job)
    together, mailed = count_together(job, windows), 0
    for window in windows:
        # dlt drops what lies before the day that it goes on from
        day = max(days.start_value or start, min(window.last, end - timedelta(days=1)))
        rows, audit, count = read_window(job, window)
        mailed += count
        yield from ({"day": day, "item": item} for item in (rows, audit))
        job.watch(job.name, 1, 1, len(windows))
    check_days_whole(job, windows, together, mailed)


def first_day(job: Job, days: dlt.sources.incremental[date], end: date, audits: Sequence[dict[str, Any]]) -> date:
    """The first day to ask for: where dlt goes on from, or before, where the destination lacks days.

    dlt remembers a day for a pipeline, wherever it loads to; what counts is what the destination holds, by the audits.

    Raises:
        SettingsError: no first day is set, or one that is yet to come.
    """
    since, start = job.settings.mailings_since, days.start_value
    if start is None:
        raise SettingsError(f"sources.letters.mailings_since is not set: {where_to_set('mailings_since')}.")
    if days.end_value is not None or since is None:
        return start
    if since >= end:
        raise wrong("mailings_since", "no day after today", since)
    # a clock that was ahead would have days count as held that nobody has asked for
    held = [held_window(audit) for audit in audits if audit["started_at"] <= datetime.now(UTC)]
    missing = first_open_day(held, since) - timedelta(days=job.settings.mailings_lag)
    return min(start, max(since, missing))


def check_load(job: Job, mode: str) -> list[dict[str, Any]]:
    """Check that the listing may be loaded into the running pipeline's dataset, before the service is asked.

    Returns:
        The listing's audits in finished loads, newest first; none outside a load.

    Raises:
        SettingsError: a limit is set, the destination cannot merge, or the dataset holds rows of another choice.
    """
    if dlt.current.resource().limit:
        raise SettingsError(
            f"add_limit would load a part of {job.name} as if it were the whole, so it is refused; "
            "to try things out, load from the emulator: letters serve."
        )
    for status in unknown_statuses(job.filters):
        logger.warning("%s: last_mailed_status %s is not one of the documented %s", job.name, status, DOCUMENTED)
    pipeline = running_pipeline()
    if not pipeline:
        return []
    check_selected_resources(job.name, mode)
    check_mode(pipeline, job.name, mode)
    with open_held(pipeline) as client:
        audits = finished_audits(client, job.name)
        check_selection(client, str(pipeline.dataset_name), job, audits)
    return audits


def working_folder() -> Path | None:
    """The running pipeline's working folder: on a disk for data, which the system's folder for files may not be."""
    pipeline = running_pipeline()
    return Path(pipeline.working_dir) if pipeline else None
