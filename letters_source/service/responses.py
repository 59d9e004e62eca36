"""What the status of a response means: success, a retry, or an error with its message."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from letters_source.errors import LettersError, MalformedResponse, NotAuthorized, ServiceRejected, ServiceUnreachable
from letters_source.service.page_request import PageRequest
from letters_source.service.tokens import Tokens

if TYPE_CHECKING:
    import requests

TOO_MANY_REQUESTS = 429
SLOW_DOWN = frozenset({TOO_MANY_REQUESTS, 503})
# 501 and 505 are about the kind of request, so a retry cannot help
RETRIED = frozenset({408, 425}) | SLOW_DOWN | frozenset(range(500, 600)) - {501, 505}
# what a service, or a gateway before it, may answer if a page takes too long
OVERLOADED = frozenset({408, 500, 502, 504})
# how it may refuse a page size: bad request, content too large, URI too long, unprocessable content (RFC 9110, 15.5)
SIZE_REFUSED = frozenset({400, 413, 414, 422})
# RFC 1035, 2.3.4
LONGEST_HOST = 253
# beyond any retry budget; much longer waits overflow
LONGEST_RETRY_AFTER = 10.0**7
ADVICE = "Check base_url."
LONGEST_MESSAGE = 200
# no error document is longer
LONGEST_BODY = 2**16
NAMES = ("message", "error", "detail")
"""The fields of a JSON object that may say what is wrong."""
HIDDEN = "***"
# what a token may look like in any shape, and what an e-mail address looks like
SECRETS = re.compile(r"[\w.~+/=-]{24,}|\S+@\S+")


@dataclass(eq=False)
class Again(Exception):
    """The request failed, and a retry may succeed."""

    reason: str
    wait: float | None = None  # seconds the service asks to wait
    tries: int | None = None  # how often to try with such a failure; None for as long as the retry budget lasts
    is_late: bool = False  # whether there was no response in time
    may_be_size: bool = False  # whether a smaller page may succeed
    advice: str = ADVICE  # what to do once the last try has failed
    status: int | None = None  # of the response, if there was one
    said: str = ""  # the service's own words

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class SlowDown(Again):
    """The service asked to slow down, with 429 because of the rate of requests, or with 503 for other reasons."""


def check_status(response: "requests.Response", body: bytes, request: PageRequest, tokens: Tokens) -> None:
    """Return for a 200, otherwise raise what the status means."""
    status, where = response.status_code, request.title
    if status == 200:
        return
    said = service_words(body, tokens, request.private)
    if status in RETRIED:
        wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        reason = f"the service answered {status}"
        if status in SLOW_DOWN:
            raise SlowDown(reason, wait, status=status, said=said)
        # a service that says when to retry is overloaded or down, whatever the page size
        raise Again(reason, wait, may_be_size=status in OVERLOADED and wait is None, status=status, said=said)
    if status < 300:
        raise MalformedResponse(f"{where}: expected a status of 200, got {status}{said}.")
    if status < 400:
        host = redirect_host(response.headers.get("Location", ""))
        raise ServiceRejected(
            f"{where}: the service redirects ({status}) to {host}; redirects are not followed.",
            advice=ADVICE,
            status=status,
        )
    if status in (401, 403):
        raise NotAuthorized(
            f"{where}: the service refused the tokens ({status}){said}",
            advice="set new $access_token and refresh_token.",
            status=status,
        )
    raise ServiceRejected(
        f"{where}{shown_url(response)}: the service refused the request ({status}){said}.",
        advice=hint(status, request.listing.name),
        status=status,
    )


def redirect_host(location: str) -> str:
    """Return the host of a redirect; the rest may repeat what was sent."""
    try:
        host = urlsplit(location).hostname or "the same host"
    except ValueError:
        host = ""
    return host if host.isprintable() and 0 < len(host) <= LONGEST_HOST else "an address that cannot be read"


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the header's seconds or date (RFC 9110, 10.2.3) as seconds from now; None if it is neither."""
    if not header:
        return None
    if header.strip().isdecimal():
        return min(float(header), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(header)
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(LONGEST_RETRY_AFTER, max(0.0, seconds))


def shown_url(response: "requests.Response") -> str:
    """Return the URL of a request in parentheses, without its query, which may hold personal data."""
    url = urlsplit(str(response.url or ""))
    host = url.netloc.rpartition("@")[2]
    return f" ({url.scheme}://{host}{url.path})" if host else ""


def hint(status: int, listing: str) -> str:
    """Return what may help after a refusal."""
    if status in (400, 422) and listing == "templates":
        # not $search: the command's --search is for contacts
        filters = "$product_types, $is_shared, or search under [sources.letters.templates]"
        return f"It may require $account_id, {filters}, or need a smaller $page_size."
    if status in (400, 422):
        return "It may need a smaller $page_size, or another $date_format or $filter_encoding."
    return "Check base_url, which ends in /api/v1." if status == 404 else ""


def may_be_size(error: LettersError) -> bool:
    """Return whether a smaller page may succeed."""
    if isinstance(error, ServiceRejected):
        return error.status in SIZE_REFUSED
    if isinstance(error, MalformedResponse):
        return error.is_too_large
    return isinstance(error, ServiceUnreachable) and error.may_be_size


def service_words(body: bytes, tokens: Tokens, private: Collection[str] = ()) -> str:
    """Return the service's own words after a colon; empty if it has none, or they hold a token or a private text."""
    words = find_words(body)
    repeats_filter = any(text.casefold() in words.casefold() for text in private)
    if repeats_filter or tokens.access in words or tokens.refresh in words:
        # such words repeat the request, and may hold more of it
        return ""
    plain = "".join(letter if letter.isprintable() else " " for letter in SECRETS.sub(HIDDEN, words))
    line = " ".join(plain.split())[:LONGEST_MESSAGE].rstrip(". ")
    return f": {line}" if line else ""


def find_words(body: bytes) -> str:
    """Return the text of an error document: a field of a JSON object without data, or short plain text."""
    try:
        text = body.decode() if len(body) <= LONGEST_BODY else ""
        document = json.loads(text)
    except (ValueError, RecursionError):
        return plain_text(body)
    if not isinstance(document, dict) or "data" in document:
        return ""
    return next(filter(None, (text_of(document.get(name)) for name in NAMES)), "")


def text_of(value: Any) -> str:
    """Return a field's text, or that of the `message` within it."""
    inner = value.get("message") if isinstance(value, dict) else value
    return inner if isinstance(inner, str) else ""


def plain_text(body: bytes) -> str:
    """Return a body of short plain text; empty for markup, damaged JSON and anything else."""
    try:
        text = body.decode().strip() if len(body) <= LONGEST_MESSAGE else ""
    except ValueError:
        return ""
    return text if text[:1].isalpha() and "<" not in text else ""
