"""Which requests get an answer that a test wrote, instead of the normal one?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class When:
    """Which requests: those that agree with every value given; `number` counts requests since the start, from 1."""

    listing: str | None = None
    page: int | None = None
    number: int | None = None

    def fits(self, listing: str, page: int | None, number: int) -> bool:
        """Whether a request is one of these."""
        wanted = (self.listing, self.page, self.number)
        return all(want in (None, have) for want, have in zip(wanted, (listing, page, number), strict=True))


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole answer; it is JSON unless the headers name another content type."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "Reply":
        """The answer whose body is this value as JSON."""
        return cls(status, orjson.dumps(value))


@dataclass(frozen=True, slots=True)
class _Waiting:
    when: When
    reply: Reply
    stays: bool


class CannedAnswers:
    """Replies waiting for their requests; the one that fits and was given first is taken."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._lock = Lock()

    def once(self, when: When, *replies: Reply) -> None:
        """Answer the next request that fits with the first reply, the one after it with the second, ..."""
        with self._lock:
            self._waiting.extend(_Waiting(when, reply, stays=False) for reply in replies)

    def always(self, when: When, reply: Reply) -> None:
        """Answer every request that fits, until `clear`."""
        with self._lock:
            self._waiting.append(_Waiting(when, reply, stays=True))

    def clear(self) -> None:
        """Forget every reply not yet used."""
        with self._lock:
            self._waiting.clear()

    def take(self, listing: str, page: int | None, number: int) -> Reply | None:
        """The reply to this request, if one was given; a reply for once is used up by it."""
        with self._lock:
            found = next((each for each in self._waiting if each.when.fits(listing, page, number)), None)
            if found is None:
                return None
            if not found.stays:
                self._waiting.remove(found)
            return found.reply
