"""Allows one load at a time per process, pipeline, folder and PostgreSQL dataset, and waits while one is in use."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import dlt
from dlt.common.destination.exceptions import DestinationException
from dlt.destinations.sql_client import SqlClientBase
from dlt.pipeline.exceptions import PipelineStepFailed
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from letters_source.destination.cleanup import remove_truncated_files
from letters_source.destination.kinds import engine, local_folder, table_format
from letters_source.destination.local_files import ANOTHER_PATH
from letters_source.destination.pipeline import unusable_directory
from letters_source.destination.preflight import check_destination
from letters_source.destination.sql import fetch_rows
from letters_source.errors import LOAD_LATER, DestinationError, DestinationInUse, LoadFailed
from letters_source.telemetry import PHASES
from letters_source.wording import causes, without_advice

T = TypeVar("T")
PROCESS = RLock()
# seconds between attempts; loads take seconds
LOOK_SECONDS = 0.2
# transaction_timeout exists since PostgreSQL 17
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)

OTHER_PLACE = " A load into another place can run at the same time if DLT_DATA_DIR is another directory."
LOCKED = ("postgres",)
"""The kinds of servers where a load locks its dataset."""


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
def prepared(pipeline: dlt.Pipeline, wait: float) -> Iterator[str]:
    """Lock the pipeline and its destination, check both, and empty the working directory, for the block.

    Yield SQL that fails if PostgreSQL's lock is lost; empty for other destinations. DuckDB locks its own files.
    """
    name = str(pipeline.pipeline_name)
    file = Path(pipeline.pipelines_dir) / f"{name}.lock"
    with ExitStack() as stack:
        stack.enter_context(locked(file, f"A load of dlt's pipeline {name}", wait))
        stack.enter_context(emptied(pipeline))
        patiently(partial(check_destination, pipeline), wait)
        lock_check = stack.enter_context(locked_dataset(pipeline, wait)) if engine(pipeline) in LOCKED else ""
        folder = local_folder(pipeline)
        # a folder that does not exist yet needs no lock; dlt creates it during the load
        if folder and folder.is_dir():
            stack.enter_context(locked(folder, f"A load into {folder}", wait))
            if not table_format(pipeline):
                remove_truncated_files(folder / str(pipeline.dataset_name))
        yield lock_check


@contextmanager
def emptied(pipeline: dlt.Pipeline) -> Iterator[None]:
    """Empty the pipeline's working directory, and again if the block fails, so that no rows stay on disk."""
    # dlt would load packages of an earlier run instead of reading the service
    try:
        pipeline.drop()
    except OSError as error:
        raise unusable_directory(error) from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            pipeline.drop()
        raise


@contextmanager
def locked(place: Path, name: str, wait: float) -> Iterator[None]:
    """Lock a file or a folder while the block runs; the file stays, with the last process id."""
    is_folder = place.is_dir()
    try:
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
            raise DestinationInUse(f"{what}, pid {pid}", advice=LOAD_LATER + OTHER_PLACE) from None
        raise DestinationInUse(what) from None


@contextmanager
def locked_dataset(pipeline: dlt.Pipeline, wait: float) -> Iterator[str]:
    """Lock a PostgreSQL dataset while the block runs: loads from several machines would share its staging schema.

    An otherwise idle transaction holds an advisory lock; the server releases it when the connection ends, also behind
    a connection pooler. Yield a statement that fails if the lock is lost.
    """
    with pipeline.sql_client() as client:
        # no idle timeout may end the transaction, but keepalives end it soon after the client machine is gone
        for statement in ("BEGIN", NO_TIMEOUTS, "SET LOCAL tcp_keepalives_idle = 60"):
            client.execute_sql(statement)
        backend = patiently(partial(take_dataset, client), wait)
        with loss_reported(client):
            # divides by zero unless that server process holds an advisory lock
            yield f"SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend};"


def take_dataset(client: SqlClientBase[Any]) -> int:
    """Lock the dataset of a client and return the id of the server process that holds the lock, or raise."""
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)), pg_backend_pid()"
    [[taken, backend]] = fetch_rows(client, query, f"letters_source {client.dataset_name}")
    if not taken:
        raise DestinationInUse(f"A load into the dataset {client.dataset_name} is already running")
    return int(backend)


@contextmanager
def loss_reported(client: SqlClientBase[Any]) -> Iterator[None]:
    """Raise `LoadFailed` if the database fails in the block and the lock's connection was lost."""
    try:
        yield
    except (PipelineStepFailed, DestinationException) as error:
        if any(isinstance(cause, DestinationException) for cause in causes(error)):
            try:
                client.execute_sql("SELECT 1")
            except DestinationException:
                raise LoadFailed(
                    f"The PostgreSQL connection that held the lock on the dataset {client.dataset_name} was lost "
                    "(server restart, network, or a limit on idle transactions); load again."
                ) from error
        raise


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
