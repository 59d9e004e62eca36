"""Read one listing until it is proven complete, then yield its rows and the audit."""

import logging
import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.known import NO_IDS, Known
from letters_source.decode.page import Page, decode_changes, decode_page
from letters_source.decode.row_schema import DIGEST, Notes, row_schema
from letters_source.errors import ListingShrank, ServiceError
from letters_source.extract.audit import Outcome, audit_row, check_fields, log_fields, log_outcome
from letters_source.extract.past_end import PAST_END, look_past
from letters_source.extract.saved import SavedWindows, continue_listing, open_saved, saved_file
from letters_source.extract.task import ListingRows, Superseded, TableRows, Task
from letters_source.pagination.ends import SeenEnd, Shown, ends_as_counted, full_page
from letters_source.pagination.reader import PageReader, save_nothing
from letters_source.pagination.readings import Mask, Reading, Window, has_no_id, wanted_keys
from letters_source.pagination.spool import Spool
from letters_source.pagination.verdicts import Verdict, incomplete
from letters_source.pagination.walk import walk_listing
from letters_source.results import Audit
from letters_source.service.listings import given
from letters_source.service.pacing import FEW_ROWS, MANY_ROWS
from letters_source.service.page_request import Decode, PageClient
from letters_source.service.responses import may_be_size
from letters_source.telemetry import counting, span

logger = logging.getLogger("letters_source")

# contacts stop matching these filters when they are mailed or verified, so fewer rows are normal
PASSING = {"address_status", "last_mailed_status", "last_mailed_from", "last_mailed_to"}


def read_listing(
    task: Task, folder: Path | None, audits: Sequence[Audit], known: Known | None = None
) -> Generator[ListingRows | TableRows, None, int]:
    """Yield all rows of a complete listing, then its audit; return the service's count. Errors come before any row.

    Rows wait for the verdict in `folder`; `audits` are those of the dataset's earlier loads, newest first. Rows that
    are `known` are not yielded; instead, follow the ids of the rows that they supersede.
    """
    with ExitStack() as stack:
        schema = row_schema(task.listing.name)
        spool = stack.enter_context(Spool(schema.append(DIGEST) if known else schema, folder))
        saved = None
        # two passes prove a listing exact, and a gap between them helps nothing
        if folder and task.settings.resume and task.settings.proof != "exact":
            saved = stack.enter_context(open_saved(task, saved_file(folder, task.name), audits, known))
        outcome = read_until_whole(task, spool, saved, known, expects_change=has_changed(audits))
        loaded = check_outcome(outcome, audits)
        for rows in spool.tables(rows_to_load(outcome.verdict)):
            yield ListingRows(task.listing.name, rows, None if known else supersede_listed(task, rows["id"]))
        if known:
            superseded = supersede_known(task, known, outcome.verdict)
            yield ListingRows(task.listing.name, spool.schema.empty_table(), superseded)
        yield finished(outcome, loaded, audits)
        return outcome.count


def check_outcome(outcome: Outcome, audits: Sequence[Audit]) -> int:
    """Return how many rows of a complete listing are accepted; raise if it shrank too much or has forbidden fields."""
    accepted = outcome.verdict.rows - outcome.verdict.rejected
    check_shrinking(outcome.task, rows_before(outcome.task, audits), accepted)
    check_fields(outcome.task, outcome.notes)
    return accepted


def rows_to_load(verdict: Verdict) -> list[tuple[int, Mask | bool]]:
    """Return the numbers of the responses with rows to load, in the order of the listing, and which rows."""
    spooled = (
        rows if reading.places is None or isinstance(rows, bool) else rows[reading.places < 0]
        for reading, rows in zip(verdict.readings, verdict.keep, strict=True)
    )
    wanted = [(number, rows) for number, rows in enumerate(spooled) if np.any(rows)]
    return sorted(wanted, key=lambda item: (offset_of(verdict.readings[item[0]]), item[0]))


def finished(outcome: Outcome, loaded: int, audits: Sequence[Audit]) -> TableRows:
    """Log a listing whose rows were all yielded, free the memory they took, and return its audit."""
    log_outcome(outcome, loaded)
    log_fields(outcome.task, outcome.notes, audits)
    # Arrow keeps memory freed by decoding, about 100 MB, which the destination's engine needs next
    pa.default_memory_pool().release_unused()
    return audit_row(outcome, loaded)


