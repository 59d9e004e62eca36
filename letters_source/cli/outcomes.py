"""Tells programs how `letters load` ended: one JSON object on stdout, and after a failure on a command's stdin."""

import os
import signal
import subprocess  # nosec B404
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
import msgspec

from letters_source.cli.loads import Loads
from letters_source.cli.output import results_shown

SECONDS_FOR_COMMAND = 60


@contextmanager
def outcome_reported(loads: Loads, *, as_json: bool, on_failure: str | None) -> Iterator[None]:
    """Print how the block's loads ended as JSON, if asked, and give it to a command if they failed."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        loads.fail(error)
        result = msgspec.json.encode(loads.result(error))
        # the user who pressed Ctrl-C needs no alert
        if on_failure and not isinstance(error, KeyboardInterrupt):
            call(on_failure, result)
        print_json(result, wanted=as_json)
        raise
    with results_shown():
        print_json(msgspec.json.encode(loads.result()), wanted=as_json)


def print_json(result: bytes, *, wanted: bool) -> None:
    """Print a result on a line of stdout, if it is wanted."""
    if wanted:
        # a reader that leaves is no failure; `end_output` discards the rest
        with suppress(BrokenPipeError):
            click.echo(result.decode())


def call(command: str, result: bytes, seconds: float = SECONDS_FOR_COMMAND) -> None:
    """Run a shell command with the result on stdin; its own failure is a line on stderr and nothing more."""
    try:
        code = run_shell(command, result, seconds)
    except subprocess.TimeoutExpired:
        click.echo(f"letters: the --on-failure command was stopped after {seconds} s", err=True)
    except OSError as error:
        click.echo(f"letters: the --on-failure command could not be started: {error.strerror}", err=True)
    else:
        if code:
            click.echo(f"letters: the --on-failure command ended with exit code {code}", err=True)


def run_shell(command: str, stdin: bytes, seconds: float) -> int:
    """Run a shell command; return its exit code. One that takes too long ends with all that it started."""
    # stdout holds nothing but our result; stderr may be closed
    stdout = sys.__stderr__ or subprocess.DEVNULL
    arguments = ["/bin/sh", "-c", command]
    # the user who runs this command wrote that one, too
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=stdout, start_new_session=True) as process:  # noqa: S603  # nosec B603
        try:
            process.communicate(stdin, timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode
