"""Which listings have lost too many rows since the last load?"""

from datetime import date
from typing import Any

import pytest

from letters_source.config.settings import Settings
from letters_source.errors import ListingShrank
from letters_source.extract.listing import check_shrinking, rows_before
from letters_source.extract.task import Task
from letters_source.service.listings import ContactFilters
from letters_source.wording import counted
from tasks import audit_with, contacts_task


def contacts(**settings: Any) -> Task:
    """The task of reading contacts."""
    return contacts_task(
        Settings(base_url="https://letters.example.org", access_token="a", refresh_token="r", **settings)
    )


def refusal(before: int, now: int, **settings: Any) -> str:
    """The message of the error that the rows of two loads end in."""
    with pytest.raises(ListingShrank) as caught:
        check_shrinking(contacts(**settings), before, now)
    return str(caught.value)


def message(before: int, now: int, remedy: str) -> str:
    """Return the complete message of a refusal."""
    return (
        f"contacts: the service lists {counted(now)} with an id, and the last load had {before}; nothing was loaded. "
        f"If the others are really gone, {remedy} for one load."
    )


@pytest.mark.parametrize(
    ("before", "now", "share"),
    [(40, 19, "0.53"), (50, 21, "0.58"), (100, 42, "0.58"), (100, 43, "0.57"), (3, 1, "0.67"), (1000, 1, "1")],
)
def test_the_share_that_is_named_is_enough(before: int, now: int, share: str) -> None:
    """The error for a listing that shrank names the least share of two digits that accepts the loss."""
    assert refusal(before, now) == message(before, now, f"set sources.letters.max_shrink, now 0.5, to {share}")
    check_shrinking(contacts(max_shrink=float(share)), before, now)
    refusal(before, now, max_shrink=float(share) - 0.01, allow_empty=True)


@pytest.mark.parametrize(("before", "now"), [(0, 0), (0, 1), (1, 1), (1, 2), (40, 20), (39, 20)])
def test_a_listing_may_lose_half_of_its_rows(before: int, now: int) -> None:
    """A listing that grew, stayed, or lost no more than half of its rows is accepted."""
    check_shrinking(contacts(), before, now)


@pytest.mark.parametrize("max_shrink", [0.5, 1])
def test_no_share_allows_an_empty_listing(max_shrink: float) -> None:
    """A listing that lost all its rows is refused unless `allow_empty` is set."""
    assert refusal(40, 0, max_shrink=max_shrink) == message(40, 0, "turn on sources.letters.allow_empty")
    check_shrinking(contacts(max_shrink=max_shrink, allow_empty=True), 40, 0)


def test_loads_are_compared_one_by_one() -> None:
    """The rows before are those of the newest audit, and there are none before the first load."""
    assert rows_before(contacts(), [audit_with(rows_yielded=20), audit_with(rows_yielded=40)]) == 20
    assert rows_before(contacts(), []) == 0


DAY = date(2024, 1, 31)
AUDIT = audit_with(rows_yielded=40)


@pytest.mark.parametrize(
    "filters",
    [
        ContactFilters(address_status=("Failed",)),
        ContactFilters(last_mailed_status=("In Transit",)),
        ContactFilters(last_mailed_from=DAY),
        ContactFilters(last_mailed_to=DAY),
        ContactFilters(search="an", last_mailed_to=DAY),
    ],
)
def test_loads_of_a_filter_that_contacts_leave_are_not_compared(filters: ContactFilters) -> None:
    """Contacts leave these filters when they are mailed or verified, so any number of rows is accepted."""
    assert rows_before(contacts(contact_filters=filters), [AUDIT]) == 0


@pytest.mark.parametrize(("mode", "before"), [("replace", 40), ("sync", 40), ("history", 0)])
def test_loads_of_another_filter_are_compared_unless_history_is_kept(mode: str, before: int) -> None:
    """History keeps rows that a filter no longer returns, so only the other modes compare loads with filters."""
    task = contacts(contact_filters=ContactFilters(search="an"), **({} if mode == "replace" else {mode: True}))
    assert rows_before(task, [AUDIT]) == before
