"""A server with S3's interface, in a process of its own on a free port of this machine."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

READY = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def serve_buckets() -> Iterator[tuple[str, list[str]]]:
    """The URL of a new server without any bucket, which ends with the block, and a line for each request so far."""
    program = str(Path(sys.executable).with_name("moto_server"))
    arguments = [program, "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        found = next((said for line in server.stderr if (said := READY.search(line))), None)
        assert found, "The server of buckets did not start."
        requests: list[str] = []
        # it logs each request, and would wait for a reader if the pipe were full
        Thread(target=requests.extend, args=(server.stderr,), daemon=True).start()
        yield found[1], requests
        server.terminate()
