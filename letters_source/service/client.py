"""How is one page asked for? The only HTTP: one GET, decoded, or a named error; retried in this one layer."""

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cached_property
from gzip import GzipFile
from io import BytesIO
from random import uniform
from threading import Lock
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay
from tenacity.stop import stop_base
from urllib3.exceptions import HTTPError, ReadTimeoutError

from letters_source.errors import MalformedResponse, NotAuthorised, ServiceUnreachable
from letters_source.service.deadline import TimedAdapter
from letters_source.service.listings import Listing, page_title
from letters_source.service.responses import TOO_MANY_REQUESTS, Again, SlowDown, check_status
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import Tokens, TokenSource

logger = logging.getLogger("letters_source")
T = TypeVar("T")

CONNECT_SECONDS, READ_SECONDS = 10, 60
# 1,000 full rows are half a megabyte: what is far beyond any page is a mistake or an attack
MAX_BODY_BYTES = 256 * 2**20
# no page takes so long, however slow the service
ANSWER_SECONDS = 300
CHUNK_BYTES = 2**18
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30


class OneAddress(requests.Session):
    """A session that does not look where a redirect leads: requests would read its body for that, however large."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Nowhere."""


class Client:
    """Asks one service for pages; safe for many threads.

    `traffic` counts requests, retries, and the answers that asked to slow down (throttled).
    """

    def __init__(self, base_url: str, tokens: TokenSource, throttle: Throttle, retry_budget: float) -> None:
        self.base_url, self.tokens, self.throttle, self.retry_budget = base_url, tokens, throttle, retry_budget
        self.traffic: Counter[str] = Counter()
        self._counting = Lock()
        self.session = OneAddress()
        # no proxies, netrc or certificates from the environment: tokens go where base_url says, and nowhere else
        self.session.trust_env = False
        seconds = min(ANSWER_SECONDS, retry_budget)
        adapter = TimedAdapter(seconds, pool_connections=1, pool_maxsize=throttle.workers)
        # not base_url itself, which is sent escaped and would not be found
        for scheme in ("https://", "http://"):
            self.session.mount(scheme, adapter)

    def __enter__(self) -> Self:
        self.throttle.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.throttle.stop()
        self.session.close()

    def get(self, listing: Listing, params: Mapping[str, str], decode: Callable[[bytes], T]) -> T:
        """One page, decoded.

        Raises:
            NotAuthorised: the tokens were refused, and reading the secrets again gave no others.
            ServiceRejected: the service refused the request.
            ServiceUnreachable: no usable answer within the retry budget.
            MalformedResponse: an answer that is not the documented envelope.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(Again),
            wait=wait_seconds,
            stop=StopAfterTries() | stop_before_delay(self.retry_budget),
            sleep=self.throttle.wait,
            before_sleep=self._before_retry,
            reraise=True,
        )
        try:
            answer: T = retrying(self._attempt, listing, params, decode)
        except Again as again:
            raise self._give_up(again, page_title(listing.name, params["page"])) from None
        return answer

    def _attempt(self, listing: Listing, params: Mapping[str, str], decode: Callable[[bytes], T]) -> T:
        """One request; raises `Again` where another may go well."""
        with self.throttle.slot() as began:
            try:
                body = self._authorised(listing, params)
            except SlowDown as again:
                self._count("throttled")
                wait = FIRST_WAIT_SECONDS if again.wait is None else again.wait
                self.throttle.push_back(began, wait, learn=again.status == TOO_MANY_REQUESTS)
                raise
            except Again as again:
                if again.wait:
                    self.throttle.park(again.wait)
                raise
        self.throttle.succeeded()
        try:
            return decode(body)
        except MalformedResponse as error:
            if error.transient:
                raise Again("a body that is not JSON", tries=3, error=error) from None
            raise

    def _authorised(self, listing: Listing, params: Mapping[str, str]) -> bytes:
        """The body; where the tokens are refused, the secrets are read again, once."""
        tokens = self.tokens.current()
        try:
            return self._send(listing, params, tokens)
        except NotAuthorised:
            if not self.tokens.renew(tokens):
                raise
        logger.info("The tokens were refused; the secrets hold others by now, which are tried.")
        return self._send(listing, params, self.tokens.current())

    def _send(self, listing: Listing, params: Mapping[str, str], tokens: Tokens) -> bytes:
        """The body of one response, within bounds of size and time."""
        self._count("requests")
        where = page_title(listing.name, params["page"])
        try:
            response = self.session.send(
                self._request(listing, params, tokens),
                allow_redirects=False,
                stream=True,
                timeout=(CONNECT_SECONDS, min(READ_SECONDS, self.retry_budget)),
            )
            with closing(response):
                body = b"" if response.is_redirect else read_body(response, where)
        except requests.exceptions.SSLError as error:
            raise untrusted(where, error) from None
        except (requests.RequestException, HTTPError, OSError, EOFError, zlib.error) as error:
            raise Again(describe(error)) from None
        check_status(response, body, listing.name, where, tokens)
        return body

    @cached_property
    def _prepared(self) -> requests.PreparedRequest:
        """What is the same for each page, and a fifth of the work for a request; its URL is escaped and in ASCII."""
        # a cache in between would serve pages of different times, which cannot be told apart
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        return self.session.prepare_request(requests.Request("GET", self.base_url, headers=headers))

    def _request(self, listing: Listing, params: Mapping[str, str], tokens: Tokens) -> requests.PreparedRequest:
        """One page's request; the tokens come last, so that nothing else sets their headers."""
        request = self._prepared.copy()
        request.url = f"{str(request.url).rstrip('/')}{listing.path}?{urlencode(params, quote_via=quote)}"
        request.prepare_cookies(self.session.cookies)
        request.headers.update(tokens.headers(refresh=listing.sends_refresh_token))
        return request

    def _count(self, what: str) -> None:
        with self._counting:
            self.traffic[what] += 1

    def _before_retry(self, state: RetryCallState) -> None:
        # what broke off because all ends is no failure
        self.throttle.check()
        self._count("retries")
        again = outcome(state)
        logger.warning(
            "%s: %s; asking again in %.1f s.",
            page_title(state.args[0].name, state.args[1]["page"]),
            again,
            state.upcoming_sleep,
        )

    def _give_up(self, again: Again, where: str) -> Exception:
        if again.error:
            return again.error
        wish = f", which asks to wait {again.wait:.0f} s" if again.wait else ""
        return ServiceUnreachable(
            f"{where}: {again}{wish}; given up after {self.retry_budget:.0f} s. Check base_url ({self.base_url}); "
            "how long a load tries is sources.letters.retry_budget."
        )


