"""One deadline per response, head and body; socket timeouts restart with every read."""

import io
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPResponse, parse_headers
from socket import SHUT_RDWR, socket
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection
from urllib3.util.ssltransport import SSLTransport

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class TimedReader(io.RawIOBase):
    """Reads from a socket until the deadline, then raises TimeoutError."""

    def __init__(self, source: io.RawIOBase, seconds: float) -> None:
        self._source, self._deadline = source, monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        """Read the bytes that have arrived."""
        if monotonic() > self._deadline:
            raise TimeoutError
        return self._source.readinto(buffer)

    def close(self) -> None:
        """Close the socket as well."""
        self._source.close()
        super().close()


class TimedResponse(HTTPResponse):
    """A response that must be complete within some seconds after its request was sent."""

    def __init__(self, sock: socket, debuglevel: int = 0, method: str | None = None, *, seconds: float) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp = io.BufferedReader(TimedReader(self.fp.detach(), seconds))

    def begin(self) -> None:
        """Read the head, without lines that are not headers: urllib3 would log them, and they may hold tokens."""
        super().begin()
        self.headers.defects.clear()
        self.headers.set_payload("")

    def _read_status(self) -> tuple[str, int, str]:
        """Read the status, after any interim responses (RFC 9110, 15.2), of which http.client skips only a 100."""
        read: Callable[[], tuple[str, int, str]] = super()._read_status  # type: ignore[misc] # private, not in typeshed
        line = read()
        while 100 <= line[1] < 200 and line[1] != HTTPStatus.SWITCHING_PROTOCOLS:
            parse_headers(self.fp)
            line = read()
        return line


class KeptConnection(HTTPConnection):
    """A connection that registers its socket once it is open."""

    keep: Callable[[socket], None]

    def connect(self) -> None:
        """Connect; urllib3 calls this."""
        super().connect()
        # TLS to the service within TLS to a proxy is no socket
        self.keep(self.sock.socket if isinstance(self.sock, SSLTransport) else self.sock)


class TimedAdapter(HTTPAdapter):
    """Connections with a deadline for each response; closing the adapter ends them at once."""

    def __init__(self, seconds: float, connections: int) -> None:
        self._seconds = seconds
        self._sockets: WeakSet[socket] = WeakSet()
        self._changing = Lock()
        self._closed = False
        super().__init__(pool_connections=1, pool_maxsize=connections)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Create the connection pools; requests calls this with arguments that have no types."""
        super().init_poolmanager(*arguments, **options)
        kinds = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
        timed = partial(timed_pool, seconds=self._seconds, keep=self._keep)
        self.poolmanager.pool_classes_by_scheme = {name: timed(kind) for name, kind in kinds.items()}

    def proxy_manager_for(self, proxy: str, **options: Any) -> ProxyManager:
        """Return the connection pools of a proxy; requests calls this for each request."""
        manager: ProxyManager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = self.poolmanager.pool_classes_by_scheme
        return manager

    def close(self) -> None:
        """Shut down all sockets, also those still being opened: closing one does not wake a thread that waits on it."""
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
    """Shut a connection down in both directions, which wakes a thread that waits on it."""
    with suppress(OSError):
        # not the method of a TLS socket, which would keep reading without TLS
        socket.shutdown(opened, SHUT_RDWR)


def timed_pool(
    kind: type[HTTPConnectionPool], seconds: float, keep: Callable[[socket], None]
) -> type[HTTPConnectionPool]:
    """Return a pool class whose connections have a deadline for each response and register their sockets."""
    members = {"response_class": staticmethod(partial(TimedResponse, seconds=seconds)), "keep": staticmethod(keep)}
    connection = type("TimedConnection", (KeptConnection, kind.ConnectionCls), members)
    return type("TimedPool", (kind,), {"ConnectionCls": connection})
