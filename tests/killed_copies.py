"""Copies DuckDB files for readers, in forks that kill themselves at chosen steps. `test_e2e_killed_copies.py` runs it.

A line of standard input is a step, such as `return write_copy`, or empty. The answer is the exit code.
"""

import gc
import os
import signal
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from command_server import IMPORTED
from letters_source import make_pipeline, unite_account
from letters_source.destination.kinds import place_of
from letters_source.destination.publish import publish_copy

ACCOUNT = "501"


def kill_at(chosen: str, function: str, frame: FrameType, event: str, _: Any) -> None:
    """Kill this process when a function is called or returns."""
    if frame.f_code.co_name == function and event == chosen:
        os.kill(os.getpid(), signal.SIGKILL)


def copy(action: str, file: Path, to: Path, step: str) -> NoReturn:
    """Publish a file, or unite its account, in a process that ends with it."""
    place = place_of(make_pipeline("duckdb", file))
    if step:
        event, _, function = step.partition(" ")
        sys.setprofile(partial(kill_at, event, function))
    if action == "publish":
        publish_copy(place, to, 0)
    else:
        unite_account(to, ACCOUNT, (ACCOUNT,))
    os._exit(0)


def main() -> None:
    """Fork for each line, and report how the copy ended."""
    action, file, to = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    for module in IMPORTED:
        import_module(module)
    # garbage collection in a fork would scan all that is imported here
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            copy(action, file, to, line.strip())
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
