"""An advisory lock per PostgreSQL dataset: one load at a time across machines, which fails if it loses the lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dlt
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.destination.waiting import patiently
from letters_source.errors import DestinationInUse, LoadFailed, causes

# transaction_timeout exists since PostgreSQL 17
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)


@contextmanager
def locked_dataset(pipeline: dlt.Pipeline, wait: float) -> Iterator[str]:
    """Lock a PostgreSQL dataset while the block runs: loads from several machines would share its staging schema.

    An otherwise idle transaction holds an advisory lock; the server releases it when the connection ends, also behind
    a connection pooler.

    Yields:
        A statement that fails if the lock is lost.

    Raises:
        DestinationInUse: another load holds it.
        LoadFailed: the block failed because the lock was lost.
    """
    with pipeline.sql_client() as client:
        # no idle timeout may end the transaction, but keepalives end it soon after the client machine is gone
        for statement in ("BEGIN", NO_TIMEOUTS, "SET LOCAL tcp_keepalives_idle = 60"):
            client.execute_sql(statement)
        backend = patiently(partial(take_dataset, client), wait)
        with loss_told(client):
            yield check_held(backend)


def check_held(backend: int) -> str:
    """Return a statement that divides by zero unless a server process holds an advisory lock."""
    return f"SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend};"


def take_dataset(client: Any) -> int:
    """Lock the dataset of a client; return the id of the server process that holds the lock.

    Raises:
        DestinationInUse: it is locked already.
    """
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)), pg_backend_pid()"
    [[taken, backend]] = client.execute_sql(query, f"letters_source {client.dataset_name}")
    if not taken:
        raise DestinationInUse(f"A load into the dataset {client.dataset_name} is already running")
    return int(backend)


@contextmanager
def loss_told(client: Any) -> Iterator[None]:
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
