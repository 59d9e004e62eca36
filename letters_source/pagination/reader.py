"""Read pages concurrently, and spool their rows until the listing is judged."""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from queue import SimpleQueue
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.page import Page
from letters_source.decode.row_schema import RAW, Notes
from letters_source.pagination.ends import Look, SeenEnd
from letters_source.pagination.readings import NUL, Reading, Window, all_keys
from letters_source.pagination.spool import Spool
from letters_source.service.throttle import Throttle

logger = logging.getLogger("letters_source")

ProgressCallback = Callable[[str, int, int, int], None]
"""Called for each response with the listing, the number of the pass, the rows in it, and the service's count."""
Span = tuple[float, float]
"""When a page was requested and when it was decoded, in seconds on the monotonic clock."""
Response = tuple[Reading, pa.Buffer | None, Notes]
"""A response's `Reading`, its serialized rows (None without a spool), and the decoder's notes."""


def no_progress(listing: str, walk: int, rows: int, count: int) -> None:
    """Ignore progress."""


def save_nothing(reading: Reading, batch: pa.Buffer, notes: Notes) -> None:
    """Save nothing for later loads."""


@dataclass(slots=True, kw_only=True)
class PageReader:
    """Reads as many pages at once as the throttle allows; spool, notes and readings are in order of arrival."""

    listing: str
    fetch: Callable[[Window], Page]
    look: Look
    spool: Spool | None
    pool: ThreadPoolExecutor
    throttle: Throttle
    progress: ProgressCallback
    treat: Callable[[pa.RecordBatch], pa.RecordBatch]  # applies the privacy policies
    save: Callable[[Reading, pa.Buffer, Notes], None] = save_nothing
    end: SeenEnd | None = None  # if counts are lower bounds
    notes: list[Notes] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=count)

    def read(self, windows: Iterable[Window], walk: int) -> Iterator[Reading]:
        """Yield the readings as they arrive; a window is taken only when it can be requested."""
        waiting, in_flight = iter(windows), 0
        # `concurrent.futures.wait` would go through all requests in flight for each response, under the GIL
        done: SimpleQueue[Future[tuple[Response, Span]]] = SimpleQueue()
        while True:
            for window in islice(waiting, max(0, self.throttle.limit - in_flight)):
                self.pool.submit(self.ask, window, walk).add_done_callback(done.put)
                in_flight += 1
            if not in_flight:
                return
            response, span = done.get().result()
            self.throttle.finished(*span, in_flight)
            in_flight -= 1
            yield self.keep(*response)

    def ask(self, window: Window, walk: int) -> tuple[Response, Span]:
        """Request and decode a page, and apply the privacy policies; also return when that began and ended."""
        began, asked = monotonic(), next(self.clock)
        page = self.fetch(window)
        batch = self.treat(page.rows).serialize() if self.spool else None
        reading = to_reading(page, window, walk, asked=asked, answered=next(self.clock))
        return (reading, batch, page.notes), (began, monotonic())

    def keep(self, reading: Reading, batch: pa.Buffer | None, notes: Notes) -> Reading:
        """Add a response, from the service or an earlier load, and return its reading."""
        if self.end:
            reading = self.end.counted(reading)
        if self.spool and batch:
            self.spool.append(batch)
            self.save(reading, batch, notes)
        self.notes.append(notes)
        self.readings.append(reading)
        rows = len(reading.keys)
        # windows of an earlier load count as those of the first pass
        self.progress(self.listing, reading.walk or 1, rows, reading.count)
        figures = reading.page, reading.walk, rows, reading.count
        logger.debug("%s page %d of pass %d: %d rows, count %d", self.listing, *figures)
        return reading


def to_reading(page: Page, window: Window, walk: int, *, asked: int, answered: int) -> Reading:
    """Return what a page tells about the listing, without its rows."""
    return Reading(
        page=window.page,
        walk=walk,
        count=page.count,
        keys=page_keys(page),
        rejected=page.rows["id"].null_count,
        asked=asked,
        answered=answered,
        size=window.size,
        places=page.places,
    )


def page_keys(page: Page) -> pa.Array:
    """Return what identifies each row of a page, known or not."""
    keys = row_keys(page.rows)
    return keys if page.known is None or page.places is None else all_keys(page.known.ids, page.places, keys)


def row_keys(rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """Return what identifies each row: its id, or NUL and the whole text of a row without a usable id."""
    ids = rows["id"]
    if not ids.null_count:
        return ids
    return pc.coalesce(ids, pc.binary_join_element_wise(NUL, rows[RAW], ""))
