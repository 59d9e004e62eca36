"""Runs dbt without a network, in forks of a process that has imported it."""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from terminals import Outcome

FORKS = get_context("forkserver")
# the import is most of what a small project costs
FORKS.set_forkserver_preload(["dbt.cli.main"])


def run_closed_dbt(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Outcome:
    """Run a command of dbt in a folder, until it ends; stderr lists the connections that it tries to open."""
    with TemporaryDirectory() as name:
        written = [Path(name, stream) for stream in ("out", "err")]
        process = FORKS.Process(target=become_dbt, args=(arguments, folder, dict(environment), written))
        process.start()
        process.join()
        assert process.exitcode is not None
        return Outcome(process.exitcode, *(file.read_text() for file in written))


def become_dbt(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], written: Sequence[Path]) -> None:
    """Run the command in this process, with its streams, folder and environment."""
    from dbt.cli.main import cli

    # a build is too short for garbage collection to pay off
    gc.disable()
    for number, file in enumerate(written, 1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.addaudithook(refuse)
    cli(arguments)


def refuse(event: str, arguments: Sequence[Any]) -> None:
    """Report a connection that dbt tries to open, and refuse it."""
    if event in ("socket.connect", "socket.getaddrinfo"):
        print("reached for", *arguments, file=sys.stderr)
        raise PermissionError(event)
