"""Settings and fixtures of all tests. Nothing here imports dlt or the emulator: tests of pure rooms need neither."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import settings

# garbage collection would take a third of the time until tests are collected
gc.disable()
# on a machine that is busy with other tests, an example may take any time
settings.register_profile("letters", deadline=None)
settings.load_profile("letters")


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: two more than cores, and at most four.

    Tests often wait: on two cores, with three workers, a seventh of the time was idle.
    """
    return min(4, (os.cpu_count() or 1) + 2)


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, which otherwise takes a tenth of a load's time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--images FOLDER`, where screenshots of pages go; without it they are taken and discarded."""
    parser.addoption("--images", type=Path, help="save screenshots of pages in this folder, for the documentation")


@pytest.fixture(scope="session", autouse=True)
def default_interrupts() -> Iterator[None]:
    """Ctrl-C ends the programs that tests start, even if a shell started the tests in the background."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture(scope="session", autouse=True)
def quiet_dlt() -> Iterator[None]:
    """Disable dlt's telemetry and its search for settings in Airflow, whose import takes 10 s, for all fixtures."""
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
