"""Each status has its meaning, and messages contain no secrets."""

import json
from http import HTTPStatus
from typing import Any

import pytest
import requests

from letters_source.errors import LettersError, MalformedResponse, NotAuthorized, ServiceRejected, ServiceUnreachable
from letters_source.service.listings import LISTINGS
from letters_source.service.page_request import PageRequest
from letters_source.service.responses import (
    LONGEST_BODY,
    LONGEST_MESSAGE,
    Again,
    Earlier,
    SlowDown,
    check_status,
    may_be_size,
    redirect_host,
    service_words,
)
from letters_source.service.tokens import Tokens

FORMS = (
    " It may need a smaller sources.letters.page_size, or another sources.letters.date_format or "
    "sources.letters.filter_encoding."
)
FILTERS = (
    " It may require sources.letters.account_id, product_types, is_shared, or search under "
    "[sources.letters.templates], or need a smaller sources.letters.page_size."
)
TOKENS = Tokens("canary-access", "canary-refresh")


def answer(status: int, **headers: str) -> requests.Response:
    """A response with nothing but a status and headers."""
    response = requests.Response()
    response.status_code = status
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return response


def meaning(status: int, body: bytes = b"", listing: str = "contacts", **headers: str) -> Exception | None:
    """The error that an answer ends in, if any."""
    try:
        check_status(answer(status, **headers), body, PageRequest(LISTINGS[listing], 7, 100), TOKENS, Earlier())
    except (LettersError, Again) as error:
        return error
    return None


def test_a_whole_body_is_no_error() -> None:
    """A 200 and a 203 raise nothing, whatever their body."""
    assert (meaning(200), meaning(203)) == (None, None)


STATUSES = sorted({status.value for status in HTTPStatus if status >= 200} | {299, 399, 418, 499, 520, 599})
AGAIN = {408, 421, 425, 429, 500, 502, 503, 504, 506, 507, 508, 510, 511, 520, 599}


def test_every_status_has_a_meaning() -> None:
    """Exactly these statuses are retried; all others raise the error of their kind."""
    meanings = {status: type(meaning(status)) for status in STATUSES if status not in (200, 203)}
    assert {status for status, kind in meanings.items() if kind is Again} == AGAIN - {429, 503}
    assert {status for status, kind in meanings.items() if kind is SlowDown} == {429, 503}
    assert {status for status, kind in meanings.items() if kind is NotAuthorized} == {401, 403}
    malformed = {status for status, kind in meanings.items() if kind is MalformedResponse}
    assert malformed == {status for status in STATUSES if 200 < status < 300} - {203}
    rejected = {status for status, kind in meanings.items() if kind is ServiceRejected}
    assert rejected == {status for status in STATUSES if status >= 300} - AGAIN - {401, 403}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 504])
def test_a_retried_response_says_how_to_retry(status: int) -> None:
    """The error of a response to retry has the requested wait, the status and no limit on tries."""
    cases: tuple[tuple[dict[str, Any], float | None], ...] = (
        ({}, None),
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "0"}, 0.0),
    )
    for headers, wait in cases:
        again = meaning(status, **headers)
        assert isinstance(again, Again)
        assert (str(again), again.wait, again.tries) == (f"the service answered {status}", wait, None)
        assert again.status == status


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("https://login.example.org/canary?token=canary", "login.example.org"),
        ("//other.example.org:8080/x", "other.example.org"),
        ("https://user:canary@other.example.org", "other.example.org"),
        ("/elsewhere/canary", "the same host"),
        ("", "the same host"),
    ],
)
def test_a_redirect_names_its_host_alone(location: str, host: str) -> None:
    """The error of a redirect names its host without path and query."""
    assert str(meaning(302, b'{"message": "canary"}', Location=location)) == (
        f"contacts page 7: the service redirects (302) to {host}; redirects are not followed. Check base_url."
    )