def offset_of(reading: Reading) -> int:
    """Return the sort key of a verdict's responses: offsets if page sizes differ, otherwise page numbers."""
    return reading.page * (reading.size or 1)


def read_ids(task: Task, level: int = logging.INFO) -> tuple[Outcome, pa.ChunkedArray]:
    """Read only the ids of a listing; return the outcome, which is logged, and the ids, without rows that have none."""
    outcome = read_until_whole(task)
    ids = listed_ids(outcome.verdict)
    log_outcome(outcome, len(ids), "left out", level)
    return outcome, ids


def listed_ids(verdict: Verdict) -> pa.ChunkedArray:
    """Return the ids of the rows to load, known or not."""
    keys = wanted_keys(verdict.readings, verdict.keep)
    return keys.filter(pc.invert(has_no_id(keys)))


def supersede_known(task: Task, known: Known, verdict: Verdict) -> Superseded:
    """Return the ids of known rows that were read anew, and of those that are gone."""
    is_gone, fresh = np.ones(len(known.ids), np.bool_), [NO_IDS]
    for reading, rows in zip(verdict.readings, verdict.keep, strict=True):
        if reading.places is not None and np.any(rows):
            is_known = reading.places >= 0
            is_gone[reading.places[is_known & rows]] = False
            fresh.append(reading.keys.filter(pa.array(~is_known & rows)))
    is_changed = pc.is_in(known.ids, pa.chunked_array(fresh)).to_numpy(zero_copy_only=False)
    is_gone &= ~is_changed
    changed = known.ids.filter(pa.array(is_changed))
    if keeps_unlisted(task):
        return Superseded(changed, NO_IDS, listed_ids(verdict).combine_chunks())
    return Superseded(changed, known.ids.filter(pa.array(is_gone)), NO_IDS)


def supersede_listed(task: Task, ids: pa.ChunkedArray) -> Superseded | None:
    """Return the ids of listed rows, if a load keeps the rows that it does not find."""
    listed = ids.drop_null().combine_chunks()
    return Superseded(listed, NO_IDS, listed) if keeps_unlisted(task) else None


def keeps_unlisted(task: Task) -> bool:
    """Return whether a load keeps rows that it does not find: with history, those that filters leave out."""
    return task.settings.mode == "history" and bool(given(task.filters))


def has_changed(audits: Sequence[Audit]) -> bool:
    """Return whether the listing changed while the last load read it, by its audits, newest first."""
    return bool(audits) and (bool(audits[0].get("count_changes")) or audits[0]["verdict"] == "continuous")


def read_until_whole(
    task: Task,
    spool: Spool | None = None,
    saved: SavedWindows | None = None,
    known: Known | None = None,
    *,
    expects_change: bool = False,
) -> Outcome:
    """Read the listing until it is proven complete; write the rows to the spool, or keep only ids if there is none.

    Windows in `saved` are used if possible, and new ones are added to it. `expects_change` as in `walk_listing`.
    """
    began, start = datetime.now(UTC), monotonic()
    with open_reader(task, spool, saved, known, saved.rows_counted if saved else 0) as (reader, traffic):
        verdict = continue_listing(task, saved, reader, spool) if saved and spool else None
        verdict = read_to_end(task, reader, verdict, expects_change=expects_change)
    # not before the listing is read: what was saved may have to be read again
    started_at = saved.origin.started_at if saved else began
    kept = (notes for notes, rows in zip(reader.notes, verdict.keep, strict=True) if spool and np.any(rows))
    stated = reader.end.stated if reader.end else None
    return Outcome(task, verdict, sum(kept, Notes()), traffic, started_at, monotonic() - start, stated)


def read_to_end(task: Task, reader: PageReader, verdict: Verdict | None, *, expects_change: bool) -> Verdict:
    """Return the verdict of a listing whose end was seen; read it, again if rows came past its end meanwhile.

    `verdict` is that of a listing that was continued.
    """
    settings = task.settings
    is_exact = settings.count == "exact"
    for _ in range(settings.max_walks):
        verdict = verdict or walk_listing(reader.read, task.title, settings.wanted, expects_change=expects_change)
        if ends_as_counted(task.title, shown_by(task, verdict), reader.look, is_exact=is_exact):
            return with_earlier(reader.readings, verdict)
        verdict = None
    raise incomplete(task.title, PAST_END, reader.readings)


