"""The HTTP client: sends the request for a page until its body can be read, or raises a named error."""

import logging
import zlib
from collections import Counter
from collections.abc import Hashable
from contextlib import closing
from functools import cached_property
from gzip import GzipFile
from io import BytesIO
from threading import Lock
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import requests
from tenacity import RetryCallState
from urllib3.exceptions import HTTPError

from letters_source.errors import MalformedResponse, NotAuthorized, ServiceUnreachable
from letters_source.service.deadline import TimedAdapter
from letters_source.service.failures import PROXY_AUTHENTICATION, failed, refused_by_proxy
from letters_source.service.network import DIRECT, Network
from letters_source.service.page_request import Decode, PageRequest
from letters_source.service.responses import (
    MISDIRECTED,
    UNAVAILABLE,
    Again,
    Earlier,
    SlowDown,
    check_status,
    not_a_page,
)
from letters_source.service.retries import FIRST_WAIT_SECONDS, failure, retrying
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import Tokens, TokenSource

logger = logging.getLogger("letters_source")
T = TypeVar("T")

CONNECT_SECONDS, READ_SECONDS = 10, 60
# 1,000 full rows take half a megabyte; anything far larger than a page is a mistake or an attack
MAX_BODY_BYTES = 256 * 2**20
# as many pages as there are requests in flight must fit into memory
MAX_TRIAL_BYTES = 8 * 2**20
# longer than any page takes, however slow the service
ANSWER_SECONDS = 300
CHUNK_BYTES = 2**18
# decoding holds the GIL: pages decoded at once wait for each other, and a pass takes a quarter longer
ONE_AT_A_TIME = Lock()


class OneAddress(requests.Session):
    """A session that ignores redirects: to follow one, requests would read its body, however large."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return no target."""


