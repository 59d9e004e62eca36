"""A PostgreSQL server of the tests' own: from the system's packages, on a free port of this machine."""

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.parse import urlsplit

USER, PASSWORD = "letters", "canary-postgres-2f9e"
STARTS_WITHIN = "60"


def programs() -> Path:
    """The folder of PostgreSQL's programs, the newest of those that are installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    assert found, "These tests need a PostgreSQL server: apt-get install postgresql."
    return found[-1].parent


def as_ordinary_user() -> list[str]:
    """Return the command that runs a program as the user postgres if tests run as root, which the server refuses."""
    runner = shutil.which("setpriv")
    if os.geteuid():
        return []
    return [str(runner), "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def serve_postgres() -> Iterator[str]:
    """The URL of a new, empty server, which ends with the block."""
    with TemporaryDirectory(prefix="letters_postgres_") as name:
        folder = Path(name)
        password = folder / "password"
        password.write_text(PASSWORD)
        if not os.geteuid():
            shutil.chown(folder, "postgres")
            shutil.chown(password, "postgres")
        data, port = str(folder / "data"), free_port()
        # SCRAM would cost both sides 4 ms for each of the twenty connections of a load
        access = ["-U", USER, "-A", "md5", f"--pwfile={password}"]
        run("initdb", "-D", data, *access, "-E", "UTF8", "--locale=C", "--no-sync")
        here = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "jit=off"]
        options = [word for setting in here for word in ("-c", setting)]
        # returns once the server accepts connections
        run("pg_ctl", "start", "-D", data, "-w", "-t", STARTS_WITHIN, "-o", shlex.join(["-p", str(port), *options]))
        try:
            yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", "-D", data, "-m", "fast")


def run(program: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, until it ends; a server that it starts would keep a pipe of its output open."""
    command = [*as_ordinary_user(), str(programs() / program), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")


class CommitCutter(ThreadingTCPServer):
    """A proxy between a load and a server that cuts a connection once the server confirms the commit of a statement."""

    daemon_threads = True

    def __init__(self, port: int, statement: str) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.port, self.statement, self.is_cut = port, statement.encode(), False


class Relay(BaseRequestHandler):
    """One connection."""

    server: CommitCutter

    def handle(self) -> None:
        """Forward what both send, until one ends or the commit is confirmed."""
        with socket.create_connection(("127.0.0.1", self.server.port)) as self.upstream:
            self.has_statement = False
            Thread(target=self.ask, daemon=True).start()
            while (piece := self.upstream.recv(65_536)) and not self.is_to_cut(piece):
                self.request.sendall(piece)
            self.request.shutdown(socket.SHUT_RDWR)

    def is_to_cut(self, piece: bytes) -> bool:
        """Return whether the server confirms the commit, which the load must not receive."""
        if self.server.is_cut or not (self.has_statement and b"COMMIT\0" in piece):
            return False
        self.server.is_cut = True
        return True

    def ask(self) -> None:
        """Forward what the load sends; a statement is sent in a piece of its own."""
        with suppress(OSError):
            while piece := self.request.recv(65_536):
                self.has_statement |= self.server.statement in piece
                self.upstream.sendall(piece)
            self.upstream.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut_after_commit(url: str, statement: str) -> Iterator[str]:
    """The URL of a proxy to a server that cuts one connection, as a transaction with the statement is committed."""
    port = urlsplit(url).port
    assert port
    with CommitCutter(port, statement) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield url.replace(f":{port}/", f":{server.server_address[1]}/")
        finally:
            server.shutdown()
            thread.join()
