"""Serve an ASGI application on loopback, and stop it without leaks."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

HOST = "127.0.0.1"
# must outlast the pauses of a client
KEEP_ALIVE_SECONDS = 60
# responses in progress may finish within 10 x 10 ms
GRACE_CHECKS = 10
CHECK_SECONDS = 0.01
BACKLOG = 512
# asyncio needs three iterations of its loop from accepting a connection to calling its protocol
ITERATIONS_TO_ACCEPT = 5


class LoopbackServer(uvicorn.Server):
    """A uvicorn server that stops at once: the original polls every 0.1 s, then waits another 0.1 s."""

    def __init__(self, app: ASGIApp, announce: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, then call `announce`."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        await super().startup(sockets)
        self._announce()

    async def main_loop(self) -> None:
        """Wait for `stop`."""
        await self._stopping.wait()

    def stop(self) -> None:
        """Stop serving; may be called from any thread after `announce`."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on Ctrl-C and SIGTERM."""
        super().handle_exit(sig, frame)
        if self.started:
            self.stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listening socket, then idle connections, then, after a grace period, the others."""
        # a connection that is half accepted when its server closes leaks: stop accepting, let those finish first
        for listener in sockets or []:
            self._loop.remove_reader(listener)
        for _ in range(ITERATIONS_TO_ACCEPT):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._wait_until_idle()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()
        await self._wait_until_idle()

    async def _wait_until_idle(self) -> None:
        for _ in range(GRACE_CHECKS):
            if not (self.server_state.connections or self.server_state.tasks):
                return
            await asyncio.sleep(CHECK_SECONDS)


def listen(port: int) -> socket.socket:
    """Return a listening socket on loopback; port 0 picks a free port."""
    listener = socket.create_server((HOST, port), backlog=BACKLOG)
    # connections inherit it, and asyncio does not set it on them; without it, small responses take 40 ms each
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextmanager
def serve_in_background(app: ASGIApp, port: int) -> Iterator[int]:
    """Serve from a background thread while the block runs, and yield the port, or raise `RuntimeError`."""
    started = Event()
    server = LoopbackServer(app, started.set)
    with closing(listen(port)) as listener:
        bound = int(listener.getsockname()[1])
        thread = Thread(None, _run_then_release, f"emulator-{bound}", (server, listener, started), daemon=True)
        thread.start()
        started.wait()
        if not server.started:
            raise RuntimeError("The emulator could not start: see the log of uvicorn")
        try:
            yield bound
        finally:
            server.stop()
            thread.join()


def serve_in_foreground(app: ASGIApp, port: int, announce: Callable[[int], None]) -> None:
    """Serve until Ctrl-C; `announce` is called with the port and must not block."""
    with closing(listen(port)) as listener:
        bound = int(listener.getsockname()[1])
        server = LoopbackServer(app, lambda: announce(bound))
        # uvicorn raises the signal again after its shutdown
        with suppress(KeyboardInterrupt):
            asyncio.run(server.serve([listener]))


def _run_then_release(server: LoopbackServer, listener: socket.socket, started: Event) -> None:
    # uvicorn raises SystemExit if it cannot start, which ends a thread without notice
    try:
        with suppress(SystemExit):
            asyncio.run(server.serve([listener]))
    finally:
        started.set()
