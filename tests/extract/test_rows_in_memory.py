"""The stand-in pages its rows, honors the filters that it lists, and raises the errors that it lists."""

import pytest

from letters_source.errors import ServiceRejected
from letters_source.extract.listing import fetch_page
from letters_source.pagination.readings import Window
from rows_in_memory import RowsInMemory
from tasks import task_from


def test_pages_are_cut_from_the_rows_of_the_filters() -> None:
    """Pages come from the rows of the request's filters, of all rows if it does not list them, with their count."""
    service = RowsInMemory({"": ["a", "b", {"id": "c", "city": "Bend"}], "search=x": ["b"]}, surplus=2)
    task = task_from(service, page_size=2)
    pages = [fetch_page(each, service, Window(1)) for each in (task, task.narrowed(tags=("4",)))]
    pages.append(fetch_page(task.narrowed(search="x"), service, Window(0)))
    ids = [page.rows["id"].to_pylist() for page in pages]
    assert (ids, [page.count for page in pages]) == ([["c"], ["c"], ["b"]], [5, 5, 3])
    assert pages[0].rows["city"].to_pylist() == ["Bend"]
    assert (service.queries, service.windows) == (["", "tags=[4]", "search=x"], [(1, 2), (1, 2), (0, 2)])
    assert service.traffic == {"requests": 3}


def test_errors_are_raised_for_their_filters() -> None:
    """An error that is listed for some filters is raised for them, after the request was noted."""
    refusal = ServiceRejected("refused")
    service, numbers = RowsInMemory({"": [], "search=x": refusal}), list[int]()
    service.before_answer = numbers.append
    task = task_from(service, page_size=2)
    assert fetch_page(task, service, Window(0)).count == 0
    with pytest.raises(ServiceRejected) as caught:
        fetch_page(task.narrowed(search="x"), service, Window(0))
    assert caught.value is refusal
    assert (service.queries, numbers) == (["", "search=x"], [1, 2])


def test_a_client_counts_its_own_requests() -> None:
    """Each client of a load counts its own requests; the stand-in notes those of all."""
    service = RowsInMemory({"": "ab"})
    task = task_from(service, page_size=2)
    clients = [task.context.client() for _ in range(2)]
    for client in (clients[0], *clients):
        with client as entered:
            assert fetch_page(task, entered, Window(0)).count == 2
    assert [client.traffic for client in clients] == [{"requests": 2}, {"requests": 1}]
    assert len(service.asked) == 3
