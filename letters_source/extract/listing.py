"""Read one listing until it is proven complete, then yield its rows and the audit."""

import logging
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.page import Page, decode_page
from letters_source.decode.row_schema import Notes, row_schema
from letters_source.errors import LettersError
from letters_source.extract.audit import Outcome, audit_row, log_outcome
from letters_source.extract.shrinkage import check_shrinking
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.pagination.completeness import Reading, Window, has_no_id
from letters_source.pagination.reader import PageReader
from letters_source.pagination.spool import Spool
from letters_source.pagination.walk import Verdict, walk_listing
from letters_source.service.client import Client
from letters_source.service.listings import Listing, encode_page, page_title

logger = logging.getLogger("letters_source")

# decoding holds the GIL: pages decoded at once wait for each other, and a pass takes a quarter longer
ONE_AT_A_TIME = Lock()


def read_listing(task: Task, folder: Path | None, before: int) -> Generator[ListingRows | TableRows, None, int]:
    """Yield all rows of a complete listing, then its audit; return the service's count. Errors come before any row.

    Rows wait for the verdict in `folder`; `before` is how many rows with an id the last load had.
    """
    with Spool(row_schema(task.listing.name), folder) as spool:
        outcome = read_until_whole(task, spool)
        verdict = outcome.verdict
        accepted = verdict.rows - verdict.rejected
        check_shrinking(task, before, accepted)
        wanted = [(number, rows) for number, rows in enumerate(verdict.keep) if np.any(rows)]
        for rows in spool.tables(sorted(wanted, key=lambda item: (offset_of(verdict.readings[item[0]]), item[0]))):
            yield ListingRows(task.listing.name, rows)
    log_outcome(outcome, accepted)
    # Arrow keeps memory freed by decoding, about 100 MB, which the destination's engine needs next
    pa.default_memory_pool().release_unused()
    yield audit_row(outcome, accepted)
    return outcome.count


def offset_of(reading: Reading) -> int:
    """Return what orders the responses of a verdict: offsets where page sizes differ, otherwise page numbers."""
    return reading.page * (reading.size or 1)


def read_ids(task: Task) -> tuple[Outcome, pa.ChunkedArray]:
    """Read a listing for its ids alone: return how that went, and the ids of all rows that have one."""
    outcome = read_until_whole(task)
    verdict = outcome.verdict
    wanted = (
        reading.keys.filter(pa.array(np.broadcast_to(rows, len(reading.keys))))
        for reading, rows in zip(verdict.readings, verdict.keep, strict=True)
    )
    keys = pa.chunked_array(wanted, pa.string())
    ids = keys.filter(pc.invert(has_no_id(keys)))
    log_outcome(outcome, len(ids), "were left out")
    return outcome, ids


def read_until_whole(task: Task, spool: Spool | None = None) -> Outcome:
    """Read the listing until it is proven complete; rows go to the spool, and without one only their ids are read."""
    settings = task.settings
    started_at, start = datetime.now(UTC), monotonic()
    with (
        ThreadPoolExecutor(settings.max_workers, f"letters-{task.name}") as pool,
        Client(settings.base_url, task.tokens, task.throttle, settings.retry_budget) as client,
    ):
        try:
            verdict, notes = read_pages(task, client, pool, spool)
        except LettersError as error:
            if not task.page_size.shrink(error):
                raise
            logger.warning("%s Reading pages of %d rows instead.", error, task.page_size.rows)
            verdict, notes = read_pages(task, client, pool, spool)
    return Outcome(task, verdict, notes, client.traffic, started_at, monotonic() - start)


def read_pages(task: Task, client: Client, pool: ThreadPoolExecutor, spool: Spool | None) -> tuple[Verdict, Notes]:
    """Read pages of one size until the listing is proven complete; return also the notes on the rows to load."""
    settings = task.settings
    if spool:
        spool.clear()
    reader = PageReader(
        listing=task.title,
        fetch=partial(fetch_page, task, client),
        spool=spool,
        pool=pool,
        throttle=task.throttle,
        progress=task.progress,
        treat=partial(settings.privacy.treat, listing=task.listing.name),
    )
    verdict = walk_listing(reader.read, task.title, settings.proof, settings.max_walks, settings.duplicates)
    kept = (notes for notes, rows in zip(reader.notes, verdict.keep, strict=True) if spool and np.any(rows))
    return verdict, sum(kept, Notes())


def fetch_page(task: Task, client: Client, window: Window) -> Page:
    """Return one page of the listing."""
    size = window.size or task.page_size.rows
    params = encode_page(window.page, size, task.filters.encode(task.settings.form))
    return fetch(client, task.listing, params, window.page)


def fetch(client: Client, listing: Listing, params: Mapping[str, str], page: int) -> Page:
    """Get a page and decode it; the client's retries go around both."""

    def get_page() -> Page:
        body = client.get(listing, params)
        with ONE_AT_A_TIME:
            return decode_page(body, listing.name, page)

    return client.retry(page_title(listing.name, page), get_page)
