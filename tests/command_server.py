"""Fork a process for each command that a test runs.

    python command_server.py SOCKET

Most of the cost of a small load is imports: about 2 s of CPU, which each fork saves. A message on the socket
carries five descriptors: the request (JSON: code, arguments, environment, working folder), where to write the process
id and the exit code, and the standard streams.
"""

import atexit
import gc
import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

DESCRIPTORS = 5
# what a load by the command imports; dlt looks for SQLAlchemy in each
IMPORTED = (
    "letters_source.cli.demo",
    "letters_source.cli.process",
    "letters_source.source",
    "dlt._workspace._plugins",
    "dlt.common.libs.pyarrow",
    "dlt.common.libs.sql_alchemy_compat",
    "dlt.destinations.impl.duckdb.duck",
    "dlt.sources.helpers.requests",
    "pendulum.locales.en.locale",
    "rich.progress",
    "rich.table",
)


def main() -> None:
    """Fork for each message, until the socket is closed."""
    for module in IMPORTED:
        import_module(module)
    # garbage collection in a fork would scan all that is imported here, which takes a tenth of a load's time
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as messages:
        while True:
            message, descriptors, _, _ = socket.recv_fds(messages, 1, DESCRIPTORS)
            if not message:
                return
            if os.fork() == 0:
                messages.close()
                watch(*descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def watch(request: int, reply: int, *streams: int) -> None:
    """Fork the command, and write its process id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        os.close(reply)
        become(request, streams)
    for stream in streams:
        os.close(stream)
    os.write(reply, f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(reply, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(request: int, streams: tuple[int, ...]) -> NoReturn:
    """Run the code of the request with its streams, arguments, environment and folder."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    asked = json.loads(Path(f"/dev/fd/{request}").read_text())
    os.close(request)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = asked["arguments"]
    end_with(run_code(asked["code"]))


def run_code(code: str) -> int:
    """Run the code; return the exit code that Python would end with."""
    try:
        exec(code, {"__name__": "__main__"})  # noqa: S102 -- the tests' own code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 -- as the interpreter does at its top level
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end_with(code: int) -> NoReturn:
    """End the process without finalizing its objects: a fork does not have the threads that DuckDB would join."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # Python starts without the streams that are closed
        if stream is not None:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
