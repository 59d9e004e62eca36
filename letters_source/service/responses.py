"""What the status of a response means: success, a retry, or an error with its message."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from letters_source.errors import LettersError, MalformedResponse, NotAuthorized, ServiceRejected, ServiceUnreachable
from letters_source.service.limit_headers import is_used_up, limit_ends_in, retry_after
from letters_source.service.page_request import PageRequest
from letters_source.service.tokens import Tokens, told

if TYPE_CHECKING:
    import requests

# 203 is a 200 whose headers, or the form of whose body, a proxy changed (RFC 9110, 15.3.4)
WHOLE = frozenset({200, 203})
MISDIRECTED = 421
UNAVAILABLE = 503
SLOW_DOWN = frozenset({429, UNAVAILABLE})
# 501 and 505 are about the kind of request, so a retry cannot help; for 421, another connection can
RETRIED = frozenset({408, MISDIRECTED, 425}) | SLOW_DOWN | frozenset(range(500, 600)) - {501, 505}
# what a service, or a gateway before it, may answer if a page takes too long
OVERLOADED = frozenset({408, 500, 502, 504})
# how it may refuse a page size: bad request, content too large, URI too long, unprocessable content (RFC 9110, 15.5)
SIZE_REFUSED = frozenset({400, 413, 414, 422})
# RFC 1035, 2.3.4
LONGEST_HOST = 253
ADVICE = "Check base_url."
REFUSED_TOKENS = frozenset({401, 403})
LONGEST_MESSAGE = 200
# no error document is longer
LONGEST_BODY = 2**16
NAMES = ("message", "error", "errors", "detail", "title")
"""The fields of a JSON object that may say what is wrong."""
NOT_JSON = object()
HIDDEN = "***"
# what a token may look like in any shape, and what an e-mail address looks like
SECRETS = re.compile(r"[\w.~+/=-]{24,}|\S+@\S+")
LIMIT_WORDS = re.compile(
    rb"(?:rate|requests?|calls?|api|usage)[\s_-]*limit|too many (?:requests|calls|attempts)|throttl|quota"
    rb"|slow[\s_-]*down|request rate|rate exceeded|(?:number of|requests|calls)\W*(?:requests|calls|per\b|/|exceeded)",
    re.IGNORECASE,
)


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


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier responses have shown: that the service accepts the tokens, and that it has the listing."""

    accepts_tokens: bool = False
    has_listing: bool = False


def check_status(
    response: "requests.Response", body: bytes, request: PageRequest, tokens: Tokens, earlier: Earlier
) -> None:
    """Return for a success with a whole body, otherwise raise what the status means."""
    if response.status_code in WHOLE:
        return
    said = service_words(body, tokens, request.private)
    if again := may_pass(response, body, request, earlier):
        raise replace(again, said=said)
    raise refusal(response, said, request, tokens)


def may_pass(response: "requests.Response", body: bytes, request: PageRequest, earlier: Earlier) -> Again | None:
    """Return the failure of a response after which a retry may succeed; None for all others."""
    status, now = response.status_code, datetime.now(UTC)
    reason, wait = f"the service answered {status}", retry_after(response.headers.get("Retry-After"), now)
    if is_limit(response, body, earlier):
        used_up = status != UNAVAILABLE or is_used_up(response.headers, now)
        wait = limit_ends_in(response.headers, now) if wait is None and used_up else wait
        return SlowDown(reason, wait, status=status)
    if status in RETRIED or (status == 404 and earlier.has_listing) or (wait is not None and may_wait(status, request)):
        # a service that says when to retry is overloaded or down, whatever the page size
        return Again(reason, wait, may_be_size=status in OVERLOADED and wait is None, status=status)
    return None


def is_limit(response: "requests.Response", body: bytes, earlier: Earlier) -> bool:
    """Return whether a response asks to slow down; a 401 or 403 does so only after the tokens have been accepted."""
    status, headers = response.status_code, response.headers
    if status in SLOW_DOWN:
        return True
    if not earlier.accepts_tokens or status not in REFUSED_TOKENS:
        return False
    if "Retry-After" in headers:
        return True
    return status == 403 and (is_used_up(headers, datetime.now(UTC)) or bool(LIMIT_WORDS.search(body, 0, LONGEST_BODY)))


