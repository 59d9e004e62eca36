"""How does dlt load into a destination?"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import dlt
from dlt.common.configuration.container import Container
from dlt.common.configuration.providers import CustomLoaderDocProvider
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.destination.exceptions import DestinationException

from letters_source.destination.kinds import discard_duckdb, duckdb_file, engine, is_duckdb, is_files, table_format
from letters_source.destination.sql import keep_open
from letters_source.destination.waiting import when_free
from letters_source.errors import LoadFailed

NOTHING_REPLACED = "Delete operation did not match any records"
"""What pyiceberg warns of when a table that is replaced had no rows."""


def load_config(pipeline: dlt.Pipeline) -> dict[str, dict[str, Any]]:
    """What a load needs of dlt's configuration, by section."""
    load: dict[str, Any] = {"delete_completed_jobs": True, "raise_on_failed_jobs": True}
    # dlt polls twice a load, for 10 ms each by default
    config = {"load": load, "extract": {"futures_poll_interval": 0.001}}
    if is_files(pipeline):
        return config
    load["truncate_staging_dataset"] = True
    if engine(pipeline) == "postgres":
        # a job whose connection broke may have been committed: once more it would bring its rows twice
        load["raise_on_max_retries"] = 1
        # parallel jobs can exceed the server's limit of connections
        load["workers"] = 1
    if is_duckdb(pipeline):
        # files that nobody but DuckDB reads, at once, are not worth compressing
        config["data_writer"] = {"compression": "none"}
    return config


def replace_strategy(pipeline: dlt.Pipeline) -> str:
    """How dlt replaces rows: through staging, so that old rows stay until all new ones are there.

    Staging writes every row twice, so a DuckDB file that does not exist yet is loaded directly: it has no old rows to
    keep. For plain files dlt has no staging; Delta and Iceberg replace a table in one commit, which dlt calls the same.
    """
    file = duckdb_file(pipeline)
    is_new = file is not None and not os.path.exists(file)
    is_plain = is_files(pipeline) and not table_format(pipeline)
    return "truncate-and-insert" if is_new or is_plain else "insert-from-staging"


class Outranking(CustomLoaderDocProvider):
    """Values for dlt that nothing outranks; what a program sets in `dlt.config` meanwhile goes elsewhere."""

    @property
    def is_writable(self) -> bool:
        """Whether `dlt.config` writes here."""
        return False


@contextmanager
def outranking(config: Mapping[str, Mapping[str, Any]], pipeline_name: str) -> Iterator[None]:
    """Let dlt find these values before those of the environment and of files, while the block runs.

    dlt looks for the keys of a pipeline, which begin with its name, before all others.

    They hold for the whole process, so also for a pipeline of dlt that runs in another thread meanwhile.
    """
    providers = Container()[PluggableRunContext].providers.providers
    provider = Outranking("letters_source", lambda: {**config, pipeline_name: config}, supports_secrets=False)
    providers.insert(0, provider)
    try:
        yield
    finally:
        providers.remove(provider)


def file_format(pipeline: dlt.Pipeline) -> Any:
    """How dlt shall write rows for the destination, None as it likes: its CSV makes an empty text a null."""
    return "insert_values" if engine(pipeline) == "postgres" else None


@contextmanager
def spared_false_alarms() -> Iterator[None]:
    """Hold back what pyiceberg warns of in every first load, while the block runs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NOTHING_REPLACED, UserWarning)
        yield


@contextmanager
def hold_open(pipeline: dlt.Pipeline, wait: float = 0) -> Iterator[None]:
    """Keep a connection to a DuckDB file, where that is the destination, while the block runs.

    Nobody else can take the file between preflight and load, and DuckDB does not write out its log whenever dlt closes
    a connection of its own, a third of a small load's time. A file that was new is removed when the block fails, unless
    somebody else filled it too.

    Raises:
        DestinationInUse: another process took the file since the preflight, and held it for `wait` seconds.
        LoadFailed: somebody removed the file meanwhile.
    """
    file = duckdb_file(pipeline)
    if file is None:
        yield
        return
    is_new = not os.path.exists(file)
    # dlt brings it along; DuckDB imports it for its first time with a zone, and would call it missing if interrupted
    import_module("pytz")
    with ExitStack() as stack:
        # a file that another load makes meanwhile is not ours to wait for: it would be taken for a new one
        when_free(lambda: stack.enter_context(keep_open(pipeline)), 0 if is_new else wait)
        try:
            yield
        except BaseException:
            # only once it is open, and so locked, is it ours to remove
            if is_new and not holds_others(pipeline):
                discard_duckdb(file)
            raise
        if not os.path.exists(file):
            raise LoadFailed(f"{file} was removed while it was loaded; load again.")


def holds_others(pipeline: dlt.Pipeline) -> bool:
    """Whether an open DuckDB file holds tables of somebody else: loads side by side in one process share it."""
    query = "SELECT DISTINCT schema_name FROM duckdb_tables() WHERE database_name = current_database()"
    try:
        with pipeline.sql_client() as client:
            held = {schema for (schema,) in client.execute_sql(query) or ()}
    except DestinationException as error:
        # DuckDB has broken off, for all who have the file open
        return "invalidated" not in str(error)
    return not held <= {client.dataset_name, client.staging_dataset_name}
