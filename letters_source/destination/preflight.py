"""Checks that a destination can be used, before the first request to the service."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import dlt
import duckdb
from dlt.common.configuration.exceptions import ConfigFieldMissingException
from dlt.common.destination.exceptions import DestinationException, SqlClientNotAvailable
from dlt.common.exceptions import MissingDependencyException
from dlt.destinations.exceptions import DestinationConnectionError
from dlt.destinations.sql_client import SqlClientBase, raise_open_connection_error

from letters_source.destination.formats import format_of
from letters_source.destination.kinds import duckdb_file, engine, is_files, local_folder, shown_place, table_format
from letters_source.destination.sql import fetch_rows
from letters_source.errors import DestinationError, DestinationInUse, DestinationUnreachable, reason, root_cause
from letters_source.tables import TABLES

FORMAT_LIBRARIES = {"delta": "dlt.common.libs.deltalake", "iceberg": "dlt.common.libs.pyiceberg"}
# a load of an empty account takes 5 MiB in DuckDB, and 5 MiB in the working directory and the WAL
LEAST_ROOM = 16 * 2**20
# foreign keys that change other tables when rows of a dataset are deleted: cascade, set null, set default
FOLLOWING_KEYS = """
    SELECT conname, conrelid::regclass::text FROM pg_constraint JOIN pg_class ON pg_class.oid = confrelid
    WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd') AND relnamespace = to_regnamespace(quote_ident(%s))
"""
EXTRAS = {"filesystem": "letters-source[lake]", "postgres": "letters-source[postgres]"}


def check_destination(pipeline: dlt.Pipeline) -> None:
    """Check that a file or folder is writable, or a bucket or server reachable, or raise `DestinationError`."""
    check_space(Path(pipeline.working_dir))
    if file := duckdb_file(pipeline):
        check_duckdb(file)
        return
    check_configured(pipeline)
    if not is_files(pipeline):
        check_server(pipeline)
    elif folder := local_folder(pipeline):
        check_folder(folder)
        check_spelling(folder, table_format(pipeline))
        check_format(folder / str(pipeline.dataset_name), table_format(pipeline))
    else:
        check_bucket(pipeline)


def check_configured(pipeline: dlt.Pipeline) -> None:
    """Check that the pipeline has a destination, its libraries are installed, and its credentials are set."""
    if not pipeline.destination:
        raise DestinationError(
            f"The pipeline {pipeline.pipeline_name} has no destination: pass one to dlt, or use make_pipeline()."
        )
    name = engine(pipeline)
    try:
        if library := FORMAT_LIBRARIES.get(table_format(pipeline)):
            import_module(library)
        pipeline.destination_client()
    except MissingDependencyException as error:
        wanted = EXTRAS.get(name, f"dlt[{name}]")
        raise DestinationError(f'{table_format(pipeline) or name} is not installed: pip install "{wanted}"') from error
    except ConfigFieldMissingException as error:
        keys = ", ".join(setting(pipeline, field) for field in error.fields)
        raise DestinationError(f"The destination {name} is not configured: set {keys}.") from error
    except ValueError as error:
        raise DestinationError(f"The destination cannot be used: {reason(error)}; choose another --to.") from error


def check_server(pipeline: dlt.Pipeline) -> None:
    """Check that a database is reachable and writable, or raise `DestinationError`."""
    try:
        client = pipeline.sql_client()
    except SqlClientNotAvailable:
        return
    try:
        # dlt's PostgreSQL client does not translate its driver's errors
        raise_open_connection_error(type(client).open_connection)(client)
    except DestinationConnectionError as error:
        place, key, words = shown_place(pipeline), setting(pipeline), reason(error.inner_exc)
        # psycopg2 quotes an invalid address, including its password
        cause = "its address is invalid" if words.startswith("invalid dsn") else words
        raise DestinationUnreachable(f"{place} cannot be reached: {cause}; set {key}.") from error
    try:
        if engine(pipeline) == "postgres":
            check_rights(pipeline, client)
    except DestinationException as error:
        raise DestinationUnreachable(
            f"{shown_place(pipeline)} does not answer: {reason(root_cause(error))}; set {setting(pipeline)}."
        ) from error
    finally:
        client.close_connection()


def check_rights(pipeline: dlt.Pipeline, client: SqlClientBase[Any]) -> None:
    """Check that a PostgreSQL database and its schemas are writable, and that no foreign key changes other tables."""
    [[read_only, may_create]] = fetch_rows(
        client,
        "SELECT current_setting('transaction_read_only') = 'on', has_database_privilege(current_database(), 'CREATE')",
    )
    if read_only:
        raise DestinationError(f"{shown_place(pipeline)} is read-only; set {setting(pipeline)} to a writable server.")
    if keys := fetch_rows(client, FOLLOWING_KEYS, client.dataset_name):
        names = ", ".join(f"{name} of {table}" for name, table in keys)
        raise DestinationError(
            f"{shown_place(pipeline)}: a load would delete or change rows through the foreign key {names}: "
            "make it ON DELETE NO ACTION, DEFERRABLE INITIALLY DEFERRED."
        )
    there = dict(fetch_rows(client, "SELECT nspname, has_schema_privilege(oid, 'USAGE') FROM pg_namespace"))
    schemas = {client.dataset_name, client.staging_dataset_name}
    if lacking := " and ".join(sorted(name for name in schemas if not there.get(name, may_create))):
        raise DestinationError(
            f"{shown_place(pipeline)}: the user can neither use nor create {lacking}: create these schemas for the "
            "user, or grant CREATE on the database."
        )


def setting(pipeline: dlt.Pipeline, field: str = "credentials") -> str:
    """Return the environment variable for a destination setting."""
    return f"DESTINATION__{pipeline.destination.destination_name}__{field}".upper()


def check_duckdb(file: Path) -> None:
    """Open an existing DuckDB file for writing, or check the folder of a new one."""
    if not os.path.isdir(file.parent):
        raise DestinationError(
            f"{file}: the folder {file.parent} does not exist or is not accessible; create it, or choose another --to."
        )
    if not is_there(file):
        check_writable(file.parent)
        return
    # DuckDB would wait forever on a pipe
    if not file.is_file():
        raise DestinationError(f"{file} cannot be opened for writing: it is not a regular file; choose another --to.")
    check_space(file.parent)
    try:
        duckdb.connect(str(file)).close()
    except duckdb.Error as error:
        what = f"{file} cannot be opened for writing: {reason(error)}"
        if "set lock" in str(error):
            raise DestinationInUse(what) from None
        raise DestinationError(f"{what}; choose another --to.") from None


def is_there(file: Path) -> bool:
    """Return whether a path exists, or raise `DestinationError`."""
    try:
        file.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not file.is_symlink():
            return False
        raise DestinationError(f"{file} cannot be reached: {error.strerror}; choose another --to.") from None
    return True


def check_folder(folder: Path) -> None:
    """Check that a folder, or its nearest existing parent, is writable, or raise `DestinationError`."""
    # os.path.exists returns False below an inaccessible folder, where pathlib raises
    nearest = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not os.path.isdir(nearest):
        raise DestinationError(f"{nearest} is a file, not a folder; choose another --to.")
    check_writable(nearest)


def check_spelling(folder: Path, form: str | None) -> None:
    """Check that a folder's path has no character that dlt or Iceberg misreads as a glob pattern or a URL escape."""
    if set(str(folder)) & set("[]*?"):
        raise DestinationError(f"{folder}: dlt reads [, ], * and ? as wildcards; choose another --to.")
    if form == "iceberg" and folder.as_uri() != f"file://{folder}":
        raise DestinationError(
            f"{folder}: Iceberg cannot write to a path with spaces or other characters that URLs escape; "
            "choose another --to."
        )


