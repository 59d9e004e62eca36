"""Responses that a test wrote, given instead of the normal ones, and requests that wait until a test releases them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

import orjson
from starlette.responses import Response

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class When:
    """Requests that match every given value: `number` counts requests since the start; `query` is part of theirs."""

    listing: str | None = None
    page: int | None = None
    number: int | None = None
    query: str = ""

    def matches(self, listing: str, page: str, number: int, query: str) -> bool:
        """Return whether a request is one of these."""
        return (
            self.listing in (None, listing)
            and (self.page is None or str(self.page) == page)
            and self.number in (None, number)
            and self.query in query
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """The first matching request, whose response waits until the test releases it; other requests are answered."""

    when: When
    arrived: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)

    def takes(self, listing: str, page: str, number: int, query: str) -> bool:
        """Return whether a request is the first that matches."""
        return not self.arrived.is_set() and self.when.matches(listing, page, number, query)

    async def wait(self) -> None:
        """Wait until the test releases the request."""
        self.arrived.set()
        # the test's thread releases it, and a waiting thread for each request would keep others from being served
        while not self.released.is_set():  # noqa: ASYNC110 -- an asyncio.Event is set only in its own loop
            await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response; it is JSON unless the headers name another content type."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "Reply":
        """Make a reply whose body is this value as JSON."""
        return cls(status, orjson.dumps(value))

    def response(self) -> Response:
        """Return the reply as a response."""
        return Response(self.body, self.status, {"Content-Type": JSON, **self.headers})


@dataclass(frozen=True, slots=True)
class _Waiting:
    when: When
    reply: Reply
    stays: bool


class CannedReplies:
    """Replies waiting for their requests; the first one that matches is used."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._lock = Lock()

    def once(self, when: When, *replies: Reply) -> None:
        """Answer the next matching request with the first reply, the one after it with the second, ..."""
        with self._lock:
            self._waiting.extend(_Waiting(when, reply, stays=False) for reply in replies)

    def always(self, when: When, reply: Reply) -> None:
        """Answer every matching request until `clear`."""
        with self._lock:
            self._waiting.append(_Waiting(when, reply, stays=True))

    def clear(self) -> None:
        """Remove every reply not yet used."""
        with self._lock:
            self._waiting.clear()

    def take(self, listing: str, page: str, number: int, query: str = "") -> Reply | None:
        """Return the reply to this request, if there is one; replies for `once` are used up."""
        with self._lock:
            found = next((each for each in self._waiting if each.when.matches(listing, page, number, query)), None)
            if found is None:
                return None
            if not found.stays:
                self._waiting.remove(found)
            return found.reply
