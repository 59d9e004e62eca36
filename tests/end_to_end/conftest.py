"""What do the end-to-end tests share?"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from worlds import Begin, World, serve_world

from letters_source.destination import Kind
from letters_source.emulator import Emulator


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Makes a world of an emulator and a kind of destination; it ends with the test."""
    with ExitStack() as stack:

        def start(emulator: Emulator | None = None, kind: Kind = "duckdb") -> World:
            return stack.enter_context(serve_world(tmp_path, kind, emulator))

        yield start