@pytest.mark.parametrize("location", ["https://[::1", "//[x]/", "https://canary]", "https://a\x07b", f"//{'a' * 254}"])
def test_a_redirect_to_nowhere_is_still_a_redirect(location: str) -> None:
    """The error of a redirect to an unreadable address does not quote it."""
    error = meaning(302, Location=location)
    assert isinstance(error, ServiceRejected)
    assert str(error) == (
        "contacts page 7: the service redirects (302) to an address that cannot be read; redirects are not followed. "
        "Check base_url."
    )


def test_a_redirect_without_a_location_stays_where_it_is() -> None:
    """A redirect without a location counts as one to the same host."""
    assert redirect_host("") == "the same host"
    assert str(meaning(302)) == (
        "contacts page 7: the service redirects (302) to the same host; redirects are not followed. Check base_url."
    )


def test_refused_tokens_are_reported_with_the_services_words() -> None:
    """The error of refused tokens quotes the service, which may say which token is meant."""
    error = meaning(403, b'{"message": "token has expired"}')
    assert str(error) == (
        "contacts page 7: the service refused the tokens (403): token has expired; "
        "set new sources.letters.access_token and refresh_token."
    )
    assert isinstance(error, NotAuthorized)
    assert error.status == 403


def test_refused_tokens_are_reported_with_their_origins() -> None:
    """The error of refused tokens says where they were set."""
    tokens = Tokens("a", "r", ("ACCESS in the environment", "refresh_token in /a$b/secrets.toml"))
    with pytest.raises(NotAuthorized) as caught:
        check_status(answer(401), b"", PageRequest(LISTINGS["contacts"], 7, 100), tokens, Earlier())
    assert str(caught.value) == (
        "contacts page 7: the service refused the tokens (401); "
        "set new sources.letters.access_token and refresh_token. "
        "They are ACCESS in the environment and refresh_token in /a$b/secrets.toml."
    )


def test_another_2xx_is_not_a_page() -> None:
    """Every success but 200 is an error."""
    assert str(meaning(204)) == "contacts page 7: expected a status of 200, got 204."
    error = meaning(206, b'{"data": {"count": 0, "rows": []}}')
    assert isinstance(error, MalformedResponse)
    assert error.transient is False


@pytest.mark.parametrize(
    ("status", "listing", "expected"),
    [
        (400, "templates", FILTERS),
        (422, "templates", FILTERS),
        (400, "contacts", FORMS),
        (422, "contacts", FORMS),
        (404, "templates", " Check base_url, which ends in /api/v1."),
        (404, "contacts", " Check base_url, which ends in /api/v1."),
        (410, "templates", ""),
    ],
)  # fmt: skip
def test_a_refusal_hints_at_what_may_help(status: int, listing: str, expected: str) -> None:
    """A refusal hints at filters for templates, at formats for contacts, and at base_url for a 404."""
    error = meaning(status, b'{"message": "Bad things."}', listing)
    assert str(error) == f"{listing} page 7: the service refused the request ({status}): Bad things.{expected}"
    assert isinstance(error, ServiceRejected)
    assert error.status == status


@pytest.mark.parametrize("status", [400, 404, 501])
def test_a_refusal_names_the_url_without_its_query(status: int) -> None:
    """The query may hold personal data, and a user's name or password is no part of it."""
    response = answer(status)
    response.url = "https://user:canary@letters.example.org:8443/api/v1/contacts?search=canary#canary"
    with pytest.raises(LettersError) as caught:
        check_status(response, b"", PageRequest(LISTINGS["contacts"], 7, 100), TOKENS, Earlier())
    begin = "contacts page 7 (https://letters.example.org:8443/api/v1/contacts): the service refused the request"
    assert str(caught.value).startswith(f"{begin} ({status}).")
    assert "canary" not in str(caught.value)


