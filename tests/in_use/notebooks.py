"""Opens the notebook in this process, or serves it to a browser."""

import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from subprocess import STDOUT
from types import ModuleType
from typing import IO, Any

import pytest
import urllib3
from terminals import open_process
from urllib3.util import Retry

NOTEBOOK = Path(__file__).parents[2] / "pipelines/notebooks/letters.py"


def import_notebook() -> ModuleType:
    """The notebook as a module: its app, and the functions that need no cell."""
    spec = spec_from_file_location("letters_notebook", NOTEBOOK)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_notebook(*arguments: object) -> Any:
    """Run the notebook in this process with these arguments, and return what its cells define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(NOTEBOOK), *map(str, arguments)])
        _, defined = import_notebook().app.run()
    return defined


def serve_notebook(*arguments: object) -> AbstractContextManager[str]:
    """The address of the notebook while marimo serves it, on this machine only."""
    command = [sys.executable, "-u", "-m", "marimo", "run", str(NOTEBOOK), "--headless", "--host", "127.0.0.1", "--"]
    return serve_marimo(*command, *map(str, arguments))


@contextmanager
def serve_marimo(*command: str, **options: Any) -> Iterator[str]:
    """The address of what a command serves by marimo, until the block ends."""
    with open_process(*command, stderr=STDOUT, **options) as server:
        try:
            assert server.stdout is not None
            line = read_until(server.stdout, "URL:")
            [port] = re.findall(r"http://\S+:(\d+)", line)
            address = f"http://127.0.0.1:{port}/"
            # it prints its address before it listens
            urllib3.request("GET", address + "health", retries=Retry(60, backoff_factor=0.1, backoff_max=1))
            yield address
        finally:
            server.terminate()


def read_until(lines: IO[str], word: str) -> str:
    """Read lines up to the one with the word, or to the end."""
    seen = ""
    for line in lines:
        seen += line
        if word in line:
            break
    return seen