def read_body(response: requests.Response, where: str) -> bytes:
    """The body, unpacked where it is gzip, the one encoding that is asked for.

    Not by urllib3: where a gzip member ends with a chunk, its decoder (2.8) doubles what it has not unpacked yet, so
    that 0.4 MB of members take all memory within 20 chunks.

    Raises:
        MalformedResponse: it is larger than any page would be.
    """
    packed = response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
    stream = GzipFile(fileobj=response.raw, mode="rb") if packed else response.raw
    body = BytesIO()
    while chunk := stream.read1(CHUNK_BYTES):
        body.write(chunk)
        if body.tell() > MAX_BODY_BYTES:
            raise MalformedResponse(
                f"{where}: the body is larger than {MAX_BODY_BYTES} bytes; set a smaller page_size."
            )
    return body.getvalue()


def outcome(state: RetryCallState) -> Again:
    """Why the last try is to be repeated."""
    error: Any = state.outcome and state.outcome.exception()
    again: Again = error
    return again


def wait_seconds(state: RetryCallState) -> float:
    """The service's own wish, plus jitter that spreads the workers; else exponential with full jitter."""
    again = outcome(state)
    if again.wait is not None:
        return again.wait + uniform(0, 0.1)
    return uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**state.attempt_number))


class StopAfterTries(stop_base):
    """Stops when a kind of failure has had its tries; what else went wrong in between does not count among them."""

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether the last failure's kind has used up its tries; asked once after each try."""
        again = outcome(retry_state)
        self._met[str(again)] += 1
        return again.tries is not None and self._met[str(again)] >= again.tries


def untrusted(where: str, error: requests.exceptions.SSLError) -> Again:
    """Why there is no TLS: a handshake may have been cut, a certificate stays what it is."""
    is_refused = "CERTIFICATE_VERIFY_FAILED" in str(error)
    what = "the service's certificate cannot be verified" if is_refused else "the service speaks no TLS there"
    final = ServiceUnreachable(f"{where}: no trusted TLS connection: {what}; check sources.letters.base_url.")
    return Again("no trusted TLS connection", tries=1 if is_refused else 3, error=final)


def describe(error: Exception) -> str:
    """What went wrong with a connection, without its address or contents."""
    if isinstance(error, requests.exceptions.Timeout | ReadTimeoutError):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection to the service"
    return "an answer cut short"
