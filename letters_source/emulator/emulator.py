"""The emulator: its rows and tokens, and the response to each request."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from letters_source.emulator import http_server, sample_rows
from letters_source.emulator.filters import READ_FILTER, read_integer
from letters_source.emulator.listing import Listing, Predicate

ACCESS = "emulator-access-token"
REFRESH = "emulator-refresh-token"
BASE_PATH = "/api/v1"
JSON = "application/json"
DEFAULT_PAGE_SIZE = 10
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Emulator:
    """A letter mailing service on loopback; the same seed and day give the same rows, the newest just before that day.

    The day is that of UTC, unless `today` is another. Each answer to a listing takes `latency_ms` longer.
    """

    def __init__(
        self,
        contacts: int = 250,
        templates: int = 40,
        *,
        seed: int = 1,
        latency_ms: float = 0,
        today: date | None = None,
    ) -> None:
        day = today or datetime.now(UTC).date()
        self.contacts = Listing(islice(sample_rows.contacts(seed, day), contacts))
        self.templates = Listing(islice(sample_rows.templates(seed), templates))
        self.access_token = ACCESS
        self.refresh_token = REFRESH
        self.latency_ms = latency_ms

    @contextmanager
    def serve(self, port: int = 0) -> Iterator[str]:
        """Serve from a background thread while the block runs and yield the base_url; port 0 picks a free port."""
        with http_server.serve_in_background(self.app(), port) as bound:
            yield _base_url(bound)

    def run_forever(self, port: int, announce: Callable[[str], None]) -> None:
        """Serve until Ctrl-C; call `announce` with the base_url once requests are accepted."""
        http_server.serve_in_foreground(self.app(), port, lambda bound: announce(_base_url(bound)))

    def app(self) -> Router:
        """Return the ASGI application: the two listings of section 4, and 404 for everything else."""
        listings = [Route(f"{BASE_PATH}/{name}", partial(self.answer, name)) for name in READ_FILTER]
        return Router([*listings, Route("/{path:path}", self.not_found, methods=METHODS)])

    async def answer(self, name: str, request: Request) -> Response:
        """Answer a request for a listing."""
        await pause(self.latency_ms)
        return self.respond(name, request)

    async def not_found(self, request: Request) -> Response:
        """Answer a request for anything else."""
        return error(404, f"No {request.method} {request.scope['path']}")

    def respond(self, name: str, request: Request) -> Response:
        """Return the requested page, or 400 or 401."""
        try:
            self._check_tokens(name, request)
            number = read_integer(request.query_params, "page", default=0)
            size = read_integer(request.query_params, "pageSize", default=DEFAULT_PAGE_SIZE, least=1)
            match = READ_FILTER[name](request.query_params)
        except HTTPException as refusal:
            return error(refusal.status_code, refusal.detail)
        return Response(self.page(name, number, size, match), media_type=JSON)

    def page(self, name: str, number: int, size: int, match: Predicate | None) -> bytes:
        """Return the JSON of one page of a listing."""
        listing = self.contacts if name == "contacts" else self.templates
        return listing.page(number, size, match)

    def _check_tokens(self, name: str, request: Request) -> None:
        if request.headers.get("authorization") != f"Bearer {self.access_token}":
            raise HTTPException(401, "Access token missing or invalid")
        if name == "contacts" and request.headers.get("refreshtoken") != self.refresh_token:
            raise HTTPException(401, "Refresh token missing or invalid")


def error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response; section 7 shows no body, so this one is an assumption."""
    return Response(orjson.dumps({"message": message}), status, headers, JSON)


async def pause(milliseconds: float) -> None:
    """Wait, unless the server stops in the meantime."""
    if milliseconds:
        # stopping the server cancels the wait, and nobody reads the response
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(milliseconds / 1000)


def _base_url(port: int) -> str:
    return f"http://{http_server.HOST}:{port}{BASE_PATH}"
