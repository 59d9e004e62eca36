"""Report how a listing was read, and fields that are not documented: lines in the log, and a row of `listing_audit`."""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa

from letters_source.decode.row_schema import OTHERS, Notes
from letters_source.errors import UndocumentedFields
from letters_source.extract.task import TableRows, Task
from letters_source.pagination.verdicts import Verdict
from letters_source.results import Audit
from letters_source.service.network import service_of
from letters_source.tables import LISTING_AUDIT, MAILINGS, MERGE, tables_of
from letters_source.wording import AROUND, counted, field_times

logger = logging.getLogger("letters_source")

PLAIN_NAME = re.compile(r"@?[\w.$:/#\[\] -]{1,100}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A complete listing: its verdict, what decoding noticed in the rows to load, and the requests it took."""

    task: Task
    verdict: Verdict
    notes: Notes
    traffic: Counter[str]
    started_at: datetime
    seconds: float
    stated: int | None = None  # the service's own count, if more rows were seen

    @property
    def count(self) -> int:
        """The count of the newest response."""
        return self.counts[-1]

    @property
    def count_changes(self) -> int:
        """How often the count differed from that of the response before."""
        return sum(before != after for before, after in pairwise(self.counts))

    @property
    def pages(self) -> int:
        """The number of different pages with rows to load; at least one, as an empty listing has a page, too."""
        read = zip(self.verdict.readings, self.verdict.keep, strict=True)
        return max(1, len({(each.page, each.size) for each, rows in read if np.any(rows)}))

    @property
    def received(self) -> int:
        """The number of rows in all responses."""
        return sum(len(reading.keys) for reading in self.verdict.readings)

    @property
    def page_size(self) -> int | None:
        """The most rows of a page of the last pass; None if there is only one page."""
        last = self.verdict.readings[-1].walk
        sizes = (len(reading.keys) for reading in self.verdict.readings if reading.walk == last)
        return max(sizes) if self.pages > 1 else None

    @property
    def counts(self) -> list[int]:
        """The count of each response, oldest first."""
        return [reading.count for reading in sorted(self.verdict.readings, key=lambda reading: reading.answered)]


def log_outcome(
    outcome: Outcome, rows: int, rejected_were: str = "sent to rejected_rows", level: int = logging.INFO
) -> None:
    """Log how many rows are loaded, and warnings for rows and text that could not be loaded as they are."""
    task, notes, rejected = outcome.task, outcome.notes, outcome.verdict.rejected
    figures = counted(rows), outcome.verdict.name, outcome.traffic["requests"], outcome.seconds
    logger.log(level, "%s: %s, %s; requests: %d, seconds: %.1f", task.title, *figures)
    if rejected:
        logger.warning("%s: %s without a usable id, %s", task.title, counted(rejected), rejected_were)
    if notes.surrogates:
        logger.warning("%s: %s replaced by U+FFFD", task.title, counted(notes.surrogates, "unpaired surrogate"))


def by_plain_name(times: Counter[str]) -> Counter[str]:
    """Return the counts by field; unusual names, which may be values or terminal escapes, are counted together."""
    plain: Counter[str] = Counter()
    for name, number in times.items():
        plain[name if PLAIN_NAME.fullmatch(name) else OTHERS] += number
    return plain


def audit_row(outcome: Outcome, rows: int, *, adds_up: bool | None = None) -> TableRows:
    """Return the row of `listing_audit` for `rows` loaded rows; `adds_up` is whether a facet's values do."""
    verdict, traffic, task = outcome.verdict, outcome.traffic, outcome.task
    readings, settings = verdict.readings, task.settings
    policies, filters, notes = settings.privacy.recorded, task.recorded_filters, outcome.notes
    row: Audit = {
        "listing": task.name,
        "filters": json.dumps(filters) if filters else None,
        "account_id": task.filters.account_id,
        "environment": settings.environment,
        "mode": MERGE if task.name == MAILINGS.name else settings.mode,
        "pii": json.dumps(policies) if policies else None,
        "verdict": verdict.name,
        "count_first": outcome.counts[0] if outcome.stated is None else outcome.stated,
        "count_last": outcome.count,
        "rows_received": outcome.received,
        "rows_yielded": rows,
        "duplicates_dropped": outcome.received - rows - verdict.rejected,
        "rows_rejected": verdict.rejected,
        "adds_up": adds_up,
        "misfit_values": notes.misfits,
        "undocumented_fields": as_json(by_plain_name(notes.kept)),
        "walks": readings[-1].walk,
        "pages": outcome.pages,
        "page_size_asked": task.page_size.rows,
        "page_size_given": outcome.page_size,
        "requests": traffic["requests"],
        "retries": traffic["retries"],
        "throttled": traffic["throttled"],
        "started_at": outcome.started_at,
        "seconds": outcome.seconds,
        "count_changes": outcome.count_changes,
        "links_mended": verdict.links_mended,
        "overlap": verdict.overlap,
        "converted_fields": as_json(by_plain_name(notes.numbers)),
        "service": service_of(settings.base_url),
        "shared_ids": task.context.shared_ids.get(task.name),
    }
    return TableRows(LISTING_AUDIT.name, pa.Table.from_pylist([row], LISTING_AUDIT.schema))


def as_json(times: Counter[str]) -> str | None:
    """Return counts as a JSON object in alphabetical order, None for none."""
    return json.dumps(dict(sorted(times.items()))) if times else None


def check_fields(task: Task, notes: Notes) -> None:
    """Raise `UndocumentedFields` if `on_undocumented` is fail and a field outside `known_fields` did not fit."""
    settings = task.settings
    strange = {name: rows for name, rows in by_plain_name(notes.kept).items() if name not in settings.known_fields}
    if strange and settings.on_undocumented == "fail":
        raise UndocumentedFields(task.title, dict(sorted(strange.items())))


def log_fields(task: Task, notes: Notes, audits: Sequence[Audit]) -> None:
    """Log each field that did not fit: a warning if neither the settings know it nor an earlier load's audit."""
    settings = task.settings
    known = {*settings.known_fields, *named_in(audits)}
    fate = "dropped" if settings.privacy.undocumented == "drop" else "kept in the column undocumented"
    documented = set(documented_fields(task.listing.name))
    for name, rows in sorted(by_plain_name(notes.kept).items()):
        is_news = name not in known and settings.on_undocumented != "keep"
        what = f"{name} did not fit" if name in documented else titled(name, is_news=is_news)
        kept = "not loaded" if name.startswith(AROUND) else fate
        logger.log(level(is_news=is_news), "%s: %s in %s, %s", task.title, what, field_times(name, rows), kept)
    for name, rows in sorted(by_plain_name(notes.numbers).items()):
        message = "%s: %s was a number in %s and was kept as text"
        logger.log(level(is_news=name not in known), message, task.title, name, counted(rows))


def titled(name: str, *, is_news: bool) -> str:
    """Return what a message calls an undocumented field."""
    return name if name == OTHERS else f"{'new' if is_news else 'undocumented'} field {name}"


def level(*, is_news: bool) -> int:
    """Return the log level of something that was noticed."""
    return logging.WARNING if is_news else logging.INFO


def named_in(audits: Sequence[Audit]) -> Iterator[str]:
    """Yield the fields that audits name; those of older versions lack a column."""
    for audit in audits:
        yield from audit.get("undocumented_fields") or ()
        yield from audit.get("converted_fields") or ()


def documented_fields(listing: str) -> Iterator[str]:
    """Yield the service's names of a listing's documented fields, nested ones after their object's name and a dot."""
    for table in tables_of(listing):
        prefix = f"{table.wire}." if table.is_child else ""
        yield from (f"{prefix}{column.wire}" for column in table.documented)
        yield table.wire
