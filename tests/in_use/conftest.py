"""A browser for the tests of pages, and the folder for its screenshots."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import begin, letters, project, world
from playwright.sync_api import Browser, sync_playwright
from worlds import World, serve_world

from programmable_emulator import Emulator

__all__ = [
    "begin",
    "browser",
    "images",
    "letters",
    "loaded",
    "project",
    "usual_service",
    "world",
]

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync")
"""Chromium's own requests to elsewhere are off, so that a page's are all there are."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """30 contacts and 5 templates, loaded once for a module; some modules have their own."""
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=Emulator(30, 5)) as world:
        world.load()
        yield world


@pytest.fixture
def usual_service(world: World) -> Iterator[None]:
    """Start a test with a service that behaves as usual."""
    usual = world.emulator.behavior
    yield
    world.emulator.behavior, world.emulator.before_answer = usual, None
    world.emulator.canned.clear()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine, without a window.

    Not for longer than a module: while it is in use, this thread has a running event loop, with which Dagster fails.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "The tests of pages need Chromium on the PATH: apt-get install chromium."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def images(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder for a test's screenshots."""
    # a world of the test may have changed the working directory already
    folder = request.config.invocation_params.dir / (request.config.getoption("--images") or tmp_path / "images")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
