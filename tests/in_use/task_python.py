"""Runs Spark's daemons, and so its tasks, in forks of one Python that has imported their libraries.

    python task_python.py serve DESCRIPTOR
    python task_python.py ask SOCKET -m pyspark.daemon MODULE

The first forks a daemon for each connection to a socket that listens already; the second is a Python for Spark, which
requests one. Libraries are most of what a small task costs: about 1 s of CPU for each daemon, and Spark starts one
for each kind of task on each executor. Our own modules are imported by each task, as they are for users.
"""

import gc
import json
import os
import runpy
import signal
import socket
import sys
from importlib import import_module
from importlib.util import find_spec

DAEMON = "pyspark.daemon"
LIBRARIES = (
    "dlt",
    "jwt",
    "msgspec",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.sql.datasource",
    "pyspark.worker",
    "tenacity",
)


def serve(descriptor: str) -> None:
    """Fork a daemon for each connection."""
    # pandas is not among the requirements of the extra
    for module in filter(find_spec, LIBRARIES):
        import_module(module)
    # garbage collection in a fork would scan all that is imported here
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(descriptor)) as listening:
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                become_daemon(connection)
                return
            connection.close()


def become_daemon(connection: socket.socket) -> None:
    """Run Spark's daemon with the streams, arguments, environment and folder of the requesting process."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as request:
        asked = json.load(request)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    # as `python -m` has them
    sys.argv, sys.path[0] = asked["arguments"], asked["folder"]
    runpy.run_module(DAEMON, run_name="__main__", alter_sys=True)


def ask(place: str, *arguments: str) -> None:
    """Request a daemon with our streams, and wait for its end."""
    assert arguments[:2] == ("-m", DAEMON), arguments
    asked = {"arguments": arguments[1:], "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 -- starts faster
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        socket.send_fds(server, [b"."], [0, 1, 2])
        server.sendall(json.dumps(asked).encode())
        server.shutdown(socket.SHUT_WR)
        server.recv(1)


if __name__ == "__main__":
    _, verb, *rest = sys.argv
    if verb == "serve":
        serve(*rest)
    else:
        ask(*rest)
