"""Runs the command in a forked process, which saves the time of its imports."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

SERVER = Path(__file__).parents[1] / "command_server.py"
PROGRAM = "from letters_source.cli.process import main; main()"


@dataclass
class Command:
    """A running command, with the part of `subprocess.Popen` that tests use."""

    pid: int
    replies: IO[str]
    out: IO[str]
    err: IO[str]
    returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; return what it wrote to standard output and standard error."""
        self.returncode = int(self.replies.readline())
        written = []
        for stream in (self.out, self.err):
            stream.seek(0)
            written.append(stream.read())
        return written[0], written[1]

    def __enter__(self) -> Self:
        """Return the command."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for its end, and close its streams."""
        if self.returncode is None:
            self.communicate()
        for stream in (self.replies, self.out, self.err):
            stream.close()


def start_command(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    code: str = PROGRAM,
    out: int | None = None,
    err: int | None = None,
) -> Command:
    """Start the command in a fork of a process that has imported all it needs.

    Args:
        code: what the process runs.
        out: a descriptor for standard output, instead of a file that `communicate` reads.
        err: likewise for standard error.
    """
    request = {
        "code": code,
        "arguments": ["letters", *arguments],
        "environment": dict(os.environ if env is None else env),
        "folder": str(Path.cwd()),
    }
    replies, reply = os.pipe()
    written, errors = TemporaryFile("w+", encoding="utf-8"), TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- `Command` closes them
    with TemporaryFile("w+") as message, Path(os.devnull).open() as nothing, os.fdopen(reply, "w") as ours:
        json.dump(request, message)
        message.seek(0)
        descriptors = [stream.fileno() for stream in (message, ours, nothing)]
        descriptors += [written.fileno() if out is None else out, errors.fileno() if err is None else err]
        socket.send_fds(server(), [b"."], descriptors)
    lines = os.fdopen(replies)
    return Command(int(lines.readline()), lines, written, errors)


@cache
def server() -> socket.socket:
    """The socket of this process's command server."""
    ours, its = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    command = [sys.executable, str(SERVER), str(its.fileno())]
    process = subprocess.Popen(command, pass_fds=[its.fileno()], env=environment, stdin=subprocess.DEVNULL)
    its.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
