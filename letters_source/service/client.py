"""The HTTP client: one GET that returns bytes, and the one layer of retries."""

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
from typing import Self, TypeVar, cast
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
# 1,000 full rows take half a megabyte; anything far larger than a page is a mistake or an attack
MAX_BODY_BYTES = 256 * 2**20
# longer than any page takes, however slow the service
ANSWER_SECONDS = 300
CHUNK_BYTES = 2**18
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30


class OneAddress(requests.Session):
    """A session that ignores redirects: to follow one, requests would read its body, however large."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return no target."""


class Client:
    """Sends requests to one service, and counts them in `traffic`: requests, retries, throttled. Thread-safe."""

    def __init__(self, base_url: str, tokens: TokenSource, throttle: Throttle, retry_budget: float) -> None:
        self.base_url, self.tokens, self.throttle, self.retry_budget = base_url, tokens, throttle, retry_budget
        self.traffic: Counter[str] = Counter()
        self._counting = Lock()
        self.session = OneAddress()
        # no proxies, netrc or certificates from the environment: tokens go to base_url and nowhere else
        self.session.trust_env = False
        seconds = min(ANSWER_SECONDS, retry_budget)
        adapter = TimedAdapter(seconds, pool_connections=1, pool_maxsize=throttle.workers)
        # mounted by scheme: base_url is escaped when it is sent, and a mount of its own would not match
        for scheme in ("https://", "http://"):
            self.session.mount(scheme, adapter)

    def __enter__(self) -> Self:
        self.throttle.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.throttle.stop()
        self.session.close()

    def retry(self, where: str, call: Callable[[], T]) -> T:
        """Return what `call` returns; try again while its failures may pass and the retry budget lasts."""
        retrying = Retrying(
            retry=retry_if_exception_type(Again),
            wait=wait_seconds,
            stop=StopAfterTries() | stop_before_delay(self.retry_budget),
            sleep=self.throttle.wait,
            before_sleep=self._before_retry,
            reraise=True,
        )
        try:
            result: T = retrying(attempt, call, where)
        except Again as again:
            raise again.error or self._gave_up(again, where) from None
        return result

    def get(self, listing: Listing, params: Mapping[str, str]) -> bytes:
        """Send one request and return the body of its response, or raise; `retry` deals with `Again`."""
        with self.throttle.slot() as began:
            try:
                body = self._authorised(listing, params)
            except Again as again:
                self._slow_down(again, began)
                raise
        self.throttle.succeeded()
        return body

    def _slow_down(self, again: Again, began: float) -> None:
        """Make all workers wait as long as the service asks, and send less at once."""
        if isinstance(again, SlowDown):
            self._count("throttled")
            wait = FIRST_WAIT_SECONDS if again.wait is None else again.wait
            self.throttle.push_back(began, wait, learn=again.status == TOO_MANY_REQUESTS)
        elif again.is_late:
            self.throttle.push_back(began, 0, learn=False)
        elif again.wait:
            self.throttle.park(again.wait)

    def _authorised(self, listing: Listing, params: Mapping[str, str]) -> bytes:
        """Return the body; if the tokens are refused, read the secrets again, once."""
        tokens = self.tokens.current()
        try:
            return self._send(listing, params, tokens)
        except NotAuthorised:
            if not self.tokens.renew(tokens):
                raise
        logger.info("The service refused the tokens; trying again with new ones from the secrets.")
        return self._send(listing, params, self.tokens.current())

    def _send(self, listing: Listing, params: Mapping[str, str], tokens: Tokens) -> bytes:
        """Return the body of one response, within bounds of size and time."""
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
            raise failed(error) from None
        check_status(response, body, listing.name, where, tokens)
        return body

    @cached_property
    def _prepared(self) -> requests.PreparedRequest:
        """The part of a request that is the same for each page, a fifth of the work; its URL is escaped ASCII."""
        # a cache on the way could mix pages of different times unnoticed
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        return self.session.prepare_request(requests.Request("GET", self.base_url, headers=headers))

    def _request(self, listing: Listing, params: Mapping[str, str], tokens: Tokens) -> requests.PreparedRequest:
        """Return one page's request; tokens are set last, so that nothing else sets their headers."""
        request = self._prepared.copy()
        request.url = f"{str(request.url).rstrip('/')}{listing.path}?{urlencode(params, quote_via=quote)}"
        request.prepare_cookies(self.session.cookies)
        request.headers.update(tokens.headers(refresh=listing.sends_refresh_token))
        return request

    def _count(self, what: str) -> None:
        with self._counting:
            self.traffic[what] += 1

    def _before_retry(self, state: RetryCallState) -> None:
        # a request that was cut off by the end of the run is not a failure
        self.throttle.check()
        self._count("retries")
        logger.warning("%s: %s; trying again in %.1f s.", state.args[1], outcome(state), state.upcoming_sleep)

    def _gave_up(self, again: Again, where: str) -> ServiceUnreachable:
        wish = f", which asks to wait {again.wait:.0f} s" if again.wait else ""
        return ServiceUnreachable(
            f"{where}: {again}{wish}; gave up after {self.retry_budget:.0f} s. Check base_url ({self.base_url}), "
            "or raise sources.letters.retry_budget."
        )


