"""Configures dlt for a load: settings, replace strategy, DuckDB's memory limit, and a connection that stays open."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from importlib import import_module

import dlt
import pyarrow.parquet as pq
from dlt.common.configuration.container import Container
from dlt.common.configuration.providers import CustomLoaderDocProvider
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.destination import AnyDestination
from dlt.common.destination.exceptions import DestinationException
from dlt.common.destination.reference import AnyDestination_CO
from dlt.destinations import duckdb, postgres
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials

from letters_source.destination.dlt_hooks import DuckDB, Postgres
from letters_source.destination.kinds import (
    DUCKDB_CONFIG,
    MEMORY_MB,
    duckdb_file,
    engine,
    is_files,
    table_format,
)
from letters_source.destination.local_files import discard_duckdb
from letters_source.destination.locking import when_free
from letters_source.destination.sql import fetch_rows
from letters_source.errors import LoadFailed

# our subclasses of dlt's destinations
OURS: dict[type[AnyDestination_CO], type[DuckDB | Postgres]] = {duckdb: DuckDB, postgres: Postgres}
# rows up to this size in Parquet fit into the usual limit, in any number
SMALL_ROW_BYTES = 1024
# DuckDB buffers a row group before it writes it
ROW_GROUP = 122_880
# memory for large rows, as a multiple of their size: measured 3 for rows of 20 kB, 8 for rows of 4 MB
TIMES = 8


def load_config(pipeline: dlt.Pipeline) -> dict[str, dict[str, bool | int]]:
    """Return the dlt configuration that a load requires, by section."""
    load: dict[str, bool | int] = {"delete_completed_jobs": True, "raise_on_failed_jobs": True}
    if not is_files(pipeline):
        load["truncate_staging_dataset"] = True
    if engine(pipeline) == "postgres":
        # a job whose connection broke may have committed: a retry would load its rows twice
        load["raise_on_max_retries"] = 1
        # parallel jobs can exceed the server's connection limit
        load["workers"] = 1
    return {"load": load}


class FirstProvider(CustomLoaderDocProvider):
    """A dlt configuration provider that `dlt.config[...] = value` does not write to."""

    is_writable = False


@contextmanager
def enforced(config: Mapping[str, object], pipeline_name: str) -> Iterator[None]:
    """Override environment variables and dlt's configuration files, for one pipeline, while the block runs."""
    # dlt has no arguments for these values, and looks up keys that begin with the pipeline's name first
    providers = Container()[PluggableRunContext].providers.providers
    provider = FirstProvider("letters_source", lambda: {pipeline_name: config}, supports_secrets=False)
    providers.insert(0, provider)
    try:
        yield
    finally:
        providers.remove(provider)


def replace_strategy(pipeline: dlt.Pipeline) -> str:
    """Return dlt's replace strategy: staging where it exists, so that old rows stay until all new ones arrive."""
    file = duckdb_file(pipeline)
    # a new file has no old rows to keep, and staging would write every row twice
    is_new = file is not None and not os.path.exists(file)
    # dlt has no staging for plain files; it replaces a Delta or Iceberg table in one commit
    is_plain = is_files(pipeline) and not table_format(pipeline)
    return "truncate-and-insert" if is_new or is_plain else "insert-from-staging"


def for_loading(
    destination: AnyDestination, strategy: str, *, last_statement: str = "", memory_mb: int = MEMORY_MB
) -> AnyDestination:
    """Return a copy of a dlt destination for a load; `last_statement` is SQL that ends PostgreSQL's transaction."""
    parameters, capabilities = dict(destination.config_params), dict(destination.caps_params)
    if hasattr(destination.spec, "replace_strategy"):
        # a destination's parameters override all settings
        parameters["replace_strategy"] = strategy
    credentials = parameters.get("credentials")
    # the user may have configured DuckDB
    if isinstance(credentials, DuckDbCredentials) and credentials.global_config == DUCKDB_CONFIG:
        parameters["credentials"] = credentials.copy()
        parameters["credentials"].global_config = {**DUCKDB_CONFIG, "memory_limit": f"{memory_mb}MB"}
    ours = OURS.get(type(destination))
    loading = ours(**parameters, **capabilities) if ours else copy(destination)
    if isinstance(loading, Postgres):
        loading.last_statement = last_statement
    loading.config_params, loading.caps_params = parameters, capabilities
    if loading.capabilities().supports_ddl_transactions:
        capabilities.setdefault("supports_transactions", True)
        # TRUNCATE takes an ACCESS EXCLUSIVE lock in PostgreSQL, where older snapshots then see an empty table;
        # Redshift commits the transaction
        capabilities["supports_truncate_command"] = False
    return loading


def memory_for(files: Iterable[pq.FileMetaData]) -> int:
    """Return DuckDB's memory limit in megabytes for loading Parquet files; large rows raise it."""
    return MEMORY_MB + TIMES * (sum(map(large_bytes, files)) // 10**6)


def large_bytes(file: pq.FileMetaData) -> int:
    """Return by how many bytes the rows that DuckDB buffers from a file exceed small rows."""
    size = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
    large = max(0, size - SMALL_ROW_BYTES * file.num_rows)
    return int(large * ROW_GROUP // max(ROW_GROUP, file.num_rows))


def package_files(pipeline: dlt.Pipeline) -> Iterator[pq.FileMetaData]:
    """Return the metadata of the Parquet files that are ready to load."""
    for load_id in pipeline.list_normalized_load_packages():
        for job in pipeline.get_load_package_info(load_id).jobs["new_jobs"]:
            if job.job_file_info.file_format == "parquet":
                yield pq.read_metadata(job.file_path)


@contextmanager
def without_false_alarms() -> Iterator[None]:
    """Suppress pyiceberg's warning about replacing an empty table, as every first load does, while the block runs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records", UserWarning)
        yield


@contextmanager
def hold_open(pipeline: dlt.Pipeline, wait: float = 0) -> Iterator[None]:
    """Keep a connection to the file of a DuckDB destination while the block runs; if it fails, remove a new file.

    Other processes cannot open the file then, and DuckDB runs no checkpoint each time dlt closes a connection, a third
    of the time of a small load.
    """
    file = duckdb_file(pipeline)
    if file is None:
        yield
        return
    is_new = not os.path.exists(file)
    # DuckDB imports pytz for its first zoned timestamp; an interrupt there would be reported as a missing pytz
    import_module("pytz")
    client = pipeline.sql_client()
    # do not wait for a file that another load has just created: it would be taken for a new one
    when_free(client.open_connection, 0 if is_new else wait)
    try:
        yield
    except BaseException:
        # removing it is safe only while we hold its lock, and if no other pipeline wrote to it
        if is_new and not holds_others(pipeline):
            discard_duckdb(file)
        raise
    else:
        if not os.path.exists(file):
            raise LoadFailed(f"{file} was removed during the load; load again.")
    finally:
        client.close_connection()


def holds_others(pipeline: dlt.Pipeline) -> bool:
    """Return whether an open DuckDB file has tables of other datasets: concurrent loads in one process share it."""
    query = "SELECT DISTINCT schema_name FROM duckdb_tables() WHERE database_name = current_database()"
    try:
        with pipeline.sql_client() as client:
            held = {schema for (schema,) in fetch_rows(client, query)}
    except DestinationException as error:
        # "invalidated": DuckDB has closed the file for all its connections
        return "invalidated" not in str(error)
    return not held <= {client.dataset_name, client.staging_dataset_name}
