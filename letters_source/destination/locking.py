"""Who may load now: one run at a time for a pipeline and a folder, and files for their owner alone."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock

import dlt

from letters_source.destination.kinds import engine, local_folder, table_format
from letters_source.destination.pipeline import unusable
from letters_source.destination.postgres import locked_dataset
from letters_source.destination.preflight import check_destination
from letters_source.destination.stumps import remove_stumps
from letters_source.destination.waiting import patiently
from letters_source.errors import DestinationError, DestinationInUse


@contextmanager
def prepared(pipeline: dlt.Pipeline, wait: float) -> Iterator[None]:
    """Hold a pipeline with an empty working folder, and the place that it loads into, while the block runs.

    Two runs of a pipeline would take its working folder from each other; two pipelines may load into one folder.
    Two machines may load into one database. DuckDB locks its files by itself.

    Raises:
        DestinationError: the place cannot be written, or somebody else uses it and did not end within `wait` seconds.
    """
    name = str(pipeline.pipeline_name)
    with ExitStack() as stack:
        stack.enter_context(
            locked(Path(pipeline.pipelines_dir) / f"{name}.lock", f"A load of dlt's pipeline {name}", wait)
        )
        stack.enter_context(emptied(pipeline))
        patiently(partial(check_destination, pipeline), wait)
        if engine(pipeline) == "postgres":
            stack.enter_context(locked_dataset(pipeline, wait))
        folder = local_folder(pipeline)
        # a folder that is new belongs to nobody else, and is made by a load that ends well
        if folder and folder.is_dir():
            stack.enter_context(locked(folder, f"A load into {folder}", wait))
            if not table_format(pipeline):
                remove_stumps(folder / str(pipeline.dataset_name))
        yield


@contextmanager
def emptied(pipeline: dlt.Pipeline) -> Iterator[None]:
    """Begin with an empty working folder, and leave one when the block fails.

    It may be of another place, or of one that was exchanged, or hold what an earlier run left half done, which dlt
    would load without asking the service, or stumble over: what counts is in the destination. Rows that were on their
    way when a load failed are not left lying about.
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

    It ends with its process, however that ends. A file stays, and tells which process had it last.

    Raises:
        DestinationInUse: another holds it; the message says what that is by name, and its process.
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
    """Which process has the lock of a file; a folder's names none."""
    try:
        return f", pid {os.pread(descriptor, 20, 0).decode()}"
    except IsADirectoryError:
        return ""


OWNER_ALONE = 0o077


class PrivateFiles:
    """The process's umask, tightened while a load runs; of several side by side, until the last one ends.

    Nothing else reaches the files that DuckDB makes beside its own, such as its log. Files and folders that exist
    keep their modes.
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
