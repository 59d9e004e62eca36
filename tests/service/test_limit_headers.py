"""Headers tell after how many seconds a request may be sent again."""

from datetime import UTC, datetime

import pytest

from letters_source.service.limit_headers import LONGEST_RETRY_AFTER, is_used_up, limit_ends_in, retry_after

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
SOON = int(NOW.timestamp()) + 10


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("2", 2.0),
        (" 120 ", 120.0),
        ("86400", 86_400.0),
        ("Mon, 06 May 2024 07:08:19 GMT", 10.0),
        ("Mon, 06 May 2024 09:08:19 +0200", 10.0),
        ("Mon, 06 May 2024 07:08:19 -0000", 10.0),
        ("Mon, 06 May 2024 07:08:19", 10.0),
        ("Monday, 06-May-24 07:08:19 GMT", 10.0),
        ("Mon, 06 May 2024 07:08:08 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-1", None),
        ("1.5", 1.5),
        (".5", None),
        ("1.5.2", None),
        ("1e3", None),
        ("²", None),
        ("soon", None),
        ("Mon, 99 May 2024 07:08:19 GMT", None),
        ("Wed, 21 Oct 99999999999999 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 +99999999999999999", None),
        ("10000000", LONGEST_RETRY_AFTER),
        ("10000001", LONGEST_RETRY_AFTER),
        ("9" * 400, LONGEST_RETRY_AFTER),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER),
    ],
)
def test_retry_after_is_read(header: str | None, seconds: float | None) -> None:
    """Retry-After is read as bounded seconds or as a date (RFC 9110, 10.2.3), and anything else is ignored."""
    assert retry_after(header, NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "used_up", "seconds"),
    [
        ({}, False, None),
        ({"RateLimit": '"default";r=0;t=1'}, True, 1),
        ({"ratelimit": '"default"; t=30; r=0'}, True, 30),
        ({"RateLimit": '"default";r=50;t=30'}, False, None),
        ({"RateLimit": '"a, r=0;t=9";r=5;t=1, "day";r=0;t=90, "hour";r=0;t=60'}, True, 90),
        ({"RateLimit": '"default";r=0'}, True, None),
        ({"RateLimit": '"default";r=0;t=0'}, True, None),
        ({"RateLimit": "limit=100, remaining=0, reset=5"}, True, 5),
        ({"RateLimit": "limit=100, remaining=7, reset=5"}, False, None),
        ({"RateLimit": "canary"}, False, None),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "5"}, True, 5),
        ({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "5"}, False, None),
        ({"X-RateLimit-Reset": "5"}, False, 5),
        ({"X-Rate-Limit-Reset": str(SOON)}, False, 10),
        ({"X-RateLimit-Reset": str(SOON * 1000)}, False, 10),
        ({"X-RateLimit-Reset": str(SOON - 60)}, False, None),
        ({"X-RateLimit-Reset": "Mon, 06 May 2024 07:08:19 GMT"}, False, 10),
        ({"X-RateLimit-Reset-After": "0.25"}, False, 0.25),
        ({"X-RateLimit-Reset": "9" * 400}, False, LONGEST_RETRY_AFTER),
        ({"X-RateLimit-Reset": "soon", "X-RateLimit-Remaining": "none"}, False, None),
    ],
)
def test_the_end_of_a_limit_is_read(headers: dict[str, str], *, used_up: bool, seconds: float | None) -> None:
    """Limits with requests left do not matter, and of several the last to be reset does."""
    assert is_used_up(headers, NOW) == used_up
    assert limit_ends_in(headers, NOW) == seconds
