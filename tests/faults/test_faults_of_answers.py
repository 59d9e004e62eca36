"""Loads that cannot be complete keep the old rows and give the reason."""

from typing import Any

import jwt
import pytest
from refusals import CONTACTS, PAGE_SIZE, miscount, page, refused
from worlds import World

from letters_source import (
    IncompleteListing,
    ListingUnpaged,
    MalformedResponse,
    NotAuthorised,
    ServiceRejected,
    ServiceUnreachable,
    WrongCount,
)
from programmable_emulator import Behavior, Drift, Emulator, Reply, When


def test_f41_a_count_that_is_too_high_is_incomplete(world: World) -> None:
    """Forty rows are not the forty-three that the service counts."""
    miscount(world.emulator, 43, size=15)
    error = refused(world, WrongCount, page_size=15)
    assert str(error) == (
        "contacts: it counts 43 rows and lists 40, the same in two passes: count 43, received 40, missing 3, passes 2; "
        "nothing was loaded. Report it to the service, or select rows that it counts correctly with filters."
    )


def test_f41_a_count_of_rows_that_no_page_shows_is_incomplete(world: World) -> None:
    """The service counts rows that no page shows."""
    miscount(world.emulator, 43)
    assert "count 43, received 40, missing 3, passes 2;" in str(refused(world, WrongCount))


def test_f41_a_count_that_is_too_low_is_incomplete(world: World) -> None:
    """Forty rows are not the thirty-nine that the service counts."""
    miscount(world.emulator, 39)
    error = refused(world, WrongCount, max_walks=2)
    assert "count 39, received 40, missing -1, passes 2;" in str(error)


def test_f36_an_empty_page_in_the_middle_is_not_the_end(world: World) -> None:
    """Its rows are missed."""
    world.emulator.canned.always(When("contacts", 1), page(world.emulator, 1, 40, rows=0))
    assert "count 40, received 30, missing 10, passes 2;" in str(refused(world, WrongCount))


def test_f37_a_short_page_in_the_middle_is_not_the_end(world: World) -> None:
    """Its missing row is missed."""
    world.emulator.canned.always(When("contacts", 2), page(world.emulator, 2, 40, rows=9))
    assert "count 40, received 39, missing 1, passes 2;" in str(refused(world, WrongCount))


def test_f36_a_first_page_without_rows_is_incomplete(world: World) -> None:
    """A count of forty with no rows at all is no success."""
    world.emulator.canned.always(CONTACTS, page(world.emulator, 0, 40, rows=0))
    assert "count 40, received 0, missing 40, passes 2;" in str(refused(world, WrongCount))


def test_f36_a_page_empty_once_is_read_again(world: World) -> None:
    """A second walk shows the rows that the first missed."""
    world.emulator.canned.once(When("contacts", 1), page(world.emulator, 1, 40, rows=0))
    before = world.tables()
    result = world.load(page_size=PAGE_SIZE)
    assert [(audit["verdict"], audit["walks"]) for audit in result.audits] == [("exact", 1), ("stable", 2)]
    assert {name: rows for name, rows in world.tables().items() if name != "listing_audit"} == {
        name: rows for name, rows in before.items() if name != "listing_audit"
    }


def test_f38_an_ignored_page_parameter_is_seen_on_the_second_page(world: World) -> None:
    """Two requests show that the service answers every page with page 0."""
    world.emulator.behavior = Behavior(ignore_page=True)
    asked = len(world.emulator.hits)
    error = refused(world, ListingUnpaged)
    assert "page 3 repeats page 0, so the service ignores the page parameter: count 40" in str(error)
    assert [hit.query[:6] for hit in world.emulator.hits[asked:] if "contacts" in hit.path] == ["page=0", "page=3"]


def test_f44_rows_that_come_and_go_with_every_answer_are_incomplete(world: World) -> None:
    """The count is always right, and the rows read are nobody's."""
    world.emulator.behavior = Behavior(drift=[Drift("swap", "anywhere", 1.0)])
    error = refused(world, IncompleteListing)
    assert isinstance(error, IncompleteListing)
    assert (error.listing, error.count, error.walks) == ("contacts", 40, 4)


