"""Runs loads that SIGKILL ends at a chosen step, each in its own process.

    python killed_loads.py SETTINGS FILE

For each line on stdin it forks and loads. A number kills the load before the step with that number, a pattern before
the first step that it matches, `@1.5` after that many seconds, and an empty line kills nothing.  Steps are the
files that are opened to be written, closed, renamed or removed, and DuckDB's statements and commits, before and after.
On stdout, a JSON list has the steps of a load that was not killed, if they were counted; the next line says how the
load ended.
"""

import builtins
import gc
import io
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from dlt.destinations.impl.duckdb.sql_client import DuckDbSqlClient

from command_server import IMPORTED
from letters_source import make_pipeline, run

LONGEST = 600
"""Seconds that a load may take."""
FILE_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Steps:
    """The steps of a load so far; at the chosen one the process ends."""

    def __init__(self, chosen: str) -> None:
        self.number = int(chosen) if chosen.isdecimal() else 0
        self.pattern = re.compile(chosen if chosen and not self.number else "(?!)", re.DOTALL)
        self.taken: list[str] = []

    def take(self, step: str) -> None:
        """Record a step, and kill the process if it is the chosen one."""
        self.taken.append(step)
        if len(self.taken) == self.number or self.pattern.match(step):
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take a step if Python is about to write, move or remove a file; an audit hook."""
        is_writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if event in FILE_EVENTS or is_writing:
            self.take(f"{event} {arguments[0]}")


def watch(steps: Steps) -> None:
    """Take each step from now on. A profile would see the steps, too, and make a load take seven times as long."""
    sys.addaudithook(steps.audit)
    watch_files(steps)
    watch_statements(steps)


def watch_files(steps: Steps) -> None:
    """Take a step before a file is closed, when its last bytes are not written yet."""

    class Watched(io.IOBase):
        def close(self) -> None:
            if not self.closed:
                steps.take(f"close {getattr(self, 'name', '')}")
            super().close()

    class Bytes(Watched, io.BufferedWriter): ...

    class Text(Watched, io.TextIOWrapper): ...

    def open_watched(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode not in ("w", "wt", "wb"):
            return io.open(file, mode, *arguments, **options)  # noqa: UP020 -- open is this function by now
        raw = io.FileIO(file, "w")
        return Bytes(raw) if mode == "wb" else Text(io.BufferedWriter(raw), *arguments, **options)

    builtins.open = open_watched


def watch_statements(steps: Steps) -> None:
    """Take a step before and after each statement that dlt gives to DuckDB, and around commits."""
    execute, commit = DuckDbSqlClient.execute_query, DuckDbSqlClient.commit_transaction

    @contextmanager
    def execute_query(client: Any, query: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        steps.take(f"before execute_query {query}")
        with execute(client, query, *arguments, **options) as cursor:
            steps.take(f"after execute_query {query}")
            yield cursor

    def commit_transaction(client: Any) -> None:
        steps.take("before commit_transaction")
        commit(client)
        steps.take("after commit_transaction")

    DuckDbSqlClient.execute_query = execute_query  # type: ignore[assignment, method-assign]
    DuckDbSqlClient.commit_transaction = commit_transaction  # type: ignore[assignment, method-assign]


def load(settings: dict[str, Any], file: Path, chosen: str) -> NoReturn:
    """Load, in a process that ends with it."""
    steps = Steps(chosen)
    if chosen:
        watch(steps)
    run(make_pipeline("duckdb", file), **settings)
    print(json.dumps(steps.taken), flush=True)
    os._exit(0)


def main() -> None:
    """Fork for each line, and report how the load ended."""
    settings, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    for module in IMPORTED:
        import_module(module)
    # garbage collection in a fork would scan all that is imported here, which takes a tenth of a load's time
    gc.freeze()
    for line in sys.stdin:
        chosen, _, moment = line.strip().partition("@")
        child = os.fork()
        if not child:
            load(settings, file, chosen)
        # for the benchmark, which kills at random moments; tests kill at steps
        killer = threading.Timer(float(moment or LONGEST), os.kill, (child, signal.SIGKILL))
        killer.start()
        _, status = os.waitpid(child, 0)
        killer.cancel()
        killer.join()
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
