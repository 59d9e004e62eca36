"""How is an application served on loopback, and stopped without leaving anything behind?"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

HOST = "127.0.0.1"
# A client that pauses must not find its connection closed under it.
KEEP_ALIVE_SECONDS = 60
# Answers under way may end; what still runs after ten looks of 10 ms is cut off.
GRACE_LOOKS = 10
LOOK_SECONDS = 0.01
BACKLOG = 512
# asyncio needs three turns of its loop from a client's connect to the protocol that will know of it.
TURNS_TO_ACCEPT = 5


class LoopbackServer(uvicorn.Server):
    """A uvicorn that stops at once: the stock one looks every 0.1 s whether it should, and waits 0.1 s more."""

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
        """Begin to accept, and say so."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        await super().startup(sockets)
        self._announce()

    async def main_loop(self) -> None:
        """Wait to be stopped."""
        await self._stopping.wait()

    def stop(self) -> None:
        """End `serve`; may be called from any thread once announced."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C and SIGTERM."""
        super().handle_exit(sig, frame)
        if self.started:
            self.stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listening socket, then idle connections, then, after a moment, the others."""
        # A connection that is half accepted when its server closes leaks: accept no more, let them finish first.
        for listener in sockets or []:
            self._loop.remove_reader(listener)
        for _ in range(TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._wait_until_quiet()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()
        await self._wait_until_quiet()

    async def _wait_until_quiet(self) -> None:
        for _ in range(GRACE_LOOKS):
            if not (self.server_state.connections or self.server_state.tasks):
                return
            await asyncio.sleep(LOOK_SECONDS)


def listen(port: int) -> socket.socket:
    """A listening socket on loopback; port 0 takes a free one."""
    # asyncio turns Nagle's delay off only for sockets that name their protocol; with it, small answers take 40 ms each.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def serve_in_background(app: ASGIApp, port: int) -> Iterator[int]:
    """Serve from a thread of its own while the block runs; yields the port.

    Raises:
        RuntimeError: uvicorn could not start; its own log says why.
    """
    started = Event()
    server = LoopbackServer(app, started.set)
    with closing(listen(port)) as listener:
        bound = int(listener.getsockname()[1])
        thread = Thread(
            target=_run_then_release, args=(server, listener, started), name=f"emulator-{bound}", daemon=True
        )
        thread.start()
        started.wait()
        if not server.started:
            message = "The emulator could not start: see the log of uvicorn"
            raise RuntimeError(message)
        try:
            yield bound
        finally:
            server.stop()
            thread.join()


def serve_in_foreground(app: ASGIApp, port: int, announce: Callable[[int], None]) -> None:
    """Serve until Ctrl-C; `announce` is told the port and must not block."""
    with closing(listen(port)) as listener:
        bound = int(listener.getsockname()[1])
        server = LoopbackServer(app, lambda: announce(bound))
        # uvicorn raises the signal again when it has shut down.
        with suppress(KeyboardInterrupt):
            _run(server, listener)


def _run_then_release(server: LoopbackServer, listener: socket.socket, started: Event) -> None:
    # uvicorn leaves by SystemExit when it cannot start; here it would end a thread, not the program.
    try:
        with suppress(SystemExit):
            _run(server, listener)
    finally:
        started.set()


def _run(server: LoopbackServer, listener: socket.socket) -> None:
    asyncio.run(server.serve([listener]))
