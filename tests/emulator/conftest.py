"""Fixtures of the emulator's tests."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import requests
from served import Client, Serve

from programmable_emulator import Emulator


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves emulators until the test ends."""
    with ExitStack() as stack:

        def start(emulator: Emulator) -> Client:
            session = stack.enter_context(requests.Session())
            return Client(emulator, stack.enter_context(emulator.serve()), session)

        yield start
