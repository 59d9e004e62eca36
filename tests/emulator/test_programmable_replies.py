"""Tests can replace replies, and change rows between requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from served import Serve

from programmable_emulator import Behavior, Emulator, Reply, When


def test_a_reply_for_one_page_is_given_once(serve: Serve) -> None:
    """A canned reply for a page answers the first request for that page; the next one gets the normal answer."""
    client = serve(Emulator())
    client.emulator.canned.once(When("contacts", page=2), Reply(503, b"busy", {"Retry-After": "1"}))
    assert [client.get(name, {"page": page}).status_code for name, page in [("templates", 2), ("contacts", 1)]] == [
        200,
        200,
    ]
    response = client.get("contacts", {"page": 2})
    assert (response.status_code, response.content, response.headers["Retry-After"]) == (503, b"busy", "1")
    assert client.get("contacts", {"page": 2}).status_code == 200
    assert [hit.status for hit in client.emulator.hits] == [200, 200, 503, 200]


def test_replies_for_once_are_given_one_after_another(serve: Serve) -> None:
    """Three replies answer three requests, in order."""
    client = serve(Emulator())
    client.emulator.canned.once(When("contacts"), Reply(500), Reply(502), Reply.of({"message": "token expired"}))
    assert client.statuses("contacts", 4) == [500, 502, 200, 200]


def test_a_reply_for_always_stays_until_cleared(serve: Serve) -> None:
    """A permanent reply answers every request, before tokens, limits and faults are checked, until it is cleared."""
    client = serve(Emulator(behavior=Behavior(fault_every=1, rate_limit=0.001)))
    client.emulator.canned.always(When(), Reply.of({"data": None}, status=201))
    answers = [client.get(listing, headers={}) for listing in ("contacts", "templates", "contacts")]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(201, {"data": None})] * 3
    client.emulator.canned.clear()
    assert client.get("contacts").status_code == 500


def test_a_reply_can_be_for_the_nth_request(serve: Serve) -> None:
    """Requests are numbered from 1 over both listings."""
    client = serve(Emulator())
    client.emulator.canned.once(When(number=3), Reply(418))
    assert client.statuses("contacts", 2) + client.statuses("templates", 2) == [200, 200, 418, 200]


def test_a_page_that_is_no_number_fits_no_page(serve: Serve) -> None:
    """A reply for page 0 also answers requests that leave the page out, but not a malformed one."""
    client = serve(Emulator())
    client.emulator.canned.always(When(page=0), Reply(418))
    assert client.get("contacts").status_code == 418
    assert client.get("contacts", "page=zero").status_code == 400


def test_replies_are_json_by_default(serve: Serve) -> None:
    """The content type of a canned reply is JSON, unless the reply sets another."""
    client = serve(Emulator())
    page = Reply(200, b"<html>", {"Content-Type": "text/html"})
    client.emulator.canned.once(When(), Reply.of([1]), page, Reply(204))
    answers = [client.get("contacts") for _ in range(3)]
    assert [answer.headers["Content-Type"] for answer in answers] == [
        "application/json",
        "text/html",
        "application/json",
    ]
    assert [answer.content for answer in answers] == [b"[1]", b"<html>", b""]


def test_a_redirect_can_be_canned(serve: Serve) -> None:
    """A reply's status and headers are sent as they are."""
    client = serve(Emulator())
    client.emulator.canned.once(When(), Reply(302, headers={"Location": "/api/v1/templates"}))
    response = requests.get(f"{client.base_url}/contacts", allow_redirects=False, timeout=10)
    assert (response.status_code, response.headers["Location"]) == (302, "/api/v1/templates")


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_a_test_may_act_before_each_answer(serve: Serve, listing: str) -> None:
    """before_answer gets the emulator and the request's number, and what it changes shows in that answer."""
    emulator = Emulator(contacts=0, templates=0)
    client = serve(emulator)
    emulator.before_answer = lambda served, number: getattr(served, listing).insert({"id": f"made-{number}"})
    assert client.ids(listing) == ["made-1"]
    assert client.ids(listing) == ["made-1", "made-2"]


def test_a_request_is_held_until_it_is_released(serve: Serve) -> None:
    """The first matching request waits until it is released; others are answered in the meantime."""
    client = serve(Emulator())
    with ThreadPoolExecutor(1) as pool:
        with client.emulator.hold(When("contacts", page=2)) as [hold]:
            held = pool.submit(client.get, "contacts", {"page": 2})
            assert hold.arrived.wait(60)
            assert client.get("contacts", {"page": 2}).status_code == 200
            assert not held.done()
        assert held.result().status_code == 200
    assert [hit.number for hit in client.emulator.hits] == [2, 1]
