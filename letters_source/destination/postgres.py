"""Who may load into a dataset of PostgreSQL now, and who says so once that lock is lost?"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import dlt
from dlt.common.configuration import configspec
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import ContainerInjectableContext
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.destination.error_translation import causes
from letters_source.destination.waiting import patiently
from letters_source.errors import DestinationInUse, LoadFailed

# PostgreSQL 17 has one for each whole transaction, too
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)


@configspec
class DatasetLock(ContainerInjectableContext):
    """The lock that a load holds on its dataset in PostgreSQL, told to dlt's client."""

    can_create_default: ClassVar[bool] = False

    backend: int = 0
    """The server's process that holds it."""


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