def attempt(call: Callable[[], T], _where: str) -> T:
    """Return what `call` returns; a body that is not JSON may have been cut short, so it is tried up to 3 times."""
    try:
        return call()
    except MalformedResponse as error:
        if not error.transient:
            raise
        raise Again("a body that is not JSON", tries=3, error=error) from None


def read_body(response: requests.Response, where: str) -> bytes:
    """Return the body, decompressed if it is gzip, or raise `MalformedResponse` if it is far larger than any page."""
    # not by urllib3 (2.8): 0.4 MB of gzip members that end with their chunks fill all memory within 20 chunks
    packed = response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
    stream = GzipFile(fileobj=response.raw, mode="rb") if packed else response.raw
    body = BytesIO()
    while chunk := stream.read1(CHUNK_BYTES):
        body.write(chunk)
        if body.tell() > MAX_BODY_BYTES:
            raise MalformedResponse(
                f"{where}: the body is larger than {MAX_BODY_BYTES} bytes; set a smaller page_size.", is_too_large=True
            )
    return body.getvalue()


def outcome(state: RetryCallState) -> Again:
    """Return why the last try failed."""
    return cast("Again", state.outcome and state.outcome.exception())


def wait_seconds(state: RetryCallState) -> float:
    """Return the wait that the service asks for, plus jitter; otherwise exponential backoff with full jitter."""
    again = outcome(state)
    if again.wait is not None:
        return again.wait + uniform(0, 0.1)
    return uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**state.attempt_number))


class StopAfterTries(stop_base):
    """Stops when one kind of failure has used up its tries; other failures in between do not count."""

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Return whether the last failure's kind has used up its tries; called once after each try."""
        again = outcome(retry_state)
        self._met[str(again)] += 1
        return again.tries is not None and self._met[str(again)] >= again.tries


def untrusted(where: str, error: requests.exceptions.SSLError) -> Again:
    """Return why there is no TLS: a handshake may have been cut short, but a bad certificate stays bad."""
    is_refused = "CERTIFICATE_VERIFY_FAILED" in str(error)
    what = "the service's certificate cannot be verified" if is_refused else "the server does not speak TLS"
    final = ServiceUnreachable(f"{where}: no trusted TLS connection: {what}; check sources.letters.base_url.")
    return Again("no trusted TLS connection", tries=1 if is_refused else 3, error=final)


def failed(error: Exception) -> Again:
    """Return what went wrong with a request that had no complete response."""
    has_no_connection = isinstance(error, requests.exceptions.ConnectTimeout)
    is_late = not has_no_connection and isinstance(error, requests.exceptions.Timeout | ReadTimeoutError)
    return Again(describe(error), is_late=is_late, may_be_size=is_late)


def describe(error: Exception) -> str:
    """Return what went wrong with a connection, without its address or contents."""
    if isinstance(error, requests.exceptions.Timeout | ReadTimeoutError):
        return "no response in time"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection to the service"
    return "a response cut short"
