"""A listing is read in pages of a size that works, and its rows come in order, after the verdict."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest

from letters_source.errors import (
    LettersError,
    ListingShrank,
    MalformedResponse,
    NotAuthorized,
    ServiceRejected,
    ServiceUnreachable,
    WrongCount,
)
from letters_source.extract.listing import fetch_page, read_ids, read_listing, rows_to_load, with_earlier
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.verdicts import Verdict
from letters_source.service.page_request import Decode, PageRequest, T
from letters_source.tables import LISTING_AUDIT
from pages import page_of
from rows_in_memory import RowsInMemory
from tasks import audit_with, task_from

TOO_LARGE = ServiceRejected("contacts: refused", status=413)
FALLBACK = "contacts: pages of 1000 rows fail. Requesting 100; set sources.letters.page_size to 100 to save the trial."


@dataclass(slots=True)
class Service:
    """A stand-in for a client: pages of contacts without HTTP, or an error for those of more rows than `most`."""

    rows: int
    error: LettersError | None = None
    most: int = 100
    asked: list[tuple[int, int, bool]] = field(default_factory=list)  # page, page size, whether on trial
    traffic: Counter[str] = field(default_factory=Counter)

    @property
    def ids(self) -> list[str]:
        """The ids of all contacts."""
        return [f"id{row}" for row in range(self.rows)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def get(self, request: PageRequest, decode: Decode[T]) -> T:
        """See `Client.get`."""
        page, size = request.page, request.page_size
        self.asked.append((page, size, request.is_trial))
        self.traffic["requests"] += 1
        if self.error and size > self.most:
            raise self.error
        rows = ({"id": id_} for id_ in self.ids[page * size :][:size])
        return decode(page_of(*rows, count=self.rows), request.listing.name, page)


def contacts(service: Service | None = None, **settings: Any) -> Task:
    """The task of reading all contacts with one worker."""
    return task_from(service or Service(0), **settings)


def reading(page: int, keys: str, size: int | None = None) -> Reading:
    """A response with one row per letter."""
    return Reading(page, 1, len(keys), pa.array(list(keys), pa.string()), 0, 0, 1, size)


def with_result(items: Generator[ListingRows | TableRows, None, int]) -> Iterator[ListingRows | TableRows | int]:
    """Yield the items of a reading, and then its return value."""
    yield (yield from items)


@pytest.mark.parametrize(("rows", "known"), [(1_001, True), (100, True), (99, False), (0, False)])
def test_a_large_page_that_succeeds_is_page_0(rows: int, *, known: bool) -> None:
    """A large page 0 takes one request; only one with more rows than a small page has shows that the size works."""
    service, task = Service(rows), contacts()
    page = fetch_page(task, service, Window(0))
    assert page.rows["id"].to_pylist() == service.ids[:1_000]
    assert service.asked == [(0, 1_000, True)]
    assert (task.page_size.rows, task.page_size.is_trial) == (1_000, not known)


@pytest.mark.parametrize(
    "error",
    [
        TOO_LARGE,
        ServiceUnreachable("contacts: no response", may_be_size=True),
        MalformedResponse("contacts: too large", is_too_large=True),
    ],
    ids=repr,
)
def test_a_small_page_is_requested_where_a_large_one_fails_by_its_size(
    error: LettersError, caplog: pytest.LogCaptureFixture
) -> None:
    """The small page is page 0, a warning says so, and later pages are small without a trial."""
    service, task = Service(250, error), contacts()
    assert fetch_page(task, service, Window(0)).rows["id"].to_pylist() == service.ids[:100]
    assert fetch_page(task, service, Window(2)).rows["id"].to_pylist() == service.ids[200:]
    assert fetch_page(task, service, Window(0)).rows["id"].to_pylist() == service.ids[:100]
    assert service.asked == [(0, 1_000, True), (0, 100, False), (2, 100, False), (0, 100, False)]
    assert caplog.messages == [FALLBACK]


@pytest.mark.parametrize(
    "error",
    [
        ServiceRejected("contacts: not found", status=404),
        ServiceUnreachable("contacts: no route"),
        MalformedResponse("contacts: not JSON"),
        NotAuthorized("contacts: refused the tokens", status=401),
    ],
    ids=repr,
)
def test_a_failure_for_another_reason_ends_the_trial(error: LettersError, caplog: pytest.LogCaptureFixture) -> None:
    """A failure that a smaller page would not prevent is raised as it is, and the next load tries again."""
    service, task = Service(250, error), contacts()
    with pytest.raises(type(error)) as caught:
        fetch_page(task, service, Window(0))
    assert caught.value is error
    assert service.asked == [(0, 1_000, True)]
    assert (task.page_size.rows, task.page_size.is_trial, caplog.messages) == (1_000, True, [])


def test_a_small_page_that_fails_too_shows_nothing_about_the_size(caplog: pytest.LogCaptureFixture) -> None:
    """The error of the small page is raised, and nothing is logged about large ones."""
    service, task = Service(250, TOO_LARGE, most=0), contacts()
    with pytest.raises(ServiceRejected) as caught:
        fetch_page(task, service, Window(0))
    assert caught.value is TOO_LARGE
    assert service.asked == [(0, 1_000, True), (0, 100, False)]
    assert (task.page_size.is_trial, caplog.messages) == (True, [])


@pytest.mark.parametrize(
    ("window", "settings", "asked"),
    [
        (Window(1), {}, (1, 1_000, False)),
        (Window(0, 50), {}, (0, 50, False)),
        (Window(0), {"page_size": 700}, (0, 700, False)),
    ],
)
def test_only_page_0_of_an_unknown_size_is_on_trial(
    window: Window, settings: dict[str, Any], asked: tuple[int, int, bool]
) -> None:
    """Later pages, windows with a size, and pages of a size that is set are no trial: their errors are raised."""
    service, task = Service(250, TOO_LARGE, most=0), contacts(**settings)
    with pytest.raises(ServiceRejected):
        fetch_page(task, service, window)
    assert service.asked == [asked]


def test_a_listing_yields_its_rows_in_order_and_then_its_audit() -> None:
    """Pages are read in any order; the last item is the audit, and the service's count is returned."""
    service = Service(35)
    batch, audit, count = with_result(read_listing(contacts(service, page_size=10), None, ()))
    assert count == 35
    assert [page for page, _, _ in service.asked] == [0, 3, 1, 2, 0, 3]
    assert isinstance(batch, ListingRows)
    assert (batch.listing, batch.rows["id"].to_pylist()) == ("contacts", service.ids)
    assert isinstance(audit, TableRows)
    assert audit.table == LISTING_AUDIT.name
    figures = audit.rows.select(["verdict", "rows_yielded", "requests", "duplicates_dropped"]).to_pylist()
    assert figures == [{"verdict": "stable", "rows_yielded": 35, "requests": 6, "duplicates_dropped": 15}]


