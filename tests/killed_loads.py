"""Loads that end by SIGKILL at a step of our choice, in processes of their own.

    python killed_loads.py SETTINGS FILE

For each line on stdin it forks and loads. A number kills the load before the step of that number, a pattern before the
first step that it fits, `@1.5` after so many seconds, and an empty line kills nothing. Steps are the files that are
opened to be written, closed, renamed or removed, and DuckDB's statements, before and after. On stdout a JSON list tells
the steps of a load that was not killed, if they were counted, and then a line how the load ended.
"""

import json
import os
import re
import signal
import sys
import threading
from io import IOBase
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from letters_source import make_pipeline, run

LONGEST = 600
"""Seconds that a load may take."""
FILE_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
# what dlt gives DuckDB goes through these, which a profile sees; the methods of DuckDB itself it does not
CLIENT = "duckdb/sql_client.py"
STATEMENTS = {"execute_query", "begin_transaction", "commit_transaction"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Steps:
    """The steps of a load so far; at the chosen one the process ends."""

    def __init__(self, chosen: str) -> None:
        self.number = int(chosen) if chosen.isdecimal() else 0
        self.pattern = re.compile(chosen if chosen and not self.number else "(?!)", re.DOTALL)
        self.taken: list[str] = []

    def take(self, step: str) -> None:
        """One more."""
        self.taken.append(step)
        if len(self.taken) == self.number or self.pattern.match(step):
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python is about to do something to a file."""
        is_writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if event in FILE_EVENTS or is_writing:
            self.take(f"{event} {arguments[0]}")

    def profile(self, frame: FrameType, event: str, function: Any) -> None:
        """DuckDB is about to run a statement, or has run it; or what was written to a file is about to reach it."""
        code = frame.f_code
        if code.co_name in STATEMENTS and code.co_filename.endswith(CLIENT) and event in ("call", "return"):
            when = "before" if event == "call" else "after"
            self.take(f"{when} {code.co_name} {frame.f_locals.get('query', '')}")
        if event == "c_call" and function.__name__ in ("close", "__exit__"):
            self.close(getattr(function, "__self__", None))

    def close(self, file: Any) -> None:
        """A file that was written is about to be closed."""
        if isinstance(file, IOBase) and not file.closed and file.writable():
            self.take(f"close {getattr(file, 'name', '')}")


def load(settings: dict[str, Any], file: Path, chosen: str) -> NoReturn:
    """Load, in a process that ends with it."""
    steps = Steps(chosen)
    if chosen:
        sys.addaudithook(steps.audit)
        threading.setprofile(steps.profile)
        sys.setprofile(steps.profile)
    run(make_pipeline("duckdb", file), **settings)
    sys.setprofile(None)
    print(json.dumps(steps.taken), flush=True)
    os._exit(0)


def main() -> None:
    """Fork for each line, and tell how it ended."""
    settings, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        chosen, _, moment = line.strip().partition("@")
        child = os.fork()
        if not child:
            load(settings, file, chosen)
        # for the benchmark, which kills at moments that dice choose; tests kill at steps
        killer = threading.Timer(float(moment or LONGEST), os.kill, (child, signal.SIGKILL))
        killer.start()
        _, status = os.waitpid(child, 0)
        killer.cancel()
        killer.join()
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
