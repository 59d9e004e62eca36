"""A loopback server that sends given bytes, one answer per connection, and records the requests."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock, Thread
from typing import Any

TLS = b"\x16"
RESET = b"\x00reset"
"""Ends an answer's bytes where the connection is to be reset instead of closed."""


@dataclass(frozen=True)
class Sent:
    """One request: its target, and its headers with names in lower case."""

    target: str
    headers: dict[str, str]


@dataclass
class Recorder:
    """The requests received, and the answers to send: one after another, the last one repeatedly."""

    answers: list[bytes]
    sent: list[Sent] = field(default_factory=list)
    port: int = 0
    tls: ssl.SSLContext | None = None
    connections: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def base_url(self) -> str:
        """The address of the server."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/api/v1"

    def answer(self, sent: Sent) -> bytes:
        """Keep a request and take its answer."""
        with self.lock:
            self.sent.append(sent)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; header names have underscores for hyphens, and Content-Length is added unless it is chunked."""
    lines = {"Connection": "close", "Content-Length": str(len(body)), **headers}
    if "Transfer_Encoding" in headers:
        del lines["Content-Length"]
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A body in chunks (RFC 9112, 7.1)."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


class Handler(StreamRequestHandler):
    """Reads the head of one request, writes one answer, and closes."""

    server: "Server"
    rfile: BufferedReader

    def setup(self) -> None:
        """Count the connection, and speak TLS if configured."""
        recorder = self.server.recorder
        with recorder.lock:
            recorder.connections += 1
        if recorder.tls:
            self.request = recorder.tls.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
            self.shake_hands()
        super().setup()

    def shake_hands(self) -> None:
        """Start TLS; if it fails, wait until the client has read why and left, as a reset would lose the reason."""
        try:
            self.request.do_handshake()
        except ssl.SSLError:
            with suppress(OSError):
                while socket.socket.recv(self.request, 2**16):
                    pass
            self.request.close()
            raise

    def finish(self) -> None:
        """Close TLS, which has taken the connection from the server."""
        super().finish()
        if self.server.recorder.tls:
            self.request.close()

    def handle(self) -> None:
        """Answer one request; TLS is answered in plain text, as servers do."""
        if self.rfile.peek(1)[:1] == TLS:
            self.wfile.write(answer(b"", "400 Bad Request"))
            return
        line, *lines = iter(lambda: self.rfile.readline().decode("latin-1").rstrip("\r\n"), "")
        pairs = (each.split(": ", 1) for each in lines)
        sent = Sent(line.split(" ")[1], {name.lower(): value for name, value in pairs})
        reply = self.server.recorder.answer(sent)
        self.wfile.write(reply.removesuffix(RESET))
        if reply.endswith(RESET):
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.request.close()


class Server(ThreadingTCPServer):
    """Serves a recorder."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        super().__init__(("127.0.0.1", 0), Handler)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, which may be closed already."""
        self.close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnected, or that speaks TLS."""


@contextmanager
def record(*answers: bytes, tls: ssl.SSLContext | None = None) -> Iterator[Recorder]:
    """Serve these answers while the block runs."""
    recorder = Recorder(list(answers), tls=tls)
    with Server(recorder) as server:
        recorder.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield recorder
        finally:
            server.shutdown()
            thread.join()