def test_an_error_comes_before_any_row() -> None:
    """A listing that shrank is an error at the first step, though all its rows were read."""
    service = Service(35)
    with pytest.raises(ListingShrank):
        next(read_listing(contacts(service, page_size=10), None, [audit_with(rows_yielded=100)]))
    assert len(service.asked) == 6


CHANGING = audit_with(rows_yielded=305, verdict="continuous")
"""The audit of a load whose listing changed, after which small pages overlap from the start."""
IDS = [f"id{row:03}" for row in range(305)]


def test_gaps_from_rows_that_leave_while_overlapping_pages_are_read_are_repaired() -> None:
    """Where rows moved up further than pages overlap, those between are read, and no row that stayed is missed."""
    service = RowsInMemory({"": list(IDS)})

    def shrink(request: int) -> None:
        if request == 8:
            service.listed[""] = IDS[20:]

    service.before_answer = shrink
    *batches, audit = read_listing(task_from(service, page_size=30), None, [CHANGING])
    ids = [id_ for item in batches for id_ in item.rows["id"].to_pylist()]
    assert len(ids) == len(set(ids))
    assert set(ids) >= set(IDS[20:])
    [figures] = audit.rows.select(["verdict", "count_first", "count_last", "count_changes", "links_mended"]).to_pylist()
    assert tuple(figures.values()) == ("continuous", 305, 285, 1, 1)


@pytest.mark.parametrize(("request_number", "verdict"), [(3, "continuous"), (4, "exact")])
def test_a_listing_that_is_emptied_while_overlapping_pages_are_read_is_empty(request_number: int, verdict: str) -> None:
    """If all rows leave, none is loaded, whether that shows in the first overlapping page or in a later one."""
    service = RowsInMemory({"": list(IDS)})

    def empty(request: int) -> None:
        if request == request_number:
            service.listed[""] = []

    service.before_answer = empty
    batch, audit = read_listing(task_from(service, page_size=30, allow_empty=True), None, [CHANGING])
    assert batch.rows.num_rows == 0
    [figures] = audit.rows.select(["verdict", "count_first", "count_last", "rows_yielded"]).to_pylist()
    assert tuple(figures.values()) == (verdict, 305, 0, 0)


def test_a_listing_that_counts_too_many_rows_is_read_page_by_page_in_the_end() -> None:
    """If overlapping pages never reach the end by the count, passes without overlap show that the count is wrong."""
    service = RowsInMemory({"": IDS}, surplus=40)
    with pytest.raises(WrongCount) as caught:
        next(read_listing(task_from(service, page_size=30), None, [CHANGING]))
    assert caught.value.reason == "it counts 345 rows and lists 305, the same in two passes"


def test_ids_are_read_without_rows() -> None:
    """The ids of a listing are those to load, each once."""
    outcome, ids = read_ids(contacts(Service(35), page_size=10))
    assert sorted(ids.to_pylist()) == sorted(Service(35).ids)
    assert (outcome.count, outcome.verdict.name, outcome.traffic) == (35, "stable", Counter(requests=6))


def test_a_verdict_over_earlier_readings_loads_none_of_their_rows() -> None:
    """Readings from before those of the verdict are kept, for they took requests, and load nothing."""
    earlier, own = [reading(0, "ab"), reading(1, "c")], (reading(0, "abc"),)
    verdict = Verdict("exact", own, (True,), 1, 2)
    assert with_earlier([*earlier, *own], verdict) == Verdict("exact", (*earlier, *own), (False, False, True), 1, 2)
    assert with_earlier([*earlier, *own], verdict).rows == 3
    assert with_earlier(own, verdict) is verdict


def test_rows_to_load_are_in_the_order_of_the_listing() -> None:
    """Responses come in any order, and in pages of several sizes; those without rows to load are left out."""
    some = np.array([True, False])
    readings = (reading(2, "ef", 2), reading(0, "ab", 2), reading(0, "ab", 2), reading(1, "bcd", 3))
    verdict = Verdict("continuous", readings, (some, False, True, np.array([False] * 3)))
    assert rows_to_load(verdict) == [(2, True), (0, some)]
    without_sizes = Verdict("stable", (reading(1, "b"), reading(0, "a")), (True, True))
    assert rows_to_load(without_sizes) == [(1, True), (0, True)]