class Client:
    """Sends requests to one service, and counts them in `traffic`: requests, retries, throttled. Thread-safe."""

    def __init__(
        self, base_url: str, tokens: TokenSource, throttle: Throttle, retry_budget: float, network: Network = DIRECT
    ) -> None:
        self.base_url, self.tokens, self.throttle, self.retry_budget = base_url, tokens, throttle, retry_budget
        self.network = network
        self.traffic: Counter[str] = Counter()
        self._counting = Lock()
        self._listed: set[Hashable] = set()
        self._warned: set[str] = set()
        self.session = OneAddress()
        # no proxies, netrc or certificates from the environment: tokens go to base_url and nowhere else
        self.session.trust_env = False
        self.session.proxies = network.proxies
        self.session.verify = network.ca_bundle or True
        self.session.cert = network.certificate
        seconds = min(ANSWER_SECONDS, retry_budget)
        adapter = TimedAdapter(seconds, throttle.workers)
        # mounted by scheme: base_url is escaped before the mount is looked up, so its own mount would not match
        for scheme in ("https://", "http://"):
            self.session.mount(scheme, adapter)

    def __enter__(self) -> Self:
        self.throttle.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.throttle.stop()
        self.session.close()

    def get(self, request: PageRequest, decode: Decode[T]) -> T:
        """Return the decoded page; retry while a failure of the request or of `decode` may be temporary."""
        call = retrying(self.retry_budget, self.throttle.wait, self._before_retry, is_trial=request.is_trial)
        try:
            result: T = call(self._attempt, request, decode)
        except Again as again:
            raise self._gave_up(again, request) from None
        if call.statistics["attempt_number"] > 1:
            self._warned.clear()
        return result

    def _attempt(self, request: PageRequest, decode: Decode[T]) -> T:
        """Send the request once the throttle allows it, and decode its body; a failure may slow down all workers."""
        with self.throttle.slot() as began:
            try:
                body = self._authorized(request)
            except Again as again:
                self._slow_down(again, began)
                raise
        self.throttle.succeeded()
        try:
            with ONE_AT_A_TIME:
                page = decode(body, request.listing.name, request.page)
        except MalformedResponse as error:
            has_listing = self._has_listing(request)
            found = not_a_page(error, body, self.tokens.current(), request.private, has_listing=has_listing)
        else:
            self._listed.add(listed(request))
            return page
        if isinstance(found, Again):
            self._slow_down(found, began)
        raise found

    def _slow_down(self, again: Again, began: float) -> None:
        """Make all workers wait as long as the service asks, and lower concurrency."""
        if isinstance(again, SlowDown):
            self._count("throttled")
            wait = FIRST_WAIT_SECONDS if again.wait is None else again.wait
            self.throttle.push_back(began, wait, learn=again.status != UNAVAILABLE)
        elif again.is_late:
            self.throttle.push_back(began, 0, learn=False)
        elif again.wait:
            self.throttle.park(again.wait)

    def _authorized(self, request: PageRequest) -> bytes:
        """Return the body; if the tokens are refused, read the secrets again, once."""
        tokens = self.tokens.current()
        try:
            return self._send(request, tokens)
        except NotAuthorized:
            if not self.tokens.renew(tokens):
                raise
        logger.info("The service refused the tokens; trying again with new ones from the secrets.")
        return self._send(request, self.tokens.current())

    def _send(self, request: PageRequest, tokens: Tokens) -> bytes:
        """Return the body of one response, within bounds of size and time."""
        self._count("requests")
        try:
            response = self.session.send(
                self._prepare(request, tokens),
                allow_redirects=False,
                stream=True,
                timeout=(min(CONNECT_SECONDS, self.retry_budget), min(READ_SECONDS, self.retry_budget)),
            )
            with closing(response):
                # a connection whose body is not read is closed, so a retry after a 421 takes another one
                is_unread = response.is_redirect or response.status_code == MISDIRECTED
                body = b"" if is_unread else read_body(response, request)
        except (requests.RequestException, HTTPError, OSError, EOFError, zlib.error) as error:
            raise failed(error, self.base_url, self.network) from None
        if response.status_code == PROXY_AUTHENTICATION and self.network.proxy:
            raise refused_by_proxy(response.status_code, self.network)
        earlier = Earlier(self.tokens.are_accepted(tokens), self._has_listing(request))
        check_status(response, body, request, tokens, earlier)
        self.tokens.accept(tokens)
        return body

    def _has_listing(self, request: PageRequest) -> bool:
        """Return whether the service has answered a page of the listing, and the page size is not on trial."""
        return listed(request) in self._listed and not request.is_trial

    @cached_property
    def _prepared(self) -> requests.PreparedRequest:
        """The part of a request that is the same for each page, a fifth of the work; its URL is escaped ASCII."""
        # a cache on the way could mix pages of different times unnoticed
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"}
        return self.session.prepare_request(requests.Request("GET", self.base_url, headers=headers))

    def _prepare(self, request: PageRequest, tokens: Tokens) -> requests.PreparedRequest:
        """Return the HTTP request for a page; tokens are set last, so that nothing else sets their headers."""
        listing, prepared = request.listing, self._prepared.copy()
        query = urlencode(request.params, quote_via=quote)
        prepared.url = f"{str(prepared.url).rstrip('/')}{listing.path}?{query}"
        prepared.prepare_cookies(self.session.cookies)
        prepared.headers.update(tokens.headers(refresh=listing.sends_refresh_token))
        return prepared

    def _count(self, what: str) -> None:
        with self._counting:
            self.traffic[what] += 1

    def _before_retry(self, state: RetryCallState) -> None:
        # a request that was cut off by the end of the run is not a failure
        self.throttle.check()
        self._count("retries")
        request: PageRequest = state.args[0]
        reason, soon = str(failure(state)), f"{state.upcoming_sleep:.1f}"
        # one warning for a failure that repeats, whatever the number of pages it meets
        level = logging.DEBUG if reason in self._warned else logging.WARNING
        self._warned.add(reason)
        when = "at once" if soon == "0.0" else f"in {soon} s"
        logger.log(level, "%s: %s; trying again %s.", self._where(request), reason, when)

    def _gave_up(self, again: Again, request: PageRequest) -> ServiceUnreachable:
        """Return the error of a request that failed for good, or for as long as the retry budget lasted."""
        what, advice = f"{self._where(request)}: {again}{again.said}", again.advice
        is_early = again.tries or (request.is_trial and again.may_be_size)
        if not is_early:
            asked = f" and asks to wait {again.wait:.1f}".removesuffix(".0") + " s" if again.wait else ""
            what += f"{asked}; gave up within {f'{self.retry_budget:.1f}'.removesuffix('.0')} s"
            # of loads, because a check gives up early whatever the setting
            advice += " To let loads retry longer, raise $retry_budget."
        return ServiceUnreachable(f"{what}.", advice=advice, may_be_size=again.may_be_size, status=again.status)

    def _where(self, request: PageRequest) -> str:
        """Return what was requested where, without the query, whose filters may hold personal data."""
        return f"{request.title} ({self.base_url}{request.listing.path})"


def listed(request: PageRequest) -> Hashable:
    """Return what is the same for all pages of a listing."""
    return request.listing.name, frozenset(request.filters.items())


def read_body(response: requests.Response, request: PageRequest) -> bytes:
    """Return the body, decompressed if it is gzip, or raise `MalformedResponse` if it is far larger than any page."""
    most = MAX_TRIAL_BYTES if request.is_trial else MAX_BODY_BYTES
    # not decompressed by urllib3 (2.8): 0.4 MB of gzip members that each end with a chunk fill all memory in 20 chunks
    packed = response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
    stream = GzipFile(fileobj=response.raw, mode="rb") if packed else response.raw
    body = BytesIO()
    while chunk := stream.read1(CHUNK_BYTES):
        body.write(chunk)
        if body.tell() > most:
            raise MalformedResponse(
                f"{request.title}: the body is larger than {most} bytes",
                advice="set a smaller $page_size.",
                is_too_large=True,
            )
    return body.getvalue()