def may_wait(status: int, request: PageRequest) -> bool:
    """Return whether a status may pass if the response says when: not a redirect, refused tokens, or a refused size."""
    return not (300 <= status < 400 or status in REFUSED_TOKENS or (request.is_trial and status in SIZE_REFUSED))


def refusal(response: "requests.Response", said: str, request: PageRequest, tokens: Tokens) -> LettersError:
    """Return the error of a response after which a retry cannot help."""
    status, where = response.status_code, request.title
    if status < 300:
        return MalformedResponse(f"{where}: expected a status of 200, got {status}{said}.")
    if status < 400:
        host = redirect_host(response.headers.get("Location", ""))
        return ServiceRejected(
            f"{where}: the service redirects ({status}) to {host}; redirects are not followed.",
            advice=ADVICE,
            status=status,
        )
    if status in REFUSED_TOKENS:
        return NotAuthorized(
            f"{where}: the service refused the tokens ({status}){said}",
            advice=f"set new $access_token and refresh_token.{told('They are', tokens.origins)}",
            status=status,
        )
    return ServiceRejected(
        f"{where}{shown_url(response)}: the service refused the request ({status}){said}.",
        advice=hint(status, request.listing.name),
        status=status,
    )


def not_a_page(
    error: MalformedResponse, body: bytes, tokens: Tokens, private: Collection[str], *, has_listing: bool
) -> MalformedResponse | Again:
    """Return what a body without a page means.

    A retry may end the error if the body has no data, or if other pages of the listing were answered as documented.
    """
    said, document = service_words(body, tokens, private), read_document(body)
    is_empty = isinstance(document, dict) and not document.get("data")
    if is_empty or (has_listing and document is not NOT_JSON and not is_page(document)):
        reason = f"the service answered 200 without {'data' if is_empty else 'a page'}"
        kind = SlowDown if LIMIT_WORDS.search(body) else Again
        return kind(reason, may_be_size=kind is Again, status=200, said=said)
    words = said and f" The service says{said}."
    return MalformedResponse(f"{error}{words}", transient=error.transient)


def is_page(document: Any) -> bool:
    """Return whether a JSON document has the form of a page, whatever its rows are."""
    data = document.get("data") if isinstance(document, dict) else None
    return isinstance(data, dict) and "count" in data and isinstance(data.get("rows"), list)


def redirect_host(location: str) -> str:
    """Return the host of a redirect; the rest may repeat what was sent."""
    try:
        host = urlsplit(location).hostname or "the same host"
    except ValueError:
        host = ""
    return host if host.isprintable() and 0 < len(host) <= LONGEST_HOST else "an address that cannot be read"


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
    document = read_document(body)
    if document is NOT_JSON:
        return plain_text(body)
    if not isinstance(document, dict) or document.get("data"):
        return ""
    return next(filter(None, (text_of(document.get(name)) for name in NAMES)), "")


def read_document(body: bytes) -> Any:
    """Return a body's JSON, or `NOT_JSON`; pages are longer than what is read here."""
    try:
        return json.loads(body.decode() if len(body) <= LONGEST_BODY else "")
    except (ValueError, RecursionError):
        return NOT_JSON


def text_of(value: Any) -> str:
    """Return a field's text, or that of the `message` within it, or within the first of a list."""
    value = value[0] if isinstance(value, list) and value else value
    inner = value.get("message") if isinstance(value, dict) else value
    return inner if isinstance(inner, str) else ""


def plain_text(body: bytes) -> str:
    """Return a body of short plain text; empty for markup, damaged JSON and anything else."""
    try:
        text = body.decode().strip() if len(body) <= LONGEST_MESSAGE else ""
    except ValueError:
        return ""
    return text if text[:1].isalpha() and "<" not in text else ""
