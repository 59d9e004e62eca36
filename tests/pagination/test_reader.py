"""Pages are read in parallel within bounds; spool, notes and readings stay aligned."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event, Lock

import pyarrow as pa
import pytest

from letters_source.decode.page import Page, decode_page
from letters_source.decode.row_schema import Notes, row_schema
from letters_source.errors import ServiceRejected
from letters_source.pagination.reader import PageReader, no_progress, row_keys
from letters_source.pagination.readings import Window
from letters_source.pagination.spool import Spool
from letters_source.service.throttle import Throttle
from pages import page_of

Seen = list[tuple[int, int, int]]
Treat = Callable[[pa.RecordBatch], pa.RecordBatch]


def pages(*numbers: int) -> list[Window]:
    """The pages with these numbers."""
    return list(map(Window, numbers))


def fetch(page: int) -> Page:
    """A page of two rows that contain its number; odd pages have an undocumented field."""
    rows = [{"id": f"{page}a", **({"x": page} if page % 2 else {})}, {"id": f"{page}b"}]
    return decode_page(page_of(*rows, count=99), "contacts", page)


def leave(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Change nothing in the rows."""
    return rows


@contextmanager
def reader(
    fetch_page: Callable[[int], Page], workers: int, seen: Seen | None = None, treat: Treat = leave
) -> Iterator[PageReader]:
    """A reader with a spool and workers of its own."""
    figures: Seen = [] if seen is None else seen

    def watch(listing: str, walk: int, rows: int, count: int) -> None:
        assert listing == "contacts"
        figures.append((walk, rows, count))

    with Spool(row_schema("contacts")) as spool, ThreadPoolExecutor(workers) as pool:
        yield PageReader(
            listing="contacts",
            fetch=lambda window: fetch_page(window.page),
            spool=spool,
            pool=pool,
            look=lambda _page: None,
            throttle=Throttle(workers),
            progress=watch,
            treat=treat,
        )


def spool_of(read: PageReader) -> Spool:
    """The reader's spool."""
    assert read.spool is not None
    return read.spool


def test_readings_notes_and_spool_stay_aligned() -> None:
    """The n-th reading, note and batch belong to the same response, whichever page came first."""
    late = Event()

    def first_comes_last(page: int) -> Page:
        if page == 0:
            late.wait()
        elif page == 3:
            late.set()
        return fetch(page)

    with reader(first_comes_last, 2) as read:
        readings = list(read.read(pages(*range(4)), 1))
        assert readings[0].page == 1
        assert sorted(reading.page for reading in readings) == [0, 1, 2, 3]
        assert [note.kept["x"] for note in read.notes] == [reading.page % 2 for reading in readings]
        (table,) = spool_of(read).tables([(number, True) for number in range(4)])
        assert table["id"].to_pylist() == [f"{reading.page}{row}" for reading in readings for row in "ab"]


def test_a_page_is_made_ready_for_the_spool_by_its_worker() -> None:
    """The worker returns the reading, the rows as bytes for the spool, and the notes."""
    with reader(fetch, 1) as read:
        ((first, batch, notes), _), ((second, later, _), _) = read.ask(Window(3), 1), read.ask(Window(4), 1)
        ticks = [(reading.asked, reading.answered) for reading in (first, second)]
        assert ticks == [(0, 1), (2, 3)]
        assert notes == Notes(Counter(["x"]))
        assert batch is not None
        assert later is not None
        assert pa.ipc.read_record_batch(batch, row_schema("contacts")).equals(fetch(3).rows)
        spool_of(read).append(later)
        assert spool_of(read).read(0).equals(fetch(4).rows)
    assert read.notes == []


