"""What does the service answer to one request?"""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from letters_source.emulator.behaviour import Behaviour
from letters_source.emulator.canned import Reply
from letters_source.emulator.drifting import drift_once
from letters_source.emulator.filters import ReadFilter, read_contact_filter, read_template_filter
from letters_source.emulator.parameters import read_whole
from letters_source.emulator.refusal import Refusal
from letters_source.emulator.shelf import Shelf, closing

if TYPE_CHECKING:
    from letters_source.emulator.server import Emulator

BASE_PATH = "/api/v1"
JSON = "application/json"
DEFAULT_PAGE_SIZE = 10
OTHER_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass(frozen=True, slots=True)
class Hit:
    """One request as it came, and the status it was answered with; numbers count from 1 since the emulator was made."""

    number: int
    path: str
    query: str
    status: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What the two listings differ in."""

    name: str
    shelf: Shelf
    read_filter: ReadFilter
    takes_refresh_token: bool
    dice: Random


class Desk:
    """Answers requests with the rows, tokens and behaviour that its emulator has at that moment."""

    def __init__(self, emulator: "Emulator") -> None:
        self._emulator = emulator
        self._numbers = itertools.count(1)
        seed = emulator.seed
        self._templates = Listing(
            "templates", emulator.templates, read_template_filter, takes_refresh_token=False, dice=Random(f"t {seed}")
        )
        self._contacts = Listing(
            "contacts", emulator.contacts, read_contact_filter, takes_refresh_token=True, dice=Random(f"c {seed}")
        )

    def app(self) -> Router:
        """The ASGI application."""
        # The catch-all also gets what is no GET, so that the log misses nothing.
        return Router(
            [
                Route(f"{BASE_PATH}/templates", self.list_templates),
                Route(f"{BASE_PATH}/contacts", self.list_contacts),
                Route("/{path:path}", self.refuse_unknown, methods=OTHER_METHODS),
            ]
        )

    async def list_templates(self, request: Request) -> Response:
        """GET {base_url}/templates, section 4.1."""
        return await self._answer(self._templates, request)

    async def list_contacts(self, request: Request) -> Response:
        """GET {base_url}/contacts, section 4.2."""
        return await self._answer(self._contacts, request)

    async def refuse_unknown(self, request: Request) -> Response:
        """Anything else is answered 404."""
        number = next(self._numbers)
        return self._log(number, request, _say(Refusal(404, f"No {request.method} {request.scope['path']}")))

    async def _answer(self, listing: Listing, request: Request) -> Response:
        number = next(self._numbers)
        if self._emulator.before_answer is not None:
            self._emulator.before_answer(self._emulator, number)
        await _pause(self._emulator.behaviour.latency_ms / 1000)
        reply = self._emulator.canned.take(listing.name, _page_asked(request.query_params), number)
        if reply is not None:
            return self._log(number, request, _recite(reply))
        try:
            self._refuse_at_the_door(number)
            self._authorise(listing, request)
            response = self._list(listing, request.query_params)
        except Refusal as refusal:
            response = _say(refusal)
        return self._log(number, request, response)

    def _log(self, number: int, request: Request, response: Response) -> Response:
        query = request.scope["query_string"].decode("latin-1")
        self._emulator.hits.append(Hit(number, request.scope["path"], query, response.status_code))
        return response

    def _refuse_at_the_door(self, number: int) -> None:
        behaviour = self._emulator.behaviour
        if not self._emulator.limiter.admits():
            wait = behaviour.retry_after
            raise Refusal(429, "Too many requests", {} if wait is None else {"Retry-After": str(wait)})
        if behaviour.fault_every and number % behaviour.fault_every == 0:
            raise Refusal(behaviour.fault_status, "Something went wrong")

    def _authorise(self, listing: Listing, request: Request) -> None:
        if request.headers.get("authorization") != f"Bearer {self._emulator.access_token}":
            raise Refusal(401, "Access token missing or invalid")
        refresh_token = request.headers.get("refreshtoken")
        if listing.takes_refresh_token and refresh_token != self._emulator.refresh_token:
            raise Refusal(401, "Refresh token missing or invalid")

    def _list(self, listing: Listing, params: QueryParams) -> Response:
        behaviour = self._emulator.behaviour
        page, size = _read_page(params, behaviour)
        match = listing.read_filter(params)
        for drift in behaviour.drift:
            drift_once(listing.shelf, drift, listing.dice)
        body = listing.shelf.page(page, size, match, closing(behaviour.extra_fields))
        return Response(body, media_type=JSON)


def _read_page(params: QueryParams, behaviour: Behaviour) -> tuple[int, int]:
    page = read_whole(params, "page", default=0)
    size = read_whole(params, "pageSize", default=DEFAULT_PAGE_SIZE, least=1)
    return (0 if behaviour.ignore_page else page), min(size, behaviour.max_page_size or size)


def _page_asked(params: QueryParams) -> int | None:
    try:
        return read_whole(params, "page", default=0)
    except Refusal:
        return None


async def _pause(seconds: float) -> None:
    if seconds:
        # Stopping the server cancels the wait; nobody reads the answer then.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(seconds)


def _say(refusal: Refusal) -> Response:
    return Response(orjson.dumps({"message": refusal.message}), refusal.status, refusal.headers, JSON)


def _recite(reply: Reply) -> Response:
    return Response(reply.body, reply.status, {"Content-Type": JSON, **reply.headers})
