"""How dlt loads: its configuration and replace strategy, and a DuckDB file kept open, with memory for large rows."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from importlib import import_module
from typing import Any

import dlt
import pyarrow.parquet as pq
from dlt.common.configuration.container import Container
from dlt.common.configuration.providers import CustomLoaderDocProvider
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.destination.exceptions import DestinationException
from dlt.destinations import duckdb, postgres
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials

from letters_source.destination.dlt_hooks import DuckDB, Postgres
from letters_source.destination.kinds import (
    DUCKDB_CONFIG,
    MEMORY_MB,
    discard_duckdb,
    duckdb_file,
    engine,
    is_files,
    table_format,
)
from letters_source.destination.waiting import when_free
from letters_source.errors import LoadFailed

NOTHING_REPLACED = "Delete operation did not match any records"
"""pyiceberg's warning for an empty table that is replaced."""
OURS: dict[Any, Any] = {duckdb: DuckDB, postgres: Postgres}
"""Our subclasses of dlt's destinations."""
# up to this size, as Parquet encodes them, rows fit into the usual limit, however many there are
SMALL_ROW_BYTES = 1024
# DuckDB holds a row group of large rows before it writes them
ROW_GROUP = 122_880
# memory for them, as a multiple of their size: from 3 for rows of 20 kB to 8 for rows of 4 MB
TIMES = 8


def load_config(pipeline: dlt.Pipeline) -> dict[str, dict[str, Any]]:
    """The values of dlt's configuration that a load depends on, by section."""
    load: dict[str, Any] = {"delete_completed_jobs": True, "raise_on_failed_jobs": True}
    if not is_files(pipeline):
        load["truncate_staging_dataset"] = True
    if engine(pipeline) == "postgres":
        # a job whose connection broke may have been committed: a retry would load its rows twice
        load["raise_on_max_retries"] = 1
        # parallel jobs can exceed the server's limit of connections
        load["workers"] = 1
    return {"load": load}


class FirstProvider(CustomLoaderDocProvider):
    """A provider of dlt's configuration that `dlt.config[...] = value` does not write to."""

    @property
    def is_writable(self) -> bool:
        """Whether `dlt.config` writes here."""
        return False


@contextmanager
def enforced(config: Mapping[str, Any], pipeline_name: str) -> Iterator[None]:
    """Put values before environment variables and files of dlt's configuration, for one pipeline, while the block runs.

    dlt has no arguments for them. It looks up keys that begin with the pipeline's name before all others.
    """
    providers = Container()[PluggableRunContext].providers.providers
    provider = FirstProvider("letters_source", lambda: {pipeline_name: config}, supports_secrets=False)
    providers.insert(0, provider)
    try:
        yield
    finally:
        providers.remove(provider)


def replace_strategy(pipeline: dlt.Pipeline) -> str:
    """dlt's replace strategy: through staging, so that old rows stay until all new rows are there.

    Staging writes every row twice, so a new DuckDB file, which has no old rows to keep, is loaded directly. dlt has no
    staging for plain files; it replaces a Delta or Iceberg table in one commit, which has the same name.
    """
    file = duckdb_file(pipeline)
    is_new = file is not None and not os.path.exists(file)
    is_plain = is_files(pipeline) and not table_format(pipeline)
    return "truncate-and-insert" if is_new or is_plain else "insert-from-staging"


def for_loading(destination: Any, strategy: str, *, last_statement: str = "", memory_mb: int = MEMORY_MB) -> Any:
    """A copy of a destination of dlt's, with all that a load needs.

    Args:
        destination: the pipeline's. DuckDB and PostgreSQL become those whose tables change in one transaction; others
            get a transaction per table where dlt knows how.
        strategy: dlt's `replace_strategy`; as a parameter of the destination it outranks all settings.
        last_statement: SQL at the end of PostgreSQL's transaction.
        memory_mb: DuckDB's limit, if it has ours.
    """
    parameters, capabilities = dict(destination.config_params), dict(destination.caps_params)
    if hasattr(destination.spec, "replace_strategy"):
        parameters["replace_strategy"] = strategy
    credentials = parameters.get("credentials")
    if isinstance(credentials, DuckDbCredentials) and credentials.global_config == DUCKDB_CONFIG:
        parameters["credentials"] = credentials.copy()
        parameters["credentials"].global_config = {**DUCKDB_CONFIG, "memory_limit": f"{memory_mb}MB"}
    ours = OURS.get(type(destination))
    loading = ours(**parameters, **capabilities) if ours else copy(destination)
    if isinstance(loading, Postgres):
        loading.last_statement = last_statement
        # TRUNCATE takes an ACCESS EXCLUSIVE lock and is not MVCC-safe: older snapshots see an empty table
        capabilities["supports_truncate_command"] = False
    loading.config_params, loading.caps_params = parameters, capabilities
    if loading.capabilities().supports_ddl_transactions:
        capabilities.setdefault("supports_transactions", True)
    return loading