def test_rows_are_treated_before_they_reach_the_spool() -> None:
    """Rows in the spool are treated; keys, counts and notes are of the page as it came."""

    def without_ids(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.set_column(0, rows.schema.field(0), pa.nulls(rows.num_rows, pa.string()))

    with reader(fetch, 1, treat=without_ids) as read:
        (reading,) = read.read(pages(3), 1)
        assert spool_of(read).read(0).equals(without_ids(fetch(3).rows))
    assert (reading.keys.to_pylist(), reading.count, reading.rejected) == (["3a", "3b"], 99, 0)
    assert read.notes == [Notes(Counter(["x"]))]


def test_a_reader_without_a_spool_keeps_no_rows() -> None:
    """A reader without a spool keeps keys and notes, and neither treats nor serializes rows."""

    def never(rows: pa.RecordBatch) -> pa.RecordBatch:
        raise AssertionError

    with ThreadPoolExecutor(1) as pool:
        read = PageReader(
            listing="contacts",
            fetch=lambda window: fetch(window.page),
            spool=None,
            pool=pool,
            look=lambda _page: None,
            throttle=Throttle(1),
            progress=no_progress,
            treat=never,
        )
        assert read.ask(Window(0), 1)[0][1] is None
        (reading,) = read.read(pages(1), 1)
    assert reading.keys.to_pylist() == ["1a", "1b"]
    assert read.notes == [Notes(Counter(["x"]))]


def test_a_reading_has_what_the_page_proves() -> None:
    """A reading has the page, walk, count, keys, rejected rows, and the ticks of request and answer."""
    seen: Seen = []
    with reader(fetch, 1, seen) as read:
        first, second = read.read(pages(5, 6), 2)
        (third,) = read.read(pages(5), 3)
    found = [(r.page, r.walk, r.count, r.rejected, r.asked, r.answered) for r in (first, second, third)]
    assert found == [(5, 2, 99, 0, 0, 1), (6, 2, 99, 0, 2, 3), (5, 3, 99, 0, 4, 5)]
    assert first.keys.to_pylist() == ["5a", "5b"]
    assert seen == [(2, 2, 99), (2, 2, 99), (3, 2, 99)]
    assert read.notes == [Notes(Counter(["x"])), Notes(), Notes(Counter(["x"]))]


def test_no_pages_are_no_readings() -> None:
    """A reader without pages to read returns no readings."""
    with reader(fetch, 3) as read:
        assert list(read.read(pages(), 1)) == []


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_as_many_pages_are_under_way_as_there_are_workers(workers: int) -> None:
    """All workers are busy at once, which the barrier requires, and never one more."""
    together, lock, under_way, most = Barrier(workers, timeout=10), Lock(), 0, 0

    def count_under_way(page: int) -> Page:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait()
        with lock:
            under_way -= 1
        together.wait()
        return fetch(page)

    with reader(count_under_way, workers) as read:
        assert len(list(read.read(pages(*range(4 * workers)), 1))) == 4 * workers
    assert most == workers


def test_a_page_number_is_taken_only_when_a_worker_is_free() -> None:
    """A reader takes a page from the plan only when a worker is free, because the plan may change."""
    taken: list[int] = []

    def plan() -> Iterator[Window]:
        for page in range(5):
            taken.append(page)
            yield Window(page)

    with reader(fetch, 2) as read:
        readings = read.read(plan(), 1)
        assert taken == []
        next(readings)
        assert taken == [0, 1]
        assert len(list(readings)) == 4


def test_a_failing_page_ends_the_reading() -> None:
    """The error of a failing page is raised, and no further page is requested."""
    asked: list[int] = []

    def third_fails(page: int) -> Page:
        asked.append(page)
        if page == 2:
            raise ServiceRejected("contacts page 2: refused")
        return fetch(page)

    with reader(third_fails, 1) as read:
        readings = read.read(pages(*range(10)), 1)
        with pytest.raises(ServiceRejected, match=r"^contacts page 2: refused$"):
            list(readings)
    assert asked == [0, 1, 2]
    assert len(read.notes) == 2


def test_rows_are_distinguished_by_id_or_by_their_whole_text() -> None:
    """The key of a row without a usable id is NUL and its text, which cannot be an id."""
    rows = decode_page(page_of({"id": "1"}, {"id": None}, None, {"id": 2}), "contacts", 0).rows
    assert row_keys(rows).to_pylist() == ["1", '\x00{"id": null}', "\x00null", "2"]
    assert row_keys(fetch(0).rows).equals(pa.array(["0a", "0b"]))


def test_rejected_rows_are_counted_in_their_reading() -> None:
    """A reading counts rejected rows both as rejected and as rows of the listing."""
    with reader(lambda page: decode_page(page_of({"id": "1"}, {"id": None}), "contacts", page), 1) as read:
        (reading,) = read.read(pages(0), 1)
    assert (reading.rejected, len(reading.keys), reading.count) == (1, 2, 2)
