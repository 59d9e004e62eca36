"""Handles standard output that can no longer be written: the reader is gone, or the disk is full."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


def end_output(last: str = "") -> str:
    """Flush standard output, then write `last`; return the reason of a failure, empty if the reader is gone."""
    try:
        # a scheduler may have closed it
        if sys.stdout is not None:
            sys.stdout.write(last)
            sys.stdout.flush()
    except OSError as error:
        silence_output()
        return "" if isinstance(error, BrokenPipeError) else str(error.strerror)
    return ""


@contextmanager
def results_shown() -> Iterator[None]:
    """Print the results of a verified load; if they cannot be written, the error says that the load is verified."""
    reason = ""
    try:
        yield
    except OSError:
        # writing one more line shows whether the error is about the output
        if not (reason := end_output("\n")):
            raise
    if reason := reason or end_output():
        raise click.ClickException(f"the load is verified, but its result cannot be written: {reason}.")


def silence_output() -> None:
    """Send what is still buffered to nowhere, so that Python does not fail to write it when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
