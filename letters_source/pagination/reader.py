"""How are a listing's pages read side by side, and its rows kept until the verdict?"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from queue import SimpleQueue

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.page import Page
from letters_source.decode.row_schema import RAW, Notes
from letters_source.pagination.completeness import NUL, Reading
from letters_source.pagination.spool import Spool

logger = logging.getLogger("letters_source")


Watch = Callable[[str, int, int, int], None]
"""Told of each response: the listing, the number of the walk, the rows in it, the service's count."""


def ignore(listing: str, walk: int, rows: int, count: int) -> None:
    """The watch of who does not watch."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a response proves, its rows as the spool takes them, and what decoding noticed."""

    reading: Reading
    batch: pa.Buffer | None
    notes: Notes


@dataclass(slots=True, kw_only=True)
class PageReader:
    """Reads pages with a bounded number of workers; their rows go to the spool, if there is one, in order of arrival.

    `treat` takes from the rows what must not be written.

    `notes` holds what decoding noticed in each response, in the same order.
    """

    listing: str
    fetch: Callable[[int], Page]
    spool: Spool | None
    pool: ThreadPoolExecutor
    workers: int
    watch: Watch
    treat: Callable[[pa.RecordBatch], pa.RecordBatch]
    notes: list[Notes] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=count)

    def read(self, pages: Iterable[int], walk: int) -> Iterator[Reading]:
        """The readings of pages, as they come; a page number is taken only when a worker is free for it."""
        waiting, under_way = iter(pages), 0
        # `concurrent.futures.wait` would go through all requests under way for each answer, under Python's lock
        done: SimpleQueue[Future[Answer]] = SimpleQueue()
        while True:
            for page in islice(waiting, self.workers - under_way):
                self.pool.submit(self._ask, page, walk).add_done_callback(done.put)
                under_way += 1
            if not under_way:
                return
            answer = done.get().result()
            under_way -= 1
            yield self._keep(answer)

    def _ask(self, page: int, walk: int) -> Answer:
        asked = next(self.clock)
        decoded = self.fetch(page)
        rows = decoded.rows
        batch = self.treat(rows).serialize() if self.spool else None
        keys, rejected = row_keys(rows), rows["id"].null_count
        reading = Reading(page, walk, decoded.count, keys, rejected, asked, next(self.clock))
        return Answer(reading, batch, decoded.notes)

    def _keep(self, answer: Answer) -> Reading:
        reading = answer.reading
        if self.spool and answer.batch:
            self.spool.append(answer.batch)
        self.notes.append(answer.notes)
        rows = len(reading.keys)
        self.watch(self.listing, reading.walk, rows, reading.count)
        logger.debug(
            "%s page %d of walk %d: %d rows, count %d", self.listing, reading.page, reading.walk, rows, reading.count
        )
        return reading


def row_keys(rows: pa.RecordBatch) -> pa.Array:
    """What tells rows apart: the id, or for a row without a usable one NUL and its whole text."""
    ids = rows["id"]
    if not ids.null_count:
        return ids
    return pc.coalesce(ids, pc.binary_join_element_wise(NUL, rows[RAW], ""))
