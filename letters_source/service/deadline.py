"""How long may an answer take, head and body, however its bytes drip? A socket's own time-out begins anew with each."""

import io
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPResponse
from socket import SHUT_RDWR, socket
from threading import Lock
from time import monotonic
from typing import Any
from weakref import WeakSet

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection


class TimedReader(io.RawIOBase):
    """What a socket gives until the time is over; who reads on then gets a `TimeoutError`."""

    def __init__(self, source: io.RawIOBase, seconds: float) -> None:
        self._source, self._deadline = source, monotonic() + seconds

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """The next bytes, as many as have come."""
        if monotonic() > self._deadline:
            raise TimeoutError
        return self._source.readinto(buffer)

    def close(self) -> None:
        """Let go of the socket as well."""
        self._source.close()
        super().close()


class TimedResponse(HTTPResponse):
    """An answer that must be there, whole, some seconds after its request was sent."""

    def __init__(self, *arguments: Any, seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fp = io.BufferedReader(TimedReader(self.fp.detach(), seconds))

    def begin(self) -> None:
        """Read the head; lines that are no headers are forgotten: urllib3 would log them, and they may hold tokens."""
        super().begin()
        self.headers.defects.clear()
        self.headers.set_payload("")


class KeptConnection(HTTPConnection):
    """A connection that tells of its socket once it is open."""

    keep: Callable[[socket], None]

    def connect(self) -> None:
        """Called by urllib3 when it has something to send."""
        super().connect()
        self.keep(self.sock)


class TimedAdapter(HTTPAdapter):
    """Connections on which each answer has so many seconds, and which end when the adapter is closed."""

    def __init__(self, seconds: float, **options: Any) -> None:
        self._seconds = seconds
        self._sockets: WeakSet[socket] = WeakSet()
        self._changing = Lock()
        self._closed = False
        super().__init__(**options)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Called by requests when it needs connections."""
        super().init_poolmanager(*arguments, **options)
        kinds = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
        timed = partial(timed_pool, seconds=self._seconds, keep=self._keep)
        self.poolmanager.pool_classes_by_scheme = {name: timed(kind) for name, kind in kinds.items()}

    def close(self) -> None:
        """Break off what is under way: a thread that waits for bytes is not told of a socket that another closes.

        What is still connecting ends as soon as it has, or by its own time-out.
        """
        with self._changing:
            self._closed = True
            for kept in self._sockets:
                shut(kept)
        super().close()

    def _keep(self, opened: socket) -> None:
        with self._changing:
            self._sockets.add(opened)
            if self._closed:
                shut(opened)


def shut(opened: socket) -> None:
    """End a connection both ways, whoever waits on it."""
    with suppress(OSError):
        # not the own way of a socket with TLS, which would read on without it
        socket.shutdown(opened, SHUT_RDWR)


def timed_pool(
    kind: type[HTTPConnectionPool], seconds: float, keep: Callable[[socket], None]
) -> type[HTTPConnectionPool]:
    """A kind of pool whose connections give each answer so many seconds, and tell of their sockets."""
    members = {"response_class": staticmethod(partial(TimedResponse, seconds=seconds)), "keep": staticmethod(keep)}
    connection = type("TimedConnection", (KeptConnection, kind.ConnectionCls), members)
    return type("TimedPool", (kind,), {"ConnectionCls": connection})
