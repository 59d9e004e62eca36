"""What does a response's status mean: go on, ask again, or give up, and with which words?"""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import requests

from letters_source.errors import LettersError, MalformedResponse, NotAuthorised, ServiceRejected
from letters_source.tokens import Tokens

SLOW_DOWN = frozenset({429, 503})
# 501 and 505 are about the request's kind, which stays the same
RETRIED = frozenset({408, 425, 429}) | frozenset(range(500, 600)) - {501, 505}
LONGEST_MESSAGE = 200


class Again(Exception):
    """The request may go well when sent again.

    `wait` is the service's own wish in seconds, `tries` how often such a failure is worth trying, and `error` what to
    raise when it stays so.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait: float | None = None,
        slow_down: bool = False,
        tries: int | None = None,
        error: LettersError | None = None,
    ) -> None:
        super().__init__(reason)
        self.wait, self.slow_down, self.tries, self.error = wait, slow_down, tries, error


def check_status(response: requests.Response, body: bytes, where: str, tokens: Tokens) -> None:
    """Return for a 200, else raise what the status means.

    Raises:
        Again: 408, 425, 429, most 5xx.
        NotAuthorised: 401, 403.
        ServiceRejected: a redirect, and any other status that stays so.
        MalformedResponse: another 2xx.
    """
    status = response.status_code
    if status == 200:
        return
    if status in RETRIED:
        wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        raise Again(f"the service answered {status}", wait=wait, slow_down=status in SLOW_DOWN)
    if status < 300:
        raise MalformedResponse(f"{where}: expected a status of 200, got {status}.")
    if status < 400:
        host = urlsplit(response.headers.get("Location", "")).hostname or "the same host"
        raise ServiceRejected(f"{where}: the service redirects ({status}) to {host}, not followed; check base_url.")
    if status in (401, 403):
        raise NotAuthorised(
            f"{where}: the service refused the tokens ({status}); "
            "set new sources.letters.access_token and refresh_token."
        )
    said = service_message(body, tokens)
    raise ServiceRejected(f"{where}: the service refused the request ({status}){said}.{hint(status, where)}")


def retry_after(header: str | None, now: datetime) -> float | None:
    """The header's seconds or date (RFC 9110, 10.2.3) as seconds from now; None where it says neither."""
    if not header:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def service_message(body: bytes, tokens: Tokens) -> str:
    """The service's own words, where they are short text and hold no token."""
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(message, str) or tokens.access in message or tokens.refresh in message:
        return ""
    words = "".join(letter if letter.isprintable() else " " for letter in message[:LONGEST_MESSAGE])
    return f": {words.rstrip('.')}"


def hint(status: int, where: str) -> str:
    """What may help against a refusal."""
    if status in (400, 422) and where.startswith("templates"):
        return " It may require account_id, or search, product_types and is_shared of [sources.letters.templates]."
    if status == 404:
        return " Check base_url, which ends in /api/v1."
    return ""
