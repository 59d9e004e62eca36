"""What a look past the end of a listing tells, whatever the service answers."""

import logging

import pytest

from letters_source.errors import LettersError, MalformedResponse, NotAuthorized, ServiceRejected, ServiceUnreachable
from letters_source.extract.past_end import look_past
from rows_in_memory import RowsInMemory
from tasks import task_from


def test_a_page_past_the_end_tells_its_ids_and_count() -> None:
    """The request is a trial, so that its failures end soon, and its name says what it is for."""
    service = RowsInMemory({"": "abcde"})
    found = look_past(task_from(service, page_size=2), service, 2)
    assert found
    assert (found.keys.to_pylist(), found.count) == (["e"], 5)
    [request] = service.asked
    assert (request.page, request.page_size, request.is_trial, request.purpose) == (2, 2, True, "past the end")


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ServiceRejected("refused", status=404), logging.INFO),
        (MalformedResponse("odd"), logging.INFO),
        (ServiceUnreachable("late", may_be_size=True), logging.WARNING),
    ],
)
def test_an_error_is_taken_for_the_end_and_logged(
    error: LettersError, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that may be temporary is a warning."""
    caplog.set_level(logging.INFO)
    service = RowsInMemory({"": error})
    assert look_past(task_from(service), service, 1) is None
    assert caplog.record_tuples == [
        ("letters_source", level, f"contacts: taken for the end of the listing: {error}"),
    ]


@pytest.mark.parametrize("error", [ServiceUnreachable("gone", status=503), NotAuthorized("refused", status=401)])
def test_an_error_that_any_page_can_have_tells_nothing(error: LettersError) -> None:
    """A service that is down, or refuses the tokens, ends the load."""
    service = RowsInMemory({"": error})
    with pytest.raises(type(error)):
        look_past(task_from(service), service, 1)


def test_a_large_last_page_may_be_repeated() -> None:
    """A page that is too large for a trial is requested again as one of the listing."""
    service = RowsInMemory({"": MalformedResponse("too large", is_too_large=True)})

    def answer(number: int) -> None:
        if number > 1:
            service.listed[""] = "abc"

    service.before_answer = answer
    found = look_past(task_from(service, page_size=2), service, 1)
    assert found
    assert found.keys.to_pylist() == ["c"]
    assert [request.is_trial for request in service.asked] == [True, False]
