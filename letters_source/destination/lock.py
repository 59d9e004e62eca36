"""Who may load now? One run at a time for a pipeline and a folder, and none where another program holds the file."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import dlt
from dlt.common.configuration import configspec
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import ContainerInjectableContext
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from letters_source.destination.pipeline import unusable
from letters_source.destination.preflight import check_destination
from letters_source.destination.quoting import without_advice
from letters_source.destination.stumps import remove_stumps
from letters_source.destination.traits import engine, local_folder, table_format
from letters_source.errors import DestinationError, DestinationInUse, LoadFailed
from letters_source.failures import causes

# how often to look whether a place is free again: a load takes seconds at least
LOOK_SECONDS = 0.2
# PostgreSQL 17 has one for each whole transaction, too
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
T = TypeVar("T")


@configspec
class DatasetLock(ContainerInjectableContext):
    """The lock that a load holds on its dataset in PostgreSQL, told to dlt's client."""

    can_create_default: ClassVar[bool] = False

    backend: int = 0
    """The server's process that holds it."""


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
def locked_dataset(pipeline: dlt.Pipeline, wait: float) -> Iterator[None]:
    """Hold a dataset in PostgreSQL while the block runs: loads from several machines would share its staging.

    A transaction that does nothing else holds the lock, so that it goes with its connection, also behind a pooler.

    Raises:
        DestinationInUse: another load holds it.
        LoadFailed: the block failed, and the lock was lost.
    """
    with pipeline.sql_client() as client:
        # neither left alone nor left behind: the server shall not end it for waiting, but soon when its machine is gone
        for statement in ("BEGIN", NO_TIMEOUTS, "SET LOCAL tcp_keepalives_idle = 60"):
            client.execute_sql(statement)
        backend = patiently(partial(take_dataset, client), wait)
        with Container().injectable_context(DatasetLock(backend)), loss_told(client):
            yield


def take_dataset(client: Any) -> int:
    """Lock the dataset of a client, and tell which process of the server holds the lock.

    Raises:
        DestinationInUse: it is locked.
    """
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)), pg_backend_pid()"
    [[taken, backend]] = client.execute_sql(query, f"letters_source {client.dataset_name}")
    if not taken:
        raise DestinationInUse(f"A load into the dataset {client.dataset_name} is already running")
    return int(backend)


@contextmanager
def loss_told(client: Any) -> Iterator[None]:
    """Say so where the database fails in the block, and the connection that holds the lock has ended.

    Raises:
        LoadFailed: it has.
    """
    try:
        yield
    except (PipelineStepFailed, DestinationException) as error:
        if any(isinstance(cause, DestinationException) for cause in causes(error)):
            try:
                client.execute_sql("SELECT 1")
            except DestinationException:
                raise LoadFailed(
                    f"The connection to PostgreSQL that holds the lock of the dataset {client.dataset_name} ended, "
                    "by a restart, the network, or whoever ends idle transactions there; load again."
                ) from error
        raise


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


def patiently(attempt: Callable[[], T], wait: float) -> T:
    """Make an attempt, again and again until the place that it needs is free or the time is over.

    Raises:
        DestinationInUse: it was not free in time.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(DestinationInUse),
        stop=stop_after_delay(wait),
        wait=wait_fixed(min(LOOK_SECONDS, wait)),
        reraise=True,
    )
    result: T = retrying(attempt)
    return result


def when_free(attempt: Callable[[], T], wait: float) -> T:
    """Make an attempt that opens a DuckDB file, until no other process holds it or the time is over.

    Raises:
        DestinationInUse: one held it all the time.
    """
    return patiently(partial(tell_holder, attempt), wait)


def tell_holder(attempt: Callable[[], T]) -> T:
    """Make an attempt that opens a DuckDB file.

    Raises:
        DestinationInUse: another process holds it.
    """
    try:
        return attempt()
    except (DestinationException, LoadFailed) as error:
        words, mark, who = str(error).partition("Could not set lock")
        if not mark:
            raise
        # of ours the beginning tells what was not done; of dlt's it is about credentials
        begun = words if isinstance(error, LoadFailed) else ""
        raise DestinationInUse(f"{begun}{without_advice(mark + who)}") from None
