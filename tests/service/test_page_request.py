"""The query and the name of a page request."""

from letters_source.service.listings import CONTACTS, TEMPLATES
from letters_source.service.page_request import PageRequest


def test_a_page_comes_before_the_filters() -> None:
    """The number of the page, from 0, and its size are sent before the filters."""
    params = PageRequest(CONTACTS, 0, 100, {"search": "x"}).params
    assert list(params.items()) == [("page", "0"), ("pageSize", "100"), ("search", "x")]
    assert PageRequest(TEMPLATES, 12, 5).params == {"page": "12", "pageSize": "5"}


def test_a_page_is_named_after_its_listing_and_number() -> None:
    """A page's name in messages is its listing and its number, whatever its size and filters."""
    assert PageRequest(TEMPLATES, 12, 5, {"search": "1"}).title == "templates page 12"
