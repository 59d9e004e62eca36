"""Loads that cannot be complete keep the old rows and give the reason."""

from typing import Any

import jwt
import pytest
from refusals import CONTACTS, PAGE_SIZE, miscount, page, refused
from worlds import Begin, World

from letters_source import (
    IncompleteListing,
    ListingUnpaged,
    MalformedResponse,
    NotAuthorized,
    ServiceRejected,
    ServiceUnreachable,
    WrongCount,
)
from programmable_emulator import Behavior, Drift, Emulator, Reply, When

MORE = "Set sources.letters.count to at_least, to load all rows that are listed."


def wrong_count(lists: str, received: int, missing: int) -> str:
    """The message of a count that two passes show to be wrong."""
    remedy = "Report it to the service, or select rows that it counts correctly with filters."
    return (
        f"contacts: {lists}, the same in two passes: count {received + missing}, received {received}, "
        f"missing {missing}, passes 2; nothing was loaded. "
        f"{remedy if missing > 0 else MORE}"
    )


def test_f41_a_count_that_is_too_high_is_incomplete(world: World) -> None:
    """A listing of forty rows under a count of 43 ends the load in an error."""
    miscount(world.emulator, 43, size=15)
    error = refused(world, WrongCount, page_size=15)
    assert str(error) == wrong_count("it counts 43 rows and lists 40", 40, 3)


def test_f41_a_count_that_is_too_low_is_incomplete(world: World) -> None:
    """A listing of forty rows under a count of 39 ends the load in an error."""
    miscount(world.emulator, 39)
    error = refused(world, WrongCount, max_walks=2)
    assert str(error) == wrong_count("it counts 39 rows and lists 40", 40, -1)


@pytest.mark.parametrize(("number", "received"), [(0, 0), (1, 30)])
def test_f36_an_empty_page_is_not_the_end(world: World, number: int, received: int) -> None:
    """An empty page before the last one ends the load in an error, also where it is the first."""
    world.emulator.canned.always(When("contacts", number), page(world.emulator, number, 40, rows=0))
    lists = f"it counts 40 rows and lists {received}"
    assert str(refused(world, WrongCount)) == wrong_count(lists, received, 40 - received)


def test_f37_a_short_page_in_the_middle_is_not_the_end(world: World) -> None:
    """A page in the middle that leaves out one row ends the load in an error."""
    world.emulator.canned.always(When("contacts", 2), page(world.emulator, 2, 40, rows=9))
    assert str(refused(world, WrongCount)) == wrong_count("it counts 40 rows and lists 39", 39, 1)


def test_f36_a_page_empty_once_is_read_again(world: World) -> None:
    """A second pass finds the rows that an empty page hid from the first."""
    world.emulator.canned.once(When("contacts", 1), page(world.emulator, 1, 40, rows=0))
    tables = world.read("templates", "contacts", page_size=PAGE_SIZE)
    assert [(audit["verdict"], audit["walks"]) for audit in tables["listing_audit"]] == [("exact", 1), ("stable", 2)]
    assert world.is_exact(tables)


def test_f38_an_ignored_page_parameter_is_seen_on_the_second_page(world: World) -> None:
    """Two requests show that the service answers every page with page 0, and the load ends in an error."""
    world.emulator.behavior = Behavior(ignore_page=True)
    asked = len(world.emulator.hits)
    assert str(refused(world, ListingUnpaged)) == (
        "contacts: page 3 repeats page 0, so the service ignores the page parameter: count 40, received 10, "
        "missing 30, passes 1; nothing was loaded. Set sources.letters.page_size to 40 or more, "
        "or select fewer rows with filters."
    )
    assert [hit.query[:6] for hit in world.emulator.hits[asked:] if "contacts" in hit.path] == ["page=0", "page=3"]


def test_f44_rows_that_come_and_go_with_every_answer_are_incomplete(world: World) -> None:
    """A listing that swaps a row before every answer is refused, although its count is always right."""
    world.emulator.behavior = Behavior(drift=[Drift("swap", "anywhere", 1.0)])
    error = refused(world, IncompleteListing)
    assert isinstance(error, IncompleteListing)
    assert (error.listing, error.count, error.walks) == ("contacts", 40, 4)


