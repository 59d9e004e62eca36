"""The shipped emulator, extended with faults, canned replies and a request log."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from letters_source import emulator as shipped
from letters_source.emulator import sample_rows
from letters_source.emulator.emulator import error, pause
from letters_source.emulator.listing import Predicate
from programmable_emulator.behavior import Behavior
from programmable_emulator.canned_replies import CannedReplies, Hold, When
from programmable_emulator.changing_listing import ChangingListing
from programmable_emulator.rate_limits import build_limiter

TODAY = date(2025, 1, 1)
"""The day of the emulator, so that tests have the same rows every day; contacts were last mailed in 2024."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A request and the status of its response; numbers count from 1 from the creation of the emulator."""

    number: int
    path: str
    query: str
    status: int


class Emulator(shipped.Emulator):
    """A letter mailing service on loopback that tests change while it is served.

    Rows change through the listings, tokens and behavior by assignment, responses through `canned`. Anything else
    changes in `before_answer`, which is called with the emulator and the request's number before each response.
    """

    contacts: ChangingListing
    templates: ChangingListing

    def __init__(
        self, contacts: int = 250, templates: int = 40, *, seed: int = 1, behavior: Behavior | None = None
    ) -> None:
        super().__init__(0, 0, today=TODAY)
        self.contacts = ChangingListing(sample_rows.contacts(seed, TODAY), contacts)
        self.templates = ChangingListing(sample_rows.templates(seed), templates)
        self.behavior = behavior or Behavior()
        self.canned = CannedReplies()
        self.hits: list[Hit] = []
        self.ports: list[int] = []
        self.holds: list[Hold] = []
        self.before_answer: Callable[[Emulator, int], None] | None = None
        self._numbers = itertools.count(1)
        self._random = {"templates": Random(f"t {seed}"), "contacts": Random(f"c {seed}")}

    @property
    def behavior(self) -> Behavior:
        """How the service misbehaves; an assignment also resets the rate limit."""
        return self._behavior

    @behavior.setter
    def behavior(self, behavior: Behavior) -> None:
        self._behavior = behavior
        self._places = asyncio.Semaphore(behavior.at_once)
        self.limiter = build_limiter(behavior)

    @contextmanager
    def hold(self, *requests: When) -> Iterator[list[Hold]]:
        """Hold the first request that matches each of these, at the latest until the block ends."""
        holds = self.holds = [Hold(when) for when in requests]
        try:
            yield holds
        finally:
            for hold in holds:
                hold.released.set()
            self.holds = []

    async def answer(self, name: str, request: Request) -> Response:
        """Answer a request for a listing: a canned reply, a fault, or the normal response."""
        number = next(self._numbers)
        if self.before_answer is not None:
            self.before_answer(self, number)
        asked = name, request.query_params.get("page", "0"), number, str(request.url.query)
        if hold := next((each for each in self.holds if each.takes(*asked)), None):
            await hold.wait()
        async with self._places:
            await pause(self._milliseconds(request))
        reply = self.canned.take(*asked)
        response = reply.response() if reply else self._fault(number) or self.respond(name, request)
        return self._log(number, request, response)

    async def not_found(self, request: Request) -> Response:
        """Answer a request for anything else."""
        return self._log(next(self._numbers), request, await super().not_found(request))

    def page(self, name: str, number: int, size: int, match: Predicate | None) -> bytes:
        """Return a page after drift, with the extra fields and a wrong count."""
        behavior, listing = self.behavior, self.contacts if name == "contacts" else self.templates
        for drift in behavior.drift:
            listing.drift(drift, self._random[name])
        if behavior.ignore_account and match:
            own: Any = match
            match = replace(own, account_id="")
        number, size = 0 if behavior.ignore_page else number, min(size, behavior.max_page_size or size)
        return listing.page(number, size, match, extra=behavior.extra_fields, counted=behavior.count)

    def _milliseconds(self, request: Request) -> float:
        """Return how long a response takes."""
        behavior, asked = self.behavior, request.query_params.get("pageSize", "")
        rows = min(int(asked), behavior.max_page_size or int(asked)) if asked.isdecimal() else 0
        return behavior.latency_ms + rows * behavior.row_ms

    def _fault(self, number: int) -> Response | None:
        behavior = self.behavior
        if not self.limiter.admits():
            wait = behavior.retry_after
            return error(429, "Too many requests", {} if wait is None else {"Retry-After": str(wait)})
        if behavior.fault_every and number % behavior.fault_every == 0:
            reply = behavior.fault_reply
            return reply.response() if reply else error(behavior.fault_status, "Something went wrong")
        return None

    def _log(self, number: int, request: Request, response: Response) -> Response:
        query = request.scope["query_string"].decode("latin-1")
        self.ports.append(request.client.port if request.client else 0)
        self.hits.append(Hit(number, request.scope["path"], query, response.status_code))
        return response
