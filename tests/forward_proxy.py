"""A forward proxy on loopback that keeps every byte it can read, and a proxy that adds TLS to a server."""

import asyncio
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ssl import SSLContext
from threading import Thread

HOST = "127.0.0.1"
Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]


@dataclass
class ForwardProxy:
    """Connects to one port of this machine, whichever address is requested; everything that clients send is in `seen`.

    It requires `credentials` if there are any, and answers every request with `status` if there is one.
    """

    upstream: int
    credentials: str = ""
    status: str = ""
    scheme: str = "http"
    port: int = 0
    seen: bytearray = field(default_factory=bytearray)
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address of the proxy, without credentials."""
        return f"{self.scheme}://{HOST}:{self.port}"

    def url_for(self, credentials: str) -> str:
        """Return the address of the proxy with credentials."""
        return f"{self.scheme}://{credentials}@{HOST}:{self.port}"

    async def handle(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection: a tunnel, or one request with a whole URL."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen += head
        line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        self.requests.append(line)
        if refusal := self.status or self.refusal(lines):
            writer.write(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            return
        service = await asyncio.open_connection(HOST, self.upstream)
        if line.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            service[1].write(origin_form(line, lines))
        await relay((reader, writer), service, self.seen)

    def refusal(self, headers: list[str]) -> str:
        """The status of a request without the right credentials; empty with them."""
        expected = f"Proxy-Authorization: Basic {b64encode(self.credentials.encode('latin-1')).decode()}"
        return "" if not self.credentials or expected in headers else "407 Proxy Authentication Required"


def origin_form(line: str, headers: list[str]) -> bytes:
    """A request as the origin server expects it: with a path, for one response, without headers for the proxy."""
    method, url, version = line.split(" ")
    path = "/" + url.split("://", 1)[1].partition("/")[2]
    kept = [text for text in headers if not text.lower().startswith(("proxy-", "connection:"))]
    return "\r\n".join((f"{method} {path} {version}", *kept, "Connection: close", "", "")).encode("latin-1")


async def relay(
    client: tuple[StreamReader, StreamWriter], server: tuple[StreamReader, StreamWriter], seen: bytearray
) -> None:
    """Copy what either side sends to the other until one of them ends."""
    pumps = [
        asyncio.ensure_future(pump(client[0], server[1], seen)),
        asyncio.ensure_future(pump(server[0], client[1], bytearray())),
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # before anything is awaited: the end of the block may cancel that
        server[1].close()
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def pump(reader: StreamReader, writer: StreamWriter, seen: bytearray) -> None:
    """Copy what one side sends, and keep it."""
    while data := await reader.read(2**16):
        seen += data
        writer.write(data)
        await writer.drain()


@contextmanager
def serve_streams(handle: Handler, tls: SSLContext | None = None) -> Iterator[int]:
    """Serve connections on loopback from a background thread while the block runs, and yield the port."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

    connections: dict[asyncio.Task[None], StreamWriter] = {}

    async def converse(reader: StreamReader, writer: StreamWriter) -> None:
        # a client may go away at any time, and the end of the block ends all connections
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handle(reader, writer)
        writer.close()

    def connected(reader: StreamReader, writer: StreamWriter) -> None:
        connections[asyncio.ensure_future(converse(reader, writer))] = writer

    async def serve() -> None:
        server = await asyncio.start_server(connected, HOST, 0, ssl=tls)
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop, server.sockets[0].getsockname()[1]))
        await stop.wait()
        server.close()
        # some connections may not be served yet
        for task, writer in connections.items():
            writer.close()
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, stop, port = started.result()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def forward_proxy(
    upstream: int, *, credentials: str = "", status: str = "", tls: SSLContext | None = None
) -> Iterator[ForwardProxy]:
    """Serve a proxy while the block runs."""
    proxy = ForwardProxy(upstream, credentials, status, "https" if tls else "http")
    with serve_streams(proxy.handle, tls) as proxy.port:
        yield proxy


@contextmanager
def tls_front(upstream: int, tls: SSLContext) -> Iterator[int]:
    """Serve a plain HTTP server over TLS, and yield the port."""

    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        await relay((reader, writer), await asyncio.open_connection(HOST, upstream), bytearray())

    with serve_streams(handle, tls) as port:
        yield port