def test_words_of_a_failure_that_may_pass_are_kept_for_the_last_try() -> None:
    """The service's words are no part of the reason by which tries are counted."""
    again = meaning(500, b'{"message": "request 17 failed"}')
    assert isinstance(again, Again)
    assert (str(again), again.said) == ("the service answered 500", ": request 17 failed")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ServiceRejected("", status=400), True),
        (ServiceRejected("", status=413), True),
        (ServiceRejected("", status=414), True),
        (ServiceRejected("", status=422), True),
        (ServiceRejected("", status=404), False),
        (MalformedResponse("", is_too_large=True), True),
        (MalformedResponse("", transient=True), False),
        (ServiceUnreachable("", may_be_size=True), True),
        (ServiceUnreachable(""), False),
        (NotAuthorized("", status=401), False),
    ],
)
def test_a_smaller_page_may_succeed_after_some_errors(error: LettersError, *, expected: bool) -> None:
    """Only errors that a page size can cause say that a smaller page may succeed."""
    assert may_be_size(error) == expected


def said(document: object) -> str:
    """Return what an error quotes of a JSON body."""
    return service_words(json.dumps(document).encode(), TOKENS)


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        ("productTypes is required", ": productTypes is required"),
        ("No.", ": No"),
        ("two\nlines\x1b[31m\x00", ": two lines [31m"),
        ("word " * 100, ": " + ("word " * 40).rstrip()),
        ("Nguyễn", ": Nguyễn"),
        ("your canary-access has no rights", ""),
        ("word " * 50 + "canary-refresh", ""),
        ("Bearer abcdefghijklm.nopqrstuvwxyz.x expired", ": Bearer *** expired"),
        ("ada@example.org is unknown", ": *** is unknown"),
        ("  ", ""),
        (["page is too large"], ": page is too large"),
        ([["canary"]], ""),
        ([], ""),
        ({"a": "canary"}, ""),
        (5, ""),
        (None, ""),
    ],
)
def test_the_services_words_are_one_harmless_line(message: object, quoted: str) -> None:
    """The service's words become one bounded line without control characters, tokens and e-mail addresses."""
    assert said({"message": message}) == quoted


@pytest.mark.parametrize(
    ("document", "quoted"),
    [
        ({"error": "expired"}, ": expired"),
        ({"detail": "expired"}, ": expired"),
        ({"error": {"code": 7, "message": "expired"}}, ": expired"),
        ({"error": "Forbidden", "message": "token expired"}, ": token expired"),
        ({"message": None, "error": "expired"}, ": expired"),
        ({"message": "Success", "data": {"count": 1}}, ""),
        ({"rows": "canary"}, ""),
    ],
)
def test_words_are_in_the_usual_fields_of_an_error(document: object, quoted: str) -> None:
    """Words are taken from the usual fields of an error, and not from the message of a page."""
    assert said(document) == quoted


@pytest.mark.parametrize(
    ("body", "quoted"),
    [
        (b"Too many requests\n", ": Too many requests"),
        (b"Too <b>many</b> requests", ""),
        (b"word " * LONGEST_MESSAGE, ""),
        (b"", ""),
        (b"<html>canary", ""),
        (b"null", ""),
        (b"[]", ""),
        (b'"canary"', ""),
        (b"{}", ""),
        (b"\xff", ""),
        (b'{"message": "canary', ""),
        (b"[" * 100_000, ""),
        (b'{"message": "canary"}'.ljust(LONGEST_BODY + 1), ""),
    ],
)
def test_other_bodies_are_quoted_if_they_are_short_plain_text(body: bytes, quoted: str) -> None:
    """Short plain text is quoted; markup, damaged JSON and whole pages never are."""
    assert service_words(body, TOKENS) == quoted


def test_words_with_a_private_text_are_not_quoted() -> None:
    """Words that repeat a filter on personal data are not quoted, however they write it."""
    body = b"nobody is called KOWALSKI"
    assert service_words(body, TOKENS, ["Eve", "Kowalski"]) == ""
    assert service_words(body, TOKENS, ["Eve", "Miller"]) == ": nobody is called KOWALSKI"