def check_format(dataset: Path, form: str | None) -> None:
    """Check that existing tables have the format of the load, or raise `DestinationError`."""
    for table in TABLES:
        found = format_of(dataset / table.name)
        if found not in (None, form or "parquet"):
            raise DestinationError(
                f"{dataset} holds {table.name} as {found}: load with --destination {found}, or choose another --to."
            )


def check_bucket(pipeline: dlt.Pipeline) -> None:
    """Check an S3 bucket by writing and removing an empty object; other kinds of buckets are not checked."""
    client: Any = pipeline.destination_client()
    if client.config.protocol != "s3":
        return
    probe = f"{client.dataset_path}_letters_may_write"
    try:
        client.fs_client.pipe_file(probe, b"")
        client.fs_client.rm_file(probe)
    except (OSError, import_module("botocore.exceptions").BotoCoreError) as error:
        raise DestinationUnreachable(
            f"{client.config.bucket_url} cannot be written: {reason(error)}; "
            f"set {setting(pipeline)}__..., or choose another --to."
        ) from error


def check_writable(folder: Path) -> None:
    """Check that a folder is writable and its disk has space, or raise `DestinationError`."""
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DestinationError(
            f"{folder} cannot be written: {error.strerror}; make it writable, or choose another --to."
        ) from None
    check_space(folder)


def check_space(folder: Path) -> None:
    """Check that a disk has space for the smallest load; how much this load needs is unknown until it has been read."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_ROOM:
        raise DestinationError(
            f"{folder} has {free / 2**20:.0f} MiB of free disk space, but a load needs at least "
            f"{LEAST_ROOM // 2**20} MiB; free some space."
        )
