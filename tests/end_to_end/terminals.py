"""Runs the command in this process or in its own, with or without a terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import PROGRAM, start_command

COMMAND = str(Path(sys.executable).with_name("letters"))


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Letters = Callable[..., Outcome]
"""Runs the command in this process."""


def run_process(*arguments: str, **options: Any) -> Outcome:
    """A program, until it ends."""
    with open_process(*arguments, stderr=subprocess.PIPE, **options) as process:
        out, err = process.communicate()
    return Outcome(process.returncode, out, err)


def run_python(*arguments: str, **options: Any) -> Outcome:
    """Run this Python with the arguments until it ends."""
    return run_process(sys.executable, *arguments, **options)


def run_command(
    *arguments: str, env: dict[str, str] | None = None, code: str = PROGRAM, out: int | None = None
) -> Outcome:
    """The command in a process of its own, until it ends."""
    with start_command(*arguments, env=env, code=code, out=out) as command:
        written, err = command.communicate()
    assert command.returncode is not None
    return Outcome(command.returncode, written, err)


def run_at_terminal(*arguments: str, columns: int = 100, wholly: bool = False) -> Outcome:
    """The command in a process of its own, its stderr a terminal, and with `wholly` its stdout, too."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    with start_command(*arguments, out=writer if wholly else None, err=writer, env=environment) as command:
        os.close(writer)
        seen = read_all(reader)
        out, _ = command.communicate()
    os.close(reader)
    assert command.returncode is not None
    return Outcome(command.returncode, out, seen)


def open_process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A program, its stdout ours to read."""
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, **options)


def read_all(descriptor: int) -> str:
    """Read a terminal until its last writer is gone, which Linux reports as an error."""
    seen = b""
    with suppress(OSError):
        while chunk := os.read(descriptor, 65_536):
            seen += chunk
    return seen.decode()
