"""What do the hidden resources yield, once the load is known to be allowed?"""

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dlt
from dlt.common.configuration.container import Container
from dlt.common.pipeline import PipelineContext

from letters_source.audit import Audit
from letters_source.errors import SettingsError
from letters_source.extract import Rows, read_listing, report_ignored
from letters_source.facets import Members, read_facet
from letters_source.job import Job
from letters_source.listing import LAST_MAILED_STATUSES, unknown_statuses
from letters_source.lookup import where_to_set
from letters_source.mailings import plan_windows, read_window
from letters_source.selection import check_selection
from letters_source.tables import facets_of

logger = logging.getLogger("letters_source")

Item = Rows | Members | Audit
WORDS = {"sync": "sync", "history": "history", "merge": "loading mailings"}
DOCUMENTED = ", ".join(LAST_MAILED_STATUSES)


def read_pages(job: Job) -> Iterator[Item]:
    """The listing's rows once they are shown to be whole, then those of its facets.

    Raises:
        SettingsError: `add_limit` was set, which would make a part look like the whole, or the dataset holds rows that
            were chosen otherwise.
    """
    check_load(job, job.settings.mode)
    count = yield from read_listing(job, working_folder())
    report_ignored(job, count)
    for table in facets_of(job.name) if job.settings.facets else ():
        yield from read_facet(job, table, count)


def read_mailings(job: Job, days: dlt.sources.incremental[date]) -> Iterator[dict[str, Any]]:
    """The mailings of each window since the last load, each item with the day that it brings the mailings up to.

    Raises:
        SettingsError: no first day is set, or as for `read_pages`.
    """
    check_load(job, "merge")
    start: date | None = days.start_value
    if start is None:
        raise SettingsError(f"sources.letters.mailings_since is not set: {where_to_set('mailings_since')}.")
    end: date = days.end_value or datetime.now(UTC).date() + timedelta(days=1)
    windows = plan_windows(start, end, job.settings.mailings_window)
    for window in windows:
        day = min(window.last, end - timedelta(days=1))
        for item in read_window(job, window):
            yield {"day": day, "item": item}
        job.watch(job.name, 1, 1, len(windows))


def check_load(job: Job, mode: str) -> None:
    """See that the listing may be loaded to where the pipeline loads, before the service is asked for anything.

    Raises:
        SettingsError: a limit is set, the destination cannot merge, or the dataset holds rows of another choice.
    """
    if dlt.current.resource().limit:
        raise SettingsError(
            f"add_limit would load a part of {job.name} as if it were the whole, so it is refused; "
            "to try things out, load from the emulator: letters serve."
        )
    context = Container()[PipelineContext]
    if context.is_active() and mode != "replace" and is_files(context.pipeline()):
        raise SettingsError(
            f"{job.name}: plain files cannot be merged into, which {WORDS[mode]} needs; choose another destination."
        )
    check_selection(job)
    for status in unknown_statuses(job.filters):
        logger.warning("%s: last_mailed_status %s is not one of the documented %s", job.name, status, DOCUMENTED)


def is_files(pipeline: Any) -> bool:
    """Whether the destination is plain files; dlt appends to those where it is told to merge."""
    return bool(pipeline.destination.destination_type.endswith(".filesystem"))


def working_folder() -> Path | None:
    """The running pipeline's working folder: on a disk for data, which the system's folder for files may not be."""
    context = Container()[PipelineContext]
    return Path(context.pipeline().working_dir) if context.is_active() else None