def shown_by(task: Task, verdict: Verdict) -> Shown:
    """Return what was read for a verdict."""
    first = next(reading for reading in reversed(verdict.readings) if reading.window == Window(0))
    page_size = full_page(len(first.keys), first.count, task.page_size.rows)
    return Shown(verdict.readings, verdict.keep, page_size)


def with_earlier(readings: Sequence[Reading], verdict: Verdict) -> Verdict:
    """Return the verdict over all readings; no rows are loaded of those before its own."""
    before = len(readings) - len(verdict.readings)
    return replace(verdict, readings=tuple(readings), keep=(*[False] * before, *verdict.keep)) if before else verdict


@contextmanager
def open_reader(
    task: Task,
    spool: Spool | None = None,
    saved: SavedWindows | None = None,
    known: Known | None = None,
    rows: int = 0,
) -> Iterator[tuple[PageReader, Counter[str]]]:
    """Yield a reader of the listing's pages, which adds them to `saved`, and what it counts: requests and retries.

    `rows` is how many rows the listing had before; only a count that is a lower bound may be lower.
    """
    settings = task.settings
    client = task.context.client()
    look = partial(look_past, task, client)
    with (
        span("listing", listing=task.name),
        counting(client.traffic, listing=task.name),
        ThreadPoolExecutor(settings.max_workers, f"letters-{task.name}") as pool,
        client,
    ):
        reader = PageReader(
            listing=task.title,
            fetch=partial(fetch_page, task, client, decode=partial(decode_changes, known) if known else decode_page),
            look=look,
            spool=spool,
            pool=pool,
            throttle=task.context.throttle,
            progress=task.context.progress,
            treat=partial(settings.privacy.treat, listing=task.listing.name),
            save=saved.save if saved else save_nothing,
            clock=saved.clock() if saved else count(),
            end=SeenEnd(task.title, look, task.page_size, rows) if settings.count == "at_least" else None,
        )
        yield reader, client.traffic


def fetch_page(task: Task, client: PageClient, window: Window, decode: Decode[Page] = decode_page) -> Page:
    """Return one page of the listing; page 0, which is read first and alone, finds the page size."""
    if window == Window(0) and task.page_size.is_trial:
        return find_page_size(task, client, decode)
    return client.get(task.request(window.page, window.size or task.page_size.rows), decode)


def find_page_size(task: Task, client: PageClient, decode: Decode[Page]) -> Page:
    """Return page 0, a small one if the service cannot serve a large one; the task keeps the size that works."""
    try:
        page = client.get(task.request(0, task.page_size.rows, is_trial=True), decode)
    except ServiceError as error:
        if not may_be_size(error):
            raise
    else:
        # a page with few rows does not show that full pages work
        if page.length >= FEW_ROWS:
            task.page_size.settle(works=True)
        return page
    page = fetch_page(task, client, Window(0, FEW_ROWS), decode)
    # only the success of the small page shows that size was the reason
    task.page_size.settle(works=False)
    message = "%s: pages of %d rows fail. Requesting %d; set sources.letters.page_size to %d to save the trial."
    logger.warning(message, task.title, MANY_ROWS, FEW_ROWS, FEW_ROWS)
    return page


def rows_before(task: Task, audits: Sequence[Audit]) -> int:
    """Return how many rows with an id the last load had, by its audits, newest first; 0 if they cannot be compared."""
    # history with filters keeps rows that the filters no longer return
    if not audits or PASSING & given(task.filters).keys() or keeps_unlisted(task):
        return 0
    return int(audits[0]["rows_yielded"])


def check_shrinking(task: Task, before: int, now: int) -> None:
    """Raise ListingShrank if the listing lost all its rows, or a larger share than `max_shrink`."""
    settings = task.settings
    if before and not now and not settings.allow_empty:
        raise ListingShrank(task.title, before, now, "turn on $allow_empty")
    lost = (before - now) / before if before else 0
    if now and lost > settings.max_shrink:
        share = math.ceil(lost * 100) / 100
        remedy = f"set $max_shrink, now {settings.max_shrink:g}, to {share:g}"
        raise ListingShrank(task.title, before, now, remedy)