MALFORMED: dict[str, tuple[Any, str]] = {
    "no_data": ({"message": "token expired"}, "Object missing required field `data`; the service says: token expired."),
    "data_null": ({"message": "Success", "data": None}, "Expected `object`, got `null` - at `$.data`."),
    "no_rows": ({"data": {"count": 40}}, "Object missing required field `rows` - at `$.data`."),
    "rows_null": ({"data": {"count": 40, "rows": None}}, "Expected `array`, got `null` - at `$.data.rows`."),
    "rows_object": ({"data": {"count": 40, "rows": {}}}, "Expected `array`, got `object` - at `$.data.rows`."),
    "no_count": ({"data": {"rows": []}}, "Object missing required field `count` - at `$.data`."),
    "count_text": ({"data": {"count": "40", "rows": []}}, "Expected `int`, got `str` - at `$.data.count`."),
    "rows_text": ({"data": {"count": 40, "rows": "1, 2"}}, "Expected `array`, got `str` - at `$.data.rows`."),
    "count_null": ({"data": {"count": None, "rows": []}}, "Expected `int`, got `null` - at `$.data.count`."),
    "count_bool": ({"data": {"count": True, "rows": []}}, "Expected `int`, got `bool` - at `$.data.count`."),
    "count_broken": ({"data": {"count": 40.5, "rows": []}}, "Expected `int`, got `float` - at `$.data.count`."),
    "count_negative": ({"data": {"count": -1, "rows": []}}, "Expected `int` >= 0 - at `$.data.count`."),
    "null": (None, "Expected `object`, got `null`."),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_f14_f15_f16_f17_a_200_that_is_not_the_envelope_is_malformed(world: World, name: str) -> None:
    """The message says where the body differs, and quotes nothing of it."""
    body, what = MALFORMED[name]
    world.emulator.canned.always(CONTACTS, Reply.of(body))
    error = refused(world, MalformedResponse)
    assert str(error) == f"contacts page 0: not the documented envelope of {{data: {{count, rows}}}}: {what}"


def test_f14_a_later_page_that_is_not_the_envelope_is_malformed(world: World) -> None:
    """A good first page does not excuse it."""
    world.emulator.canned.always(When("contacts", 2), Reply.of({"message": "please log in"}))
    assert str(refused(world, MalformedResponse)).startswith("contacts page 2: not the documented envelope")


@pytest.mark.parametrize("body", [b"", b"<html>please log in</html>", b'{"data": {"count": 40, "ro'])
def test_f12_f13_a_200_that_is_not_json_is_malformed_in_the_end(world: World, body: bytes) -> None:
    """It may come of a broken connection, and is asked for again as long as the budget lasts."""
    world.emulator.canned.always(CONTACTS, Reply(200, body))
    error = refused(world, MalformedResponse, retry_budget=1)
    assert str(error) == f"contacts page 0: expected JSON, got {len(body)} bytes of something else."


def test_f13_a_204_is_malformed(world: World) -> None:
    """Success without a body is no listing."""
    world.emulator.canned.always(CONTACTS, Reply(204))
    assert str(refused(world, MalformedResponse)) == "contacts page 0: expected a status of 200, got 204."


@pytest.mark.parametrize("listing", ["templates", "contacts"])
@pytest.mark.parametrize("status", [401, 403])
def test_f07_refused_tokens_end_the_load_at_once(world: World, listing: str, status: int) -> None:
    """One request asks; the message says which keys to set."""
    world.emulator.canned.always(When(listing), Reply.of({"message": "no"}, status))
    asked = len(world.emulator.hits)
    assert str(refused(world, NotAuthorised)) == (
        f"{listing} page 0: the service refused the tokens ({status}): no; "
        "set new sources.letters.access_token and refresh_token."
    )
    assert [hit.status for hit in world.emulator.hits[asked:] if listing in hit.path] == [status]


def test_f75_a_refresh_token_refused_for_contacts_leaves_templates_unloaded_too(world: World) -> None:
    """Templates were read well; they are not loaded without contacts."""
    world.emulator.refresh_token = "another"
    world.emulator.templates.grow()
    refused(world, NotAuthorised)
    world.emulator.templates.delete(-1)


FORMS = " It may need a smaller page_size, or another date_format or filter_encoding (sources.letters)."
REJECTED = {
    400: "contacts page 0: the service refused the request (400): Bad thing." + FORMS,
    404: "contacts page 0: the service refused the request (404): Bad thing. Check base_url, which ends in /api/v1.",
    422: "contacts page 0: the service refused the request (422): Bad thing." + FORMS,
    501: "contacts page 0: the service refused the request (501): Bad thing.",
}


@pytest.mark.parametrize("status", REJECTED)
def test_f05_a_refused_request_is_not_repeated(world: World, status: int) -> None:
    """The service's own message is passed on."""
    world.emulator.canned.always(CONTACTS, Reply.of({"message": "Bad thing."}, status))
    asked = len(world.emulator.hits)
    url = f"{world.settings['base_url']}/contacts"
    assert str(refused(world, ServiceRejected)) == f"{REJECTED[status]} URL: {url}"
    assert [hit.status for hit in world.emulator.hits[asked:] if "contacts" in hit.path] == [status]


def test_f05_a_400_for_templates_hints_at_their_filters(world: World) -> None:
    """The interface calls them required; its example sends none."""
    world.emulator.canned.always(When("templates"), Reply.of({"message": "productTypes is required"}, 400))
    assert str(refused(world, ServiceRejected)) == (
        "templates page 0: the service refused the request (400): productTypes is required. "
        "It may require account_id, or search, product_types and is_shared of [sources.letters.templates], "
        f"or need a smaller page_size. URL: {world.settings['base_url']}/templates"
    )


def test_f08_a_404_for_a_later_page_is_refused(world: World) -> None:
    """It is not the end of the listing."""
    world.emulator.canned.always(When("contacts", 3), Reply.of({"message": "Not found"}, 404))
    assert str(refused(world, ServiceRejected)).startswith("contacts page 3: the service refused the request (404)")


def test_f29_a_redirect_is_not_followed(world: World) -> None:
    """Tokens go to no other host; the message names it alone."""
    target = "https://elsewhere.example.org/api/v1/contacts?secret=1"
    world.emulator.canned.always(CONTACTS, Reply(302, b"", {"Location": target}))
    assert str(refused(world, ServiceRejected)) == (
        "contacts page 0: the service redirects (302) to elsewhere.example.org; redirects are not followed. "
        "Check base_url."
    )


@pytest.mark.parametrize("status", [500, 503, 429])
def test_f04_a_failure_for_ever_ends_with_the_budget(world: World, status: int) -> None:
    """The message says what failed, how long it was tried, and what to do."""
    world.emulator.canned.always(CONTACTS, Reply.of({"message": "no"}, status))
    assert str(refused(world, ServiceUnreachable, retry_budget=1)) == (
        f"contacts page 0 ({world.settings['base_url']}/contacts): the service answered {status}: no; "
        "gave up after 1 s. Check base_url, or raise sources.letters.retry_budget."
    )


def test_f02_a_wait_longer_than_the_budget_is_not_waited(world: World) -> None:
    """The message says what the service asked for."""
    world.emulator.canned.always(CONTACTS, Reply(429, b"", {"Retry-After": "86400"}))
    error = refused(world, ServiceUnreachable)
    assert "the service answered 429 and asks to wait 86400 s; gave up after 120 s" in str(error)


def test_f04_a_page_that_fails_for_ever_ends_the_load(world: World) -> None:
    """Nine good pages do not excuse it."""
    world.emulator.canned.always(When("contacts", 2), Reply.of({"message": "no"}, 500))
    error = refused(world, ServiceUnreachable, retry_budget=1)
    where = f"contacts page 2 ({world.settings['base_url']}/contacts)"
    assert str(error).startswith(f"{where}: the service answered 500: no; gave up after ")


def test_f04_a_service_that_is_gone_is_unreachable(world: World) -> None:
    """Nobody listens at the address."""
    with Emulator(0, 0).serve() as gone:
        pass
    error = refused(world, ServiceUnreachable, retry_budget=0.001, base_url=gone)
    assert str(error) == (
        f"templates page 0 ({gone}/templates): no connection to the service: connection refused; gave up after 0 s. "
        "Check base_url, or raise sources.letters.retry_budget."
    )


def test_f07_an_expired_access_token_is_refused_before_the_first_request(world: World) -> None:
    """A JWT tells when it ends; the message does not quote it."""
    expired = jwt.encode({"exp": 1_700_000_000}, "a key of thirty-two letters or more")
    asked = len(world.emulator.hits)
    error = refused(world, NotAuthorised, access_token=expired)
    assert str(error) == (
        "The access token expired at 2023-11-14 22:13:20 UTC; set a new sources.letters.access_token."
    )
    assert world.emulator.hits[asked:] == []
