"""How are a listing's pages read side by side, and its rows kept until the verdict?"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count, islice

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode import Page
from letters_source.evidence import NUL, Reading
from letters_source.shape import RAW, Notes
from letters_source.spool import Spool

logger = logging.getLogger("letters_source")


Watch = Callable[[str, int, int, int], None]
"""Told of each response: the listing, the number of the walk, the rows in it, the service's count."""


def ignore(listing: str, walk: int, rows: int, count: int) -> None:
    """The watch of who does not watch."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded page, its rows ready for the spool, and when it was asked for and answered, by the run's clock."""

    page: Page
    batch: pa.Buffer | None
    asked: int
    answered: int


@dataclass(slots=True)
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
        waiting = iter(pages)
        under_way: dict[Future[Answer], int] = {}
        while True:
            for page in islice(waiting, self.workers - len(under_way)):
                under_way[self.pool.submit(self._ask, page)] = page
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield self._keep(future.result(), under_way.pop(future), walk)

    def _ask(self, page: int) -> Answer:
        asked = next(self.clock)
        decoded = self.fetch(page)
        batch = self.treat(decoded.rows).serialize() if self.spool else None
        return Answer(decoded, batch, asked, next(self.clock))

    def _keep(self, answer: Answer, page: int, walk: int) -> Reading:
        rows, count = answer.page.rows, answer.page.count
        if self.spool and answer.batch:
            self.spool.append(answer.batch)
        self.notes.append(answer.page.notes)
        self.watch(self.listing, walk, rows.num_rows, count)
        logger.debug("%s page %d of walk %d: %d rows, count %d", self.listing, page, walk, rows.num_rows, count)
        return Reading(page, walk, count, row_keys(rows), rows["id"].null_count, answer.asked, answer.answered)


def row_keys(rows: pa.RecordBatch) -> pa.Array:
    """What tells rows apart: the id, or for a row without a usable one NUL and its whole text."""
    ids = rows["id"]
    if not ids.null_count:
        return ids
    return pc.coalesce(ids, pc.binary_join_element_wise(NUL, rows[RAW], ""))
