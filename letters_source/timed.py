"""How long may an answer take, head and body, however its bytes drip? A socket's own time-out begins anew with each."""

import io
from functools import partial
from http.client import HTTPResponse
from time import monotonic
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool


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


class TimedAdapter(HTTPAdapter):
    """Connections on which each answer has so many seconds."""

    def __init__(self, seconds: float, **options: Any) -> None:
        self._seconds = seconds
        super().__init__(**options)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Called by requests when it needs connections."""
        super().init_poolmanager(*arguments, **options)
        kinds = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
        self.poolmanager.pool_classes_by_scheme = {name: timed(kind, self._seconds) for name, kind in kinds.items()}


def timed(kind: type[HTTPConnectionPool], seconds: float) -> type[HTTPConnectionPool]:
    """A kind of pool whose connections give each answer so many seconds."""
    response = staticmethod(partial(TimedResponse, seconds=seconds))
    connection = type("TimedConnection", (kind.ConnectionCls,), {"response_class": response})
    return type("TimedPool", (kind,), {"ConnectionCls": connection})
