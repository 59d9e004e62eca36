"""Starts, controls and stops the emulator as a child process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("serve_emulator.py")


class Service:
    """The emulator in a process of its own: `settings` says how to reach it, `rows` what it holds."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.settings: dict[str, str] = self._receive()
        self.rows: dict[str, int] = self._receive()

    def behave(self, **behavior: Any) -> dict[str, int]:
        """Change the behavior; return the number of requests until now, by listing and by status."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(behavior) + "\n")
        self._process.stdin.flush()
        traffic: dict[str, int] = self._receive()
        return traffic

    def _receive(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


@contextmanager
def serve(contacts: int, templates: int) -> Iterator[Service]:
    """Serve that many rows while the block runs."""
    command = [sys.executable, str(SCRIPT), "--contacts", str(contacts), "--templates", str(templates)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # leaving the block closes its stdin, at which it ends, and waits for it
    with process:
        yield Service(process)
