"""Standard output that can no longer be written: nobody reads it, or its disk is full."""

import os
import sys


def end_output(last: str = "") -> str:
    """Write what is still buffered, and `last`; return why that fails, empty if it does not or if nobody reads it."""
    try:
        # a scheduler may have closed it
        if sys.stdout is not None:
            sys.stdout.write(last)
            sys.stdout.flush()
    except OSError as error:
        silence_output()
        return "" if isinstance(error, BrokenPipeError) else str(error.strerror)
    return ""


def silence_output() -> None:
    """Discard what is still buffered, so that Python does not fail at it when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
