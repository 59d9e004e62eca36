"""A dataset that is already loaded, whose tables must not change when a load fails."""

from collections.abc import Iterator

import pytest
from fixtures import begin, letters, project
from row_changes import refill
from worlds import World, serve_world

from programmable_emulator import Behavior, Emulator

__all__ = ["begin", "letters", "loaded", "project", "world"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """40 contacts and 7 templates, loaded once a module; servers at other addresses count as the same service."""
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=Emulator(40, 7)) as world:
        world.settings["allow_other_service"] = True
        world.load()
        yield world


@pytest.fixture
def world(loaded: World) -> Iterator[World]:
    """The loaded world, its emulator restored after the test."""
    emulator = loaded.emulator
    listings = {listing: listing.rows() for listing in (emulator.contacts, emulator.templates)}
    tokens = emulator.access_token, emulator.refresh_token
    yield loaded
    emulator.canned.clear()
    emulator.behavior = Behavior()
    emulator.before_answer = None
    emulator.access_token, emulator.refresh_token = tokens
    for listing, rows in listings.items():
        refill(listing, rows)
