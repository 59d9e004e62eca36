"""Are a service's own words told, and nothing that is secret?"""

import json

import pytest

from letters_source.service.tokens import Tokens
from letters_source.service.words import LONGEST_BODY, LONGEST_MESSAGE, service_words

TOKENS = Tokens("canary-access", "canary-refresh")


def said(document: object) -> str:
    """What is told of a JSON body."""
    return service_words(json.dumps(document).encode(), TOKENS)


@pytest.mark.parametrize(
    ("message", "told"),
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
        (["canary"], ""),
        ({"a": "canary"}, ""),
        (5, ""),
        (None, ""),
    ],
)
def test_the_services_words_are_one_harmless_line(message: object, told: str) -> None:
    """The service's words become one bounded line without control characters, tokens and e-mail addresses."""
    assert said({"message": message}) == told


@pytest.mark.parametrize(
    ("document", "told"),
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
def test_words_are_in_the_usual_fields_of_an_error(document: object, told: str) -> None:
    """Words are taken from the usual fields of an error, and not from the message of a page."""
    assert said(document) == told


@pytest.mark.parametrize(
    ("body", "told"),
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
def test_other_bodies_are_told_if_they_are_short_plain_text(body: bytes, told: str) -> None:
    """Short plain text is told, and markup, damaged JSON and whole pages never are."""
    assert service_words(body, TOKENS) == told
