"""A raw socket proxy that violates HTTP for some requests, and forwards the others."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Lock, Thread
from typing import TypeVar
from urllib.parse import urlsplit

Fault = Callable[["FaultyProxy"], Iterator[bytes | None]]
"""Yields the bytes of a response piece by piece; None resets the connection."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PARTIAL = b'{"message": "Success", "data": {"count": 40, "rows": ['
LENGTH = b"Content-Length: 90000\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
PACE_SECONDS = 0.02


@dataclass
class FaultyProxy:
    """Faults for the next requests, one each, or the first one for all where `stays`; None and the end are no fault."""

    service: str
    faults: list[Fault | None]
    stays: bool
    requested: list[str] = field(default_factory=list)
    port: int = 0
    lock: Lock = field(default_factory=Lock)
    ended: Event = field(default_factory=Event)

    @property
    def base_url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self.port}/api/v1"

    def next_fault(self) -> Fault | None:
        """Return the fault for the next request, if any."""
        with self.lock:
            if self.stays or not self.faults:
                return next(iter(self.faults), None)
            return self.faults.pop(0)

    def paced(self) -> Iterator[None]:
        """Yield at a fixed pace, until the server ends."""
        while not self.ended.wait(PACE_SECONDS):
            yield


H = TypeVar("H", bound=FaultyProxy)


class Handler(BaseRequestHandler):
    """Reads the head of one request and answers it."""

    request: socket.socket
    server: "Server"

    def handle(self) -> None:
        """Answer, and close; a client may disconnect meanwhile."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.request.recv(65_536)
            if not piece:
                return
            head += piece
        proxy = self.server.proxy
        proxy.requested.append(head.split(b" ")[1].decode())
        fault = proxy.next_fault()
        with suppress(OSError):
            for answered in fault(proxy) if fault else relayed(proxy.service, head):
                if answered is None:
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.request.close()
                    return
                self.request.sendall(answered)


class Server(ThreadingTCPServer):
    """Serves faults."""

    allow_reuse_address = True

    def __init__(self, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), Handler)


def relayed(service: str, head: bytes) -> Iterator[bytes]:
    """The service's own response to a request, on a connection that is closed afterwards."""
    line, _, rest = head.partition(b"\r\n")
    lines = [each for each in rest.split(b"\r\n") if each and not each.lower().startswith(b"connection:")]
    where = urlsplit(service)
    with socket.create_connection((str(where.hostname), int(where.port or 80))) as upstream:
        upstream.sendall(b"\r\n".join([line, *lines, b"Connection: close", b"", b""]))
        while piece := upstream.recv(65_536):
            yield piece


def faulty_proxy(service: str, *faults: Fault | None, stays: bool = False) -> AbstractContextManager[FaultyProxy]:
    """Serve a proxy with these faults while the block runs."""
    return serve_proxy(FaultyProxy(service, list(faults), stays))


@contextmanager
def serve_proxy(proxy: H) -> Iterator[H]:
    """Serve the proxy while the block runs."""
    with Server(proxy) as server:
        proxy.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.ended.set()
            server.shutdown()
            thread.join()


def cut(_: FaultyProxy) -> Iterator[bytes]:
    """A body that ends before its length."""
    yield HEAD + LENGTH + PARTIAL


def cut_without_length(_: FaultyProxy) -> Iterator[bytes]:
    """A body without a length that ends with the connection, and too early."""
    yield HEAD + b"\r\n" + PARTIAL


def cut_chunk(_: FaultyProxy) -> Iterator[bytes]:
    """Chunks without the last one."""
    yield HEAD + CHUNKED + b"%x\r\n%b\r\n" % (len(PARTIAL), PARTIAL)


def reset(_: FaultyProxy) -> Iterator[bytes | None]:
    """A connection that is reset within the body."""
    yield HEAD + LENGTH + PARTIAL
    yield None


def hang_up(_: FaultyProxy) -> Iterator[bytes]:
    """A connection that is closed before anything is answered."""
    yield from ()


def stall(proxy: FaultyProxy) -> Iterator[bytes]:
    """A head, and then nothing."""
    yield HEAD + LENGTH
    proxy.ended.wait()


def drip(proxy: FaultyProxy) -> Iterator[bytes]:
    """A body that comes byte by byte, so that no time-out between bytes ever ends it."""
    yield HEAD + LENGTH
    for _ in proxy.paced():
        yield b" "


def drip_head(proxy: FaultyProxy) -> Iterator[bytes]:
    """A head whose last line comes byte by byte and never ends."""
    yield HEAD + b"X-Drip: "
    for _ in proxy.paced():
        yield b"x"


def drip_chunk_head(proxy: FaultyProxy) -> Iterator[bytes]:
    """A chunk whose own head comes byte by byte and never ends."""
    yield HEAD + CHUNKED + b"1"
    for _ in proxy.paced():
        yield b"0"


def endless(_: FaultyProxy) -> Iterator[bytes]:
    """Chunks as fast as the client reads them, and no last one."""
    yield HEAD + CHUNKED
    chunk = b"%x\r\n%b\r\n" % (2**20, bytes(2**20).replace(b"\0", b" "))
    while True:
        yield chunk
