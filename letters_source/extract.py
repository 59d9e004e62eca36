"""How is one listing read: from its settings to rows shown to be whole, and the audit of how it went?"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic

import numpy as np
import pyarrow as pa

from letters_source.client import Client
from letters_source.decode import Page, decode_page
from letters_source.listing import Listing, encode_page
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
    """A listing to read, with what it takes."""

    listing: Listing
    settings: Settings
    tokens: TokenSource
    filters: Mapping[str, str]
    watch: Watch


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a listing that was shown to be whole, in its row shape."""

    listing: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Audit:
    """How a listing was read: the one row of `listing_audit`."""

    listing: str
    row: pa.Table


@dataclass(frozen=True, slots=True)
class Outcome:
    """A walk's verdict, what decoding noticed in each of its readings, and what was sent for it."""

    verdict: Verdict
    notes: list[Notes]
    traffic: Counter[str]
    started_at: datetime
    seconds: float


def read_listing(job: Job, folder: Path | None = None) -> Iterator[Rows | Audit]:
    """All rows of a listing, once they are shown to be whole, then the audit.

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
        loaded: Counter[str] = Counter()
        for rows in spool.tables(sorted(wanted, key=lambda item: (readings[item[0]].page, item[0]))):
            loaded.update(rows_rejected=rows["id"].null_count, rows_yielded=rows.num_rows - rows["id"].null_count)
            yield Rows(job.listing.name, rows)
    notes = sum((outcome.notes[number] for number, _ in wanted), Notes())
    report(job.listing.name, outcome, loaded, notes)
    # Arrow keeps what decoding has freed, a hundred megabytes, which the destination's engine needs next
    pa.default_memory_pool().release_unused()
    yield Audit(job.listing.name, audit_row(job, outcome, loaded, notes))


def walk(job: Job, spool: Spool) -> Outcome:
    """Read the listing until it is shown to be whole, its rows into the spool."""
    settings, listing = job.settings, job.listing
    started_at, start = datetime.now(UTC), monotonic()
    throttle = Throttle(settings.max_workers, settings.requests_per_second)
    terms = Terms(listing.name, settings.proof, settings.max_walks)
    with (
        ThreadPoolExecutor(settings.max_workers, f"letters-{listing.name}") as pool,
        Client(settings.base_url, job.tokens, throttle, settings.retry_budget) as client,
    ):
        fetch = partial(fetch_page, job, client)
        reader = PageReader(listing.name, fetch, spool, pool, settings.max_workers, job.watch)
        verdict = walk_listing(reader.read, terms)
    return Outcome(verdict, reader.notes, client.traffic, started_at, monotonic() - start)


def fetch_page(job: Job, client: Client, page: int) -> Page:
    """One page of the listing, decoded."""
    params = encode_page(page, job.settings.page_size, job.filters)
    return client.get(job.listing, params, partial(decode_page, listing=job.listing.name, number=page))


def report(listing: str, outcome: Outcome, loaded: Counter[str], notes: Notes) -> None:
    """Say how it went in a line, and what was not understood in a line for each field."""
    logger.info(
        "%s: %d rows, %s; requests: %d, seconds: %.1f",
        listing,
        loaded["rows_yielded"],
        outcome.verdict.proof,
        outcome.traffic["requests"],
        outcome.seconds,
    )
    if loaded["rows_rejected"]:
        logger.warning("%s: %d rows have no usable id and went to rejected_rows", listing, loaded["rows_rejected"])
    for name, times in sorted(notes.kept.items()):
        logger.warning("%s: %s did not fit in %d rows and was kept in the column undocumented", listing, name, times)
    if notes.halves:
        logger.warning("%s: %d halves of surrogate pairs were replaced by U+FFFD", listing, notes.halves)
    for name, times in sorted(notes.numbers.items()):
        logger.warning("%s: %s came as a number in %d rows and was kept as its text", listing, name, times)


def audit_row(job: Job, outcome: Outcome, loaded: Counter[str], notes: Notes) -> pa.Table:
    """The listing's row of `listing_audit`."""
    readings, traffic = outcome.verdict.readings, outcome.traffic
    last_walk = [reading for reading in readings if reading.walk == readings[-1].walk]
    pages = {reading.page for reading in last_walk}
    received = sum(len(reading.keys) for reading in readings)
    row = {
        "listing": job.listing.name,
        "filters": json.dumps(dict(job.filters)) if job.filters else None,
        "account_id": job.settings.account_id,
        "environment": job.settings.environment,
        "verdict": outcome.verdict.proof,
        "count_first": readings[0].count,
        "count_last": max(readings, key=lambda reading: reading.answered).count,
        "rows_received": received,
        "rows_yielded": loaded["rows_yielded"],
        "duplicates_dropped": received - loaded.total(),
        "rows_rejected": loaded["rows_rejected"],
        "misfit_values": notes.misfits,
        "undocumented_fields": json.dumps(dict(sorted(notes.kept.items()))) if notes.kept else None,
        "walks": readings[-1].walk,
        "pages": len(pages),
        "page_size_asked": job.settings.page_size,
        "page_size_given": len(last_walk[0].keys) if len(pages) > 1 else None,
        **{name: traffic[name] for name in ("requests", "retries", "throttled")},
        "started_at": outcome.started_at,
        "seconds": outcome.seconds,
    }
    return pa.Table.from_pylist([row], LISTING_AUDIT.schema)
