"""Allows one load at a time per process, working directory and folder, and waits while one is in use."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TypeVar

from dlt.common.destination.exceptions import DestinationException
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from letters_source.destination.local_files import ANOTHER_PATH, unusable_directory
from letters_source.destination.place import Place
from letters_source.errors import DestinationError, DestinationInUse, LoadFailed
from letters_source.telemetry import PHASES
from letters_source.wording import without_advice

T = TypeVar("T")
PROCESS = RLock()
# seconds between attempts; loads take seconds
LOOK_SECONDS = 0.2


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Run the block in one thread at a time, and make new files private to their owner."""
    # dlt's active pipeline, warning filters and the umask are global; DuckDB has no setting for the mode of its files
    with PROCESS:
        before = os.umask(0o077)
        try:
            yield
        finally:
            os.umask(before)


@contextmanager
def locked_working_dir(place: Place, wait: float) -> Iterator[None]:
    """Lock a place's working directory for the block, and empty it; again if the block fails, as rows must not stay."""
    with locked(place.lock_file, f"A load of dlt's pipeline {place.pipeline.pipeline_name}", wait), emptied(place):
        yield


@contextmanager
def emptied(place: Place) -> Iterator[None]:
    """Empty the working directory, and again if the block fails."""
    # dlt would load packages of an earlier run instead of reading the service
    try:
        place.pipeline.drop()
    except OSError as error:
        raise unusable_directory(error) from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            place.pipeline.drop()
        raise


@contextmanager
def locked(place: Path, name: str, wait: float) -> Iterator[None]:
    """Lock a file or a folder while the block runs; the file stays, with the last process id."""
    is_folder = place.is_dir()
    try:
        # the folder of a new place does not exist yet
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if is_folder:
            raise DestinationError(
                f"{place} cannot be read: {error.strerror}", advice=ANOTHER_PATH, key="to"
            ) from error
        raise unusable_directory(error) from error
    try:
        patiently(partial(take, descriptor, name), wait)
        if not is_folder:
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def take(descriptor: int, name: str) -> None:
    """Lock an open file or folder, or raise `DestinationInUse`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        what = f"{name} is already running"
        # a folder cannot store the process id
        with suppress(IsADirectoryError):
            pid = os.pread(descriptor, 20, 0).decode()
            raise DestinationInUse(f"{what}, pid {pid}") from None
        raise DestinationInUse(what) from None


def patiently(attempt: Callable[[], T], wait: float) -> T:
    """Retry an attempt while the destination is in use, for up to `wait` seconds, or raise `DestinationInUse`."""
    retrying = Retrying(
        retry=retry_if_exception_type(DestinationInUse),
        stop=stop_after_delay(wait),
        wait=wait_fixed(min(LOOK_SECONDS, wait)),
        before_sleep=log_first_wait,
        reraise=True,
    )
    return retrying(attempt)


def log_first_wait(state: RetryCallState) -> None:
    """Log once what the load is waiting for."""
    error = state.outcome and state.outcome.exception()
    if state.attempt_number == 1 and isinstance(error, DestinationInUse):
        PHASES.info("waiting: %s", error.what)


def when_free(attempt: Callable[[], T], wait: float) -> T:
    """Retry an attempt to open a DuckDB file while another process has it open, for up to `wait` seconds."""
    return patiently(partial(naming_holder, attempt), wait)


def naming_holder(attempt: Callable[[], T]) -> T:
    """Attempt to open a DuckDB file, or raise `DestinationInUse`."""
    try:
        return attempt()
    except (DestinationException, LoadFailed) as error:
        words = error.what if isinstance(error, LoadFailed) else str(error)
        before, mark, after = words.partition("Could not set lock")
        if not mark:
            raise
        # our message starts with what failed, dlt's with its credentials
        prefix = before if isinstance(error, LoadFailed) else ""
        raise DestinationInUse(f"{prefix}{without_advice(mark + after)}") from None
