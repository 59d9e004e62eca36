"""How is one listing read: from its settings to rows shown to be whole, and the audit of how it went?"""

import logging
import os
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Semaphore
from time import monotonic

import numpy as np
import pyarrow as pa

from letters_source.decode.page import Page, decode_page
from letters_source.decode.row_schema import Notes, row_schema
from letters_source.extract.audit import Audit, Loaded, Outcome, audit_row, log_outcome
from letters_source.extract.shrinkage import check_shrinking
from letters_source.extract.task import Job
from letters_source.pagination.reader import PageReader
from letters_source.pagination.spool import Spool
from letters_source.pagination.walk import Terms, walk_listing
from letters_source.service.client import Client
from letters_source.service.listings import Listing, encode_page, page_title

# more pages decoded at once than there are cores to use wait for one another, and a walk takes a tenth longer
CORES = Semaphore(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

logger = logging.getLogger("letters_source")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a listing that was shown to be whole, in its row shape."""

    listing: str
    rows: pa.Table


def read_listing(job: Job, folder: Path | None, before: int) -> Generator[Rows | Audit, None, int]:
    """All rows of a listing, once they are shown to be whole, then the audit; returns the service's count.

    Args:
        job: what to read.
        folder: where rows wait for the verdict; the system's folder for temporary files when None.
        before: how many rows with an id the last load had.

    Raises:
        LettersError: as `Client.get`, `walk_listing` and `check_shrinking` do; no row has been yielded then.
    """
    with Spool(row_schema(job.listing.name), folder) as spool:
        outcome = read_until_whole(job, spool)
        verdict = outcome.verdict
        rejected = verdict.rejected
        accepted = verdict.rows - rejected
        check_shrinking(job, before, accepted)
        wanted = [(number, rows) for number, rows in enumerate(verdict.keep) if np.any(rows)]
        for rows in ahead(spool.tables(sorted(wanted, key=lambda item: (verdict.readings[item[0]].page, item[0])))):
            yield Rows(job.listing.name, rows)
    loaded = Loaded(accepted, rejected, sum((outcome.notes[number] for number, _ in wanted), Notes()))
    log_outcome(job, outcome, loaded)
    # Arrow keeps what decoding has freed, a hundred megabytes, which the destination's engine needs next
    pa.default_memory_pool().release_unused()
    yield Audit(audit_row(job, outcome, loaded))
    return outcome.count


def ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The tables, each gathered while the one before is written."""
    with ThreadPoolExecutor(1, "letters-ahead") as pool:
        upcoming = pool.submit(next, tables, None)
        while (table := upcoming.result()) is not None:
            upcoming = pool.submit(next, tables, None)
            yield table


def read_until_whole(job: Job, spool: Spool | None = None) -> Outcome:
    """Read the listing until it is shown to be whole, its rows into the spool; without one, for the ids alone."""
    settings = job.settings
    started_at, start = datetime.now(UTC), monotonic()
    terms = Terms(job.title, settings.proof, settings.max_walks)
    with (
        ThreadPoolExecutor(settings.max_workers, f"letters-{job.name}") as pool,
        Client(settings.base_url, job.tokens, job.throttle, settings.retry_budget) as client,
    ):
        fetch = partial(fetch_page, job, client)
        treat = partial(settings.privacy.treat, listing=job.listing.name)
        reader = PageReader(
            listing=job.title,
            fetch=fetch,
            spool=spool,
            pool=pool,
            workers=settings.max_workers,
            watch=job.watch,
            treat=treat,
        )
        verdict = walk_listing(reader.read, terms)
    return Outcome(verdict, reader.notes, client.traffic, started_at, monotonic() - start)


def fetch_page(job: Job, client: Client, page: int) -> Page:
    """Return one page of the listing."""
    params = encode_page(page, job.settings.page_size, job.filters.encode(job.settings.form))
    return fetch(client, job.listing, params, page)


def fetch(client: Client, listing: Listing, params: Mapping[str, str], page: int) -> Page:
    """Get a page and decode it; the client's retries go around both."""
    return client.retry(page_title(listing.name, page), partial(get_page, client, listing, params, page))


def get_page(client: Client, listing: Listing, params: Mapping[str, str], page: int) -> Page:
    """Get a page once, and decode it as soon as a core is free."""
    body = client.get(listing, params)
    with CORES:
        return decode_page(body, listing.name, page)
