"""How is one listing read: from its settings to rows shown to be whole, and the audit of how it went?"""

import json
import logging
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic

import numpy as np
import pyarrow as pa

from letters_source.client import Client
from letters_source.decode import Page, decode_page
from letters_source.listing import ContactFilters, Filters, Listing, TemplateFilters, encode_page, given
from letters_source.reader import PageReader, Watch
from letters_source.settings import Settings
from letters_source.shape import Notes, row_schema
from letters_source.spool import Spool
from letters_source.tables import LISTING_AUDIT
from letters_source.throttle import Throttle
from letters_source.tokens import TokenSource
from letters_source.walk import Terms, Verdict, walk_listing

logger = logging.getLogger("letters_source")


@dataclass(frozen=True, slots=True)
class Job:
    """A listing to read, with what it takes.

    `name` is what it is read for: its own tables, a facet's or the mailings; `detail` which value or days of those.
    """

    name: str
    listing: Listing
    settings: Settings
    tokens: TokenSource
    filters: Filters
    watch: Watch
    detail: str = ""

    @property
    def title(self) -> str:
        """What people are told of."""
        return f"{self.name} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a listing that was shown to be whole, in its row shape."""

    listing: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Audit:
    """How a listing was read: a row of `listing_audit`."""

    row: pa.Table


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


def read_listing(job: Job, folder: Path | None = None) -> Generator[Rows | Audit, None, int]:
    """All rows of a listing, once they are shown to be whole, then the audit; returns the service's count.

    Args:
        job: what to read.
        folder: where rows wait for the verdict; the system's folder for temporary files when None.

    Raises:
        LettersError: as `Client.get` and `walk_listing` do; no row has been yielded then.
    """
    with Spool(row_schema(job.listing.name), folder) as spool:
        outcome = walk(job, spool)
        readings, keep = outcome.verdict.readings, outcome.verdict.keep
        wanted = [(number, rows) for number, rows in enumerate(keep) if np.any(rows)]
        total = rejected = 0
        for rows in spool.tables(sorted(wanted, key=lambda item: (readings[item[0]].page, item[0]))):
            total, rejected = total + rows.num_rows, rejected + rows["id"].null_count
            yield Rows(job.listing.name, rows)
    loaded = Loaded(total - rejected, rejected, sum((outcome.notes[number] for number, _ in wanted), Notes()))
    report(job, outcome, loaded)
    # Arrow keeps what decoding has freed, a hundred megabytes, which the destination's engine needs next
    pa.default_memory_pool().release_unused()
    yield Audit(audit_row(job, outcome, loaded))
    return outcome.count


def walk(job: Job, spool: Spool | None = None) -> Outcome:
    """Read the listing until it is shown to be whole, its rows into the spool; without one, for the ids alone."""
    settings = job.settings
    started_at, start = datetime.now(UTC), monotonic()
    throttle = Throttle(settings.max_workers, settings.requests_per_second)
    terms = Terms(job.title, settings.proof, settings.max_walks)
    with (
        ThreadPoolExecutor(settings.max_workers, f"letters-{job.name}") as pool,
        Client(settings.base_url, job.tokens, throttle, settings.retry_budget) as client,
    ):
        fetch = partial(fetch_page, job, client)
        treat = partial(settings.privacy.treat, listing=job.listing.name)
        reader = PageReader(job.title, fetch, spool, pool, settings.max_workers, job.watch, treat)
        verdict = walk_listing(reader.read, terms)
    return Outcome(verdict, reader.notes, client.traffic, started_at, monotonic() - start)


def ask_count(job: Job) -> int:
    """How many rows the service counts: one request, of one row."""
    settings = job.settings
    with Client(settings.base_url, job.tokens, Throttle(1), settings.retry_budget) as client:
        return fetch_page(replace(job, settings=replace(settings, page_size=1)), client, 0).count


def report_ignored(job: Job, count: int) -> None:
    """Warn where filters select nothing less than the whole listing: the service may not heed them.

    That takes a request of one row where there are filters, and none where there are not.
    """
    chosen = given(job.filters).keys() - {"account_id"}
    kind = ContactFilters if isinstance(job.filters, ContactFilters) else TemplateFilters
    if count and chosen and ask_count(replace(job, filters=kind(account_id=job.filters.account_id))) == count:
        logger.warning(
            "%s: the service gives all %d rows with %s as without; it may ignore that filter",
            job.name,
            count,
            ", ".join(sorted(chosen)),
        )


def fetch_page(job: Job, client: Client, page: int) -> Page:
    """One page of the listing, decoded."""
    params = encode_page(page, job.settings.page_size, job.filters.encode(job.settings.form))
    return client.get(job.listing, params, partial(decode_page, listing=job.listing.name, number=page))


def report(job: Job, outcome: Outcome, loaded: Loaded) -> None:
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
    for name, times in sorted(notes.kept.items()):
        logger.warning("%s: %s did not fit in %d rows and was kept in the column undocumented", listing, name, times)
    if notes.halves:
        logger.warning("%s: %d halves of surrogate pairs were replaced by U+FFFD", listing, notes.halves)
    for name, times in sorted(notes.numbers.items()):
        logger.warning("%s: %s came as a number in %d rows and was kept as its text", listing, name, times)


def audit_row(job: Job, outcome: Outcome, loaded: Loaded) -> pa.Table:
    """A row of `listing_audit`."""
    readings, traffic = outcome.verdict.readings, outcome.traffic
    last_walk = [reading for reading in readings if reading.walk == readings[-1].walk]
    pages = {reading.page for reading in last_walk}
    received = sum(len(reading.keys) for reading in readings)
    filters = {name: value for name, value in given(job.filters).items() if name != "account_id"}
    row = {
        "listing": job.name,
        "filters": json.dumps(filters) if filters else None,
        "account_id": job.filters.account_id,
        "environment": job.settings.environment,
        "mode": loaded.mode or job.settings.mode,
        "verdict": outcome.verdict.proof,
        "count_first": readings[0].count,
        "count_last": outcome.count,
        "rows_received": received,
        "rows_yielded": loaded.rows,
        "duplicates_dropped": received - loaded.rows - loaded.rejected,
        "rows_rejected": loaded.rejected,
        "adds_up": loaded.adds_up,
        "misfit_values": loaded.notes.misfits,
        "undocumented_fields": json.dumps(dict(sorted(loaded.notes.kept.items()))) if loaded.notes.kept else None,
        "walks": readings[-1].walk,
        "pages": len(pages),
        "page_size_asked": job.settings.page_size,
        "page_size_given": len(last_walk[0].keys) if len(pages) > 1 else None,
        **{name: traffic[name] for name in ("requests", "retries", "throttled")},
        "started_at": outcome.started_at,
        "seconds": outcome.seconds,
    }
    return pa.Table.from_pylist([row], LISTING_AUDIT.schema)
