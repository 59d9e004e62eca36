"""Settings and fixtures of all tests. Nothing here imports dlt or the emulator: tests of pure rooms need neither."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import settings

# until tests are collected, a third of the time would go into garbage collections
gc.disable()
# a machine that is busy with other tests may take any time for an example
settings.register_profile("letters", deadline=None)
settings.load_profile("letters")


def pytest_xdist_auto_num_workers() -> int:
    """How many tests run side by side with `-n auto`: as many as there are cores, but four need memory enough."""
    return min(4, os.cpu_count() or 1)


def pytest_collection_finish() -> None:
    """Leave what has been imported out of garbage collections, which otherwise take a tenth of the time of a load."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--images FOLDER`: where pictures of pages go; without it they are made all the same, and forgotten."""
    parser.addoption("--images", type=Path, help="put the pictures of pages into this folder, for the documents")


@pytest.fixture(scope="session", autouse=True)
def heeded_interrupts() -> Iterator[None]:
    """Ctrl-C ends the programs that tests start, also where a shell started the tests in its background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture(scope="session", autouse=True)
def quiet_dlt() -> Iterator[None]:
    """Send no telemetry, and do not look for settings in Airflow, whose import takes 10 s; fixtures of modules, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
        patch.setenv("PROVIDERS__ENABLE_AIRFLOW_SECRETS", "false")
        yield


@pytest.fixture(autouse=True)
def untouched_process() -> Iterator[None]:
    """Restore the environment and the working folder after each test, in whatever order fixtures undo their changes."""
    environment = dict(os.environ)
    with chdir("."):
        yield
    # writing all variables takes longer than most tests
    for name, _ in dict(os.environ).items() ^ environment.items():
        os.environ.pop(name, None)
        if name in environment:
            os.environ[name] = environment[name]
