"""The emulator pages as sections 2.1 and 4 describe."""

from typing import Any

import pytest
from served import Serve

from programmable_emulator import Emulator


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_all_pages_give_every_id_once_in_order(serve: Serve, listing: str) -> None:
    """The pages from 0 to the last give every id of the listing once, in order."""
    emulator = Emulator(contacts=53, templates=53)
    client = serve(emulator)
    walked = [row for page in range(6) for row in client.ids(listing, {"page": page, "pageSize": 10})]
    assert walked == getattr(emulator, listing).ids() == [str(number) for number in range(1, 54)]


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_the_envelope_is_the_documented_one(serve: Serve, listing: str) -> None:
    """The answer carries a message, the count of all rows, and the rows of the page, as JSON."""
    response = serve(Emulator(contacts=12, templates=12)).get(listing, {"page": 1, "pageSize": 10})
    envelope = response.json()
    assert response.headers["Content-Type"] == "application/json"
    assert list(envelope) == ["message", "data"]
    assert envelope["message"] == "Success"
    assert list(envelope["data"]) == ["count", "rows"]
    assert envelope["data"]["count"] == 12
    assert len(envelope["data"]["rows"]) == 2


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_page_defaults_to_0_and_page_size_to_10(serve: Serve, listing: str) -> None:
    """Without parameters the first ten rows come."""
    assert serve(Emulator()).ids(listing) == [str(number) for number in range(1, 11)]


def test_a_page_past_the_end_is_empty(serve: Serve) -> None:
    """A page past the end has the count of the listing and no rows."""
    client = serve(Emulator(contacts=20))
    assert client.data("contacts", {"page": 2, "pageSize": 10}) == {"count": 20, "rows": []}


def test_an_empty_listing_has_count_0(serve: Serve) -> None:
    """A listing without rows is answered with count 0 and no rows."""
    assert serve(Emulator(contacts=0)).data("contacts") == {"count": 0, "rows": []}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("page=-1", "page must be a whole number of at least 0"),
        ("page=one", "page must be a whole number of at least 0"),
        ("page=", "page must be a whole number of at least 0"),
        ("page=²", "page must be a whole number of at least 0"),
        ("page=9999999999", "page must be a whole number of at least 0"),
        ("pageSize=0", "pageSize must be a whole number of at least 1"),
        ("pageSize=1.5", "pageSize must be a whole number of at least 1"),
    ],
)
@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_a_page_that_is_no_number_is_refused(serve: Serve, listing: str, params: str, message: str) -> None:
    """A page or pageSize that means nothing is answered 400 with a message that names it."""
    response = serve(Emulator()).get(listing, params)
    assert (response.status_code, response.json()) == (400, {"message": message})


def test_rows_can_be_changed_while_they_are_served(serve: Serve) -> None:
    """Rows that are inserted and deleted show in the next answer."""
    emulator = Emulator(contacts=3)
    client = serve(emulator)
    assert client.ids("contacts") == ["1", "2", "3"]
    emulator.contacts.insert({"id": "new"}, 0)
    emulator.contacts.insert({"id": "last"})
    assert emulator.contacts.delete("2").id == "2"
    assert emulator.contacts.delete(1).id == "1"
    assert emulator.contacts.grow().id == "4"
    assert client.data("contacts")["count"] == emulator.contacts.count == 4
    assert client.ids("contacts") == emulator.contacts.ids() == ["new", "3", "last", "4"]


def test_a_row_of_any_shape_is_served_as_it_was_given(serve: Serve) -> None:
    """A row of any shape is served as it was inserted, even without an id."""
    emulator = Emulator(contacts=0)
    surprises: list[dict[str, Any]] = [{"id": None, "firstName": ["A"]}, {"zip": 7030}, {}]
    for surprise in surprises:
        emulator.contacts.insert(surprise)
    assert serve(emulator).data("contacts") == {"count": 3, "rows": surprises}
    assert emulator.contacts.ids() == ["None", "None", "None"]


def test_a_row_that_is_not_there_cannot_be_deleted() -> None:
    """Deleting an unknown id or position says so."""
    emulator = Emulator(contacts=1)
    with pytest.raises(LookupError, match=r"^unknown$"):
        emulator.contacts.delete("unknown")
    with pytest.raises(LookupError, match="out of range"):
        emulator.contacts.delete(1)