def memory_for(files: Iterable[pq.FileMetaData]) -> int:
    """DuckDB's memory limit in megabytes for the rows of Parquet files: more than usual where rows are large."""
    return MEMORY_MB + TIMES * (sum(map(large_bytes, files)) // 10**6)


def large_bytes(file: pq.FileMetaData) -> int:
    """By how many bytes the rows of a file that DuckDB holds at once exceed small rows."""
    size = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
    large = max(0, size - SMALL_ROW_BYTES * file.num_rows)
    return int(large * ROW_GROUP // max(ROW_GROUP, file.num_rows))


def package_files(pipeline: dlt.Pipeline) -> Iterator[pq.FileMetaData]:
    """The metadata of the Parquet files that are ready to load."""
    for load_id in pipeline.list_normalized_load_packages():
        for job in pipeline.get_load_package_info(load_id).jobs["new_jobs"]:
            if job.job_file_info.file_format == "parquet":
                yield pq.read_metadata(job.file_path)


def restore_tables(pipeline: dlt.Pipeline) -> None:
    """Create tables anew that somebody dropped and that the load replaces: dlt trusts its record of having made them.

    Other tables are not restored, because rows that a load leaves alone would not come back: that load must fail.
    """
    if engine(pipeline) not in ("duckdb", "postgres"):
        return
    tables = pipeline.default_schema.tables
    replaced = [name for name in tables if tables[name].get("write_disposition") == "replace"]
    client: Any = pipeline.destination_client()
    with client:
        restore(client, replaced)
        with client.with_staging_dataset():
            restore(client, [name for name in replaced if client.should_load_data_to_staging_dataset(name)])


def restore(client: Any, tables: list[str]) -> None:
    """Create what is missing of these tables in a dataset that was loaded before."""
    if tables and client.is_storage_initialized():
        client.update_stored_schema(tables, force=True)


def file_format(pipeline: dlt.Pipeline) -> Any:
    """dlt's format for rows on their way, None for its default: in CSV an empty text would become null."""
    return "insert_values" if engine(pipeline) == "postgres" else None


@contextmanager
def without_false_alarms() -> Iterator[None]:
    """Suppress pyiceberg's warning in every first load, while the block runs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NOTHING_REPLACED, UserWarning)
        yield


@contextmanager
def hold_open(pipeline: dlt.Pipeline, wait: float = 0) -> Iterator[None]:
    """Keep a connection to the file of a DuckDB destination while the block runs.

    So no other process can take the file between preflight and load, and DuckDB does not checkpoint whenever dlt closes
    a connection, a third of the time of a small load. A new file is removed when the block fails, unless others filled
    it too.

    Raises:
        DestinationInUse: another process took the file since the preflight, and held it for `wait` seconds.
        LoadFailed: somebody removed the file meanwhile.
    """
    file = duckdb_file(pipeline)
    if file is None:
        yield
        return
    is_new = not os.path.exists(file)
    # DuckDB imports it for its first time with a zone, and would call it missing if interrupted
    import_module("pytz")
    with ExitStack() as stack:
        # a file that another load creates meanwhile is not waited for: it would be taken for a new one
        client: Any = pipeline.sql_client()
        when_free(lambda: stack.enter_context(client), 0 if is_new else wait)
        try:
            yield
        except BaseException:
            # only once it is open, and so locked, may we remove it
            if is_new and not holds_others(pipeline):
                discard_duckdb(file)
            raise
        if not os.path.exists(file):
            raise LoadFailed(f"{file} was removed during the load; load again.")


def holds_others(pipeline: dlt.Pipeline) -> bool:
    """Whether an open DuckDB file holds tables of others: concurrent loads in one process share it."""
    query = "SELECT DISTINCT schema_name FROM duckdb_tables() WHERE database_name = current_database()"
    try:
        with pipeline.sql_client() as client:
            held = {schema for (schema,) in client.execute_sql(query) or ()}
    except DestinationException as error:
        # DuckDB has shut the file down for all its users
        return "invalidated" not in str(error)
    return not held <= {client.dataset_name, client.staging_dataset_name}