MALFORMED: dict[str, tuple[Any, str]] = {
    "f16": ({"data": {"count": 40, "rows": {}}}, "Expected `array`, got `object` - at `$.data.rows`."),
    "f17": ({"data": {"count": "40", "rows": []}}, "Expected `int`, got `str` - at `$.data.count`."),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_f16_f17_a_200_that_is_not_the_envelope_is_malformed(world: World, name: str) -> None:
    """The error for a malformed page says where the body differs from the envelope."""
    body, what = MALFORMED[name]
    world.emulator.canned.always(CONTACTS, Reply.of(body))
    error = refused(world, MalformedResponse)
    assert str(error) == f"contacts page 0: not the documented envelope of {{data: {{count, rows}}}}: {what}"


def gave_up(world: World, page: int, reason: str) -> str:
    """The message of a page of contacts that failed as long as a budget of 0.2 s lasted."""
    return (
        f"contacts page {page} ({world.settings['base_url']}/contacts): the service answered {reason}; "
        "gave up within 0.2 s. Check base_url. To let loads retry longer, raise sources.letters.retry_budget."
    )


@pytest.mark.parametrize("body", [{"message": "token expired"}, {"message": "token expired", "data": None}])
@pytest.mark.parametrize("number", [0, 2])
def test_f14_f15_a_200_that_stays_an_error_ends_with_the_budget(world: World, body: Any, number: int) -> None:
    """A page whose envelope never has data ends the load in an error with the service's words."""
    world.emulator.canned.always(When("contacts", number), Reply.of(body))
    error = refused(world, ServiceUnreachable, retry_budget=0.2)
    assert str(error) == gave_up(world, number, "200 without data: token expired")


@pytest.mark.parametrize(
    "behavior",
    [
        Behavior(fault_every=4, fault_reply=Reply(403, b"Rate limit exceeded", {"Retry-After": "0"})),
        Behavior(fault_every=4, fault_reply=Reply.of({"message": "Internal error", "data": None})),
        Behavior(fault_every=4, fault_reply=Reply(421)),
    ],
)
def test_answers_that_are_errors_now_and_then_lose_no_row(begin: Begin, behavior: Behavior) -> None:
    """A load is exact though each fourth answer is an error, whatever its status."""
    # an emulator of its own, because a 403 to the first request refuses the tokens
    world = begin(Emulator(40, 7, behavior=behavior))
    assert world.is_exact(world.read("templates", "contacts", page_size=PAGE_SIZE))


def test_f12_f13_a_200_that_is_not_json_is_malformed_in_the_end(world: World) -> None:
    """A page of HTML is requested three times and ends the load in an error."""
    html = b"<html>please log in</html>"
    world.emulator.canned.always(CONTACTS, Reply(200, html))
    asked = len(world.emulator.hits)
    error = refused(world, MalformedResponse, max_workers=1)
    assert str(error) == f"contacts page 0: expected JSON, got {len(html)} bytes of something else."
    assert [hit.status for hit in world.emulator.hits[asked:] if "contacts" in hit.path] == [200] * 3


def test_f13_a_204_is_malformed(world: World) -> None:
    """A 204, which has no body, ends the load in an error."""
    world.emulator.canned.always(CONTACTS, Reply(204))
    assert str(refused(world, MalformedResponse)) == "contacts page 0: expected a status of 200, got 204."


@pytest.mark.parametrize(("listing", "status"), [("templates", 401), ("contacts", 403)])
def test_f07_refused_tokens_end_the_load_at_once(world: World, listing: str, status: int) -> None:
    """Refused tokens end the load after one request of the listing, in an error that names the keys to set."""
    world.emulator.canned.always(When(listing), Reply.of({"message": "no"}, status))
    asked = len(world.emulator.hits)
    assert str(refused(world, NotAuthorized)) == (
        f"{listing} page 0: the service refused the tokens ({status}): no; "
        "set new sources.letters.access_token and refresh_token."
    )
    assert [hit.status for hit in world.emulator.hits[asked:] if listing in hit.path] == [status]


def test_f75_a_refresh_token_refused_for_contacts_leaves_templates_unloaded_too(world: World) -> None:
    """Templates that were read completely are not loaded when contacts are refused."""
    world.emulator.refresh_token = "another"
    world.emulator.templates.grow()
    refused(world, NotAuthorized)


def test_f05_a_refused_request_is_not_repeated(world: World) -> None:
    """A 501 ends the load after one request; tests/service/test_client.py has the messages of other statuses."""
    world.emulator.canned.always(CONTACTS, Reply.of({"message": "Bad thing."}, 501))
    asked = len(world.emulator.hits)
    assert str(refused(world, ServiceRejected)) == (
        f"contacts page 0 ({world.settings['base_url']}/contacts): the service refused the request (501): Bad thing."
    )
    assert [hit.status for hit in world.emulator.hits[asked:] if "contacts" in hit.path] == [501]


def test_f05_a_400_for_templates_hints_at_their_filters(world: World) -> None:
    """The error of a 400 for templates names the filters that the service may require."""
    world.emulator.canned.always(When("templates"), Reply.of({"message": "productTypes is required"}, 400))
    assert str(refused(world, ServiceRejected)) == (
        f"templates page 0 ({world.settings['base_url']}/templates): the service refused the request (400): "
        "productTypes is required. It may require sources.letters.account_id, product_types, is_shared, or search "
        "under [sources.letters.templates], or need a smaller sources.letters.page_size."
    )


def test_f08_a_404_for_the_first_page_is_refused(world: World) -> None:
    """A 404 for the first page ends the load at once."""
    world.emulator.canned.always(When("contacts", 0), Reply.of({"message": "Not found."}, 404))
    assert str(refused(world, ServiceRejected)) == (
        f"contacts page 0 ({world.settings['base_url']}/contacts): the service refused the request (404): "
        "Not found. Check base_url, which ends in /api/v1."
    )


def test_f08_a_404_for_a_later_page_ends_with_the_budget(world: World) -> None:
    """A 404 for a page of a listing whose first page was answered is retried."""
    world.emulator.canned.always(When("contacts", 3), Reply.of({"message": "Not found."}, 404))
    error = refused(world, ServiceUnreachable, retry_budget=0.2)
    assert str(error) == gave_up(world, 3, "404: Not found")


def test_f29_a_redirect_is_not_followed(world: World) -> None:
    """A redirect ends the load in an error that names the host alone."""
    target = "https://elsewhere.example.org/api/v1/contacts?secret=1"
    world.emulator.canned.always(CONTACTS, Reply(302, b"", {"Location": target}))
    assert str(refused(world, ServiceRejected)) == (
        "contacts page 0: the service redirects (302) to elsewhere.example.org; redirects are not followed. "
        "Check base_url."
    )


def test_f04_an_endless_failure_ends_with_the_budget(world: World) -> None:
    """A page that fails as long as the budget lasts ends the load in an error that says how long that was."""
    world.emulator.canned.always(When("contacts", 2), Reply.of({"message": "no"}, 500))
    assert str(refused(world, ServiceUnreachable, retry_budget=1)) == (
        f"contacts page 2 ({world.settings['base_url']}/contacts): the service answered 500: no; "
        "gave up within 1 s. Check base_url. To let loads retry longer, raise sources.letters.retry_budget."
    )


def test_f02_a_retry_after_beyond_the_budget_ends_the_load(world: World) -> None:
    """A 429 that asks to wait for a day ends the load at once, in an error that names the wait."""
    world.emulator.canned.always(CONTACTS, Reply(429, b"", {"Retry-After": "86400"}))
    assert str(refused(world, ServiceUnreachable)) == (
        f"contacts page 0 ({world.settings['base_url']}/contacts): the service answered 429 and asks to wait 86400 s; "
        "gave up within 120 s. Check base_url. To let loads retry longer, raise sources.letters.retry_budget."
    )


def test_f04_a_service_that_does_not_listen_is_unreachable(world: World) -> None:
    """An address where nothing listens ends the load in an error that names it."""
    with Emulator(0, 0).serve() as gone:
        pass
    error = refused(world, ServiceUnreachable, retry_budget=0.001, base_url=gone)
    assert str(error) == (
        f"templates page 0 ({gone}/templates): no connection to the service: connection refused; gave up within 0 s. "
        "Check base_url. To let loads retry longer, raise sources.letters.retry_budget."
    )


def test_f07_an_expired_access_token_is_refused_before_the_first_request(world: World) -> None:
    """A JWT that has expired ends the load before any request, in an error that does not quote it."""
    expired = jwt.encode({"exp": 1_700_000_000}, "a key of thirty-two letters or more")
    asked = len(world.emulator.hits)
    error = refused(world, NotAuthorized, access_token=expired)
    assert str(error) == (
        "The access token expired at 2023-11-14 22:13:20 UTC; set a new sources.letters.access_token."
    )
    assert world.emulator.hits[asked:] == []
