"""The lock of a dataset in PostgreSQL: one load at a time across machines, which fails if it loses the lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dlt
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.destination.waiting import patiently
from letters_source.errors import DestinationInUse, LoadFailed, causes

# PostgreSQL 17 also has one for each whole transaction
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)


@contextmanager
def locked_dataset(pipeline: dlt.Pipeline, wait: float) -> Iterator[str]:
    """Hold a dataset in PostgreSQL while the block runs: loads from several machines would share its staging.

    An otherwise idle transaction holds an advisory lock, which ends with its connection, also behind a pooler.

    Yields:
        A statement that fails once the lock is lost.

    Raises:
        DestinationInUse: another load holds it.
        LoadFailed: the block failed, and the lock was lost.
    """
    with pipeline.sql_client() as client:
        # the server must not end it for being idle, but soon when its machine is gone
        for statement in ("BEGIN", NO_TIMEOUTS, "SET LOCAL tcp_keepalives_idle = 60"):
            client.execute_sql(statement)
        backend = patiently(partial(take_dataset, client), wait)
        with loss_told(client):
            yield check_held(backend)


def check_held(backend: int) -> str:
    """A statement that divides by zero unless a process of the server holds an advisory lock."""
    return f"SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend};"


def take_dataset(client: Any) -> int:
    """Lock the dataset of a client; returns the id of the server's process that holds the lock.

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
    """Explain a failure of the database in the block by the lost lock, where the lock's connection has ended.

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
                    f"The connection to PostgreSQL that holds the lock on the dataset {client.dataset_name} ended, "
                    "through a restart, the network, or a limit on idle transactions; load again."
                ) from error
        raise
