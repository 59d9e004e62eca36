"""How did reading a listing go? A line in the log, and a row of `listing_audit`."""

import json
import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from letters_source.decode.row_schema import OTHERS, Notes
from letters_source.extract.task import Job
from letters_source.pagination.walk import Verdict
from letters_source.service.listings import given
from letters_source.tables import LISTING_AUDIT

logger = logging.getLogger("letters_source")

PLAIN_NAME = re.compile(r"@?[\w.$:/#\[\] -]{1,100}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A walk's verdict, what decoding noticed in each of its readings, and what was sent for it."""

    verdict: Verdict
    notes: list[Notes]
    traffic: Counter[str]
    started_at: datetime
    seconds: float

    @property
    def count(self) -> int:
        """The count of the newest response."""
        return max(self.verdict.readings, key=lambda reading: reading.answered).count


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of the rows of a walk.

    Args:
        rows: how many were yielded.
        rejected: how many had no usable id.
        notes: what decoding noticed in the pages whose rows were yielded.
        mode: how they are written, if not in the mode of the settings.
        adds_up: whether a facet's values add up to the listing.
    """

    rows: int = 0
    rejected: int = 0
    notes: Notes = field(default_factory=Notes)
    mode: str = ""
    adds_up: bool | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """How a listing was read: a row of `listing_audit`."""

    row: pa.Table


def log_outcome(job: Job, outcome: Outcome, loaded: Loaded) -> None:
    """Say how it went in a line, and what was not understood in a line for each field."""
    listing, notes = job.title, loaded.notes
    logger.info(
        "%s: %d rows, %s; requests: %d, seconds: %.1f",
        listing,
        loaded.rows,
        outcome.verdict.proof,
        outcome.traffic["requests"],
        outcome.seconds,
    )
    if loaded.rejected:
        logger.warning("%s: %d rows have no usable id and went to rejected_rows", listing, loaded.rejected)
    fate = "dropped" if job.settings.privacy.undocumented == "drop" else "kept in the column undocumented"
    for name, times in sorted(by_plain_name(notes.kept).items()):
        logger.warning("%s: %s did not fit in %d rows and was %s", listing, name, times, fate)
    if notes.halves:
        logger.warning("%s: %d halves of surrogate pairs were replaced by U+FFFD", listing, notes.halves)
    for name, times in sorted(by_plain_name(notes.numbers).items()):
        logger.warning("%s: %s came as a number in %d rows and was kept as its text", listing, name, times)


def by_plain_name(times: Counter[str]) -> Counter[str]:
    """How often each field came; names that fields do not have, which may be values or move a cursor, are not told."""
    plain: Counter[str] = Counter()
    for name, number in times.items():
        plain[name if PLAIN_NAME.fullmatch(name) else OTHERS] += number
    return plain


def audit_row(job: Job, outcome: Outcome, loaded: Loaded) -> pa.Table:
    """A row of `listing_audit`."""
    readings, traffic = outcome.verdict.readings, outcome.traffic
    last_walk = [reading for reading in readings if reading.walk == readings[-1].walk]
    pages = {reading.page for reading in last_walk}
    received = sum(len(reading.keys) for reading in readings)
    policies = job.settings.privacy.recorded
    filters, kept = given(job.filters), loaded.notes.kept
    row = {
        "listing": job.name,
        "filters": json.dumps(filters) if filters else None,
        "account_id": job.filters.account_id,
        "environment": job.settings.environment,
        "mode": loaded.mode or job.settings.mode,
        "pii": json.dumps(policies) if policies else None,
        "verdict": outcome.verdict.proof,
        "count_first": readings[0].count,
        "count_last": outcome.count,
        "rows_received": received,
        "rows_yielded": loaded.rows,
        "duplicates_dropped": received - loaded.rows - loaded.rejected,
        "rows_rejected": loaded.rejected,
        "adds_up": loaded.adds_up,
        "misfit_values": loaded.notes.misfits,
        "undocumented_fields": json.dumps(dict(sorted(by_plain_name(kept).items()))) if kept else None,
        "walks": readings[-1].walk,
        "pages": len(pages),
        "page_size_asked": job.settings.page_size,
        "page_size_given": len(last_walk[0].keys) if len(pages) > 1 else None,
        **{name: traffic[name] for name in ("requests", "retries", "throttled")},
        "started_at": outcome.started_at,
        "seconds": outcome.seconds,
    }
    return pa.Table.from_pylist([row], LISTING_AUDIT.schema)
