"""Locks: one load at a time per pipeline, folder and PostgreSQL dataset; and files that only their owner can read."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock

import dlt

from letters_source.destination.cleanup import remove_truncated_files
from letters_source.destination.kinds import engine, local_folder, table_format
from letters_source.destination.pipeline import unusable
from letters_source.destination.postgres import locked_dataset
from letters_source.destination.preflight import check_destination
from letters_source.destination.waiting import patiently
from letters_source.errors import DestinationError, DestinationInUse


@contextmanager
def prepared(pipeline: dlt.Pipeline, wait: float) -> Iterator[str]:
    """Hold a pipeline with an empty working folder, and its destination, while the block runs.

    Two runs of a pipeline would share its working folder, two pipelines may load into one folder, and two machines into
    one database. DuckDB locks its files itself.

    Yields:
        SQL that fails once PostgreSQL's lock is lost; empty for other destinations.

    Raises:
        DestinationError: the destination cannot be written.
        DestinationInUse: another load uses it and did not end within `wait` seconds.
    """
    name = str(pipeline.pipeline_name)
    with ExitStack() as stack:
        stack.enter_context(
            locked(Path(pipeline.pipelines_dir) / f"{name}.lock", f"A load of dlt's pipeline {name}", wait)
        )
        stack.enter_context(emptied(pipeline))
        patiently(partial(check_destination, pipeline), wait)
        lock_check = stack.enter_context(locked_dataset(pipeline, wait)) if engine(pipeline) == "postgres" else ""
        folder = local_folder(pipeline)
        # a new folder belongs to nobody else, and is made by a load that ends well
        if folder and folder.is_dir():
            stack.enter_context(locked(folder, f"A load into {folder}", wait))
            if not table_format(pipeline):
                remove_truncated_files(folder / str(pipeline.dataset_name))
        yield lock_check


@contextmanager
def emptied(pipeline: dlt.Pipeline) -> Iterator[None]:
    """Empty the pipeline's working folder, and again if the block fails.

    It may belong to another destination, or hold packages of an earlier run, which dlt would load instead of asking the
    service. All state that counts is in the destination. A failed load leaves no rows behind.
    """
    try:
        pipeline.drop()
    except OSError as error:
        raise unusable(error) from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            pipeline.drop()
        raise


@contextmanager
def locked(place: Path, name: str, wait: float) -> Iterator[None]:
    """Hold the lock of a file or a folder while the block runs.

    The lock ends with its process, however that ends. A lock file stays, with the id of the last process.

    Raises:
        DestinationInUse: another process holds it; the message has its name and id.
    """
    is_folder = place.is_dir()
    try:
        descriptor = os.open(place, os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if is_folder:
            raise DestinationError(f"{place} cannot be read: {error.strerror}; choose another --to.") from error
        raise unusable(error) from error
    try:
        patiently(partial(take, descriptor, name), wait)
        if not is_folder:
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def take(descriptor: int, name: str) -> None:
    """Lock what is open.

    Raises:
        DestinationInUse: it is locked.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DestinationInUse(f"{name} is already running{holder(descriptor)}") from None


def holder(descriptor: int) -> str:
    """The process that has locked a file, for a message; empty for folders, which have no place for its id."""
    try:
        return f", pid {os.pread(descriptor, 20, 0).decode()}"
    except IsADirectoryError:
        return ""


OWNER_ALONE = 0o077


class PrivateFiles:
    """The process's umask, restricted to the owner while loads run.

    DuckDB's write-ahead log and other new files have no other setting. Existing files keep their modes.
    """

    def __init__(self) -> None:
        self._counting = Lock()
        self._loads = self._before = 0

    def __enter__(self) -> None:
        with self._counting:
            self._loads += 1
            if self._loads == 1:
                self._before = os.umask(OWNER_ALONE)

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._loads -= 1
            if not self._loads:
                os.umask(self._before)


private_files = PrivateFiles()
