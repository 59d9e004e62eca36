"""Which page size is requested, and which errors make it smaller?"""

import pytest

from letters_source.errors import LettersError, MalformedResponse, NotAuthorised, ServiceRejected, ServiceUnreachable
from letters_source.pagination.page_size import LARGE, SMALL, PageSize


@pytest.mark.parametrize(
    "error",
    [
        *(ServiceRejected("refused", status=status) for status in (400, 413, 414, 422)),
        ServiceUnreachable("late", is_late=True),
        MalformedResponse("large", is_too_large=True),
    ],
    ids=repr,
)
def test_a_page_that_may_be_too_large_is_requested_smaller_once(error: LettersError) -> None:
    """The second time, the error is the user's to deal with."""
    size = PageSize("auto")
    assert size.rows == LARGE
    assert size.shrink(error)
    assert size.rows == SMALL
    assert not size.shrink(error)
    assert size.rows == SMALL


@pytest.mark.parametrize(
    "error",
    [
        *(ServiceRejected("refused", status=status) for status in (404, 302, None)),
        ServiceUnreachable("no connection"),
        MalformedResponse("no JSON", transient=True),
        NotAuthorised("refused", status=401),
    ],
    ids=repr,
)
def test_what_fewer_rows_cannot_help_against_changes_nothing(error: LettersError) -> None:
    """Asking again would only take longer to fail."""
    size = PageSize("auto")
    assert not size.shrink(error)
    assert size.rows == LARGE


def test_a_number_means_that_number() -> None:
    """No error changes it."""
    size = PageSize(700)
    assert not size.shrink(ServiceRejected("refused", status=400))
    assert size.rows == 700
