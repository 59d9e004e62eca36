"""Which page size is requested?"""

from letters_source.pagination.page_size import LARGE, SMALL, PageSize


def test_large_pages_are_tried_first() -> None:
    """Once they work, they are no longer on trial."""
    size = PageSize("auto")
    assert (size.rows, size.is_trial) == (LARGE, True)
    size.settle(works=True)
    assert (size.rows, size.is_trial) == (LARGE, False)


def test_pages_that_do_not_work_become_smaller() -> None:
    """The smaller size is no trial: if it fails as well, the error is the user's to deal with."""
    size = PageSize("auto")
    size.settle(works=False)
    assert (size.rows, size.is_trial) == (SMALL, False)


def test_a_number_means_that_number() -> None:
    """It is never on trial."""
    size = PageSize(700)
    assert (size.rows, size.is_trial) == (700, False)
