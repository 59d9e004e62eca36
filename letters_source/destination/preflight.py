"""Checks that a destination can be used, before the first request to the service."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import dlt
from dlt.common.configuration.exceptions import ConfigFieldMissingException
from dlt.common.destination import AnyDestination
from dlt.common.destination.exceptions import DestinationException, DestinationTerminalException
from dlt.common.exceptions import MissingDependencyException
from dlt.destinations.exceptions import DestinationConnectionError
from dlt.destinations.sql_client import SqlClientBase, raise_open_connection_error

from letters_source.config.installation import how_to_add_extra, how_to_install
from letters_source.destination.kinds import (
    check_capable,
    duckdb_file,
    engine,
    files_client,
    is_files,
    local_folder,
    shown_place,
    table_format,
)
from letters_source.destination.local_files import (
    ANOTHER_PATH,
    check_duckdb,
    check_folder,
    check_format,
    check_space,
    check_spelling,
)
from letters_source.destination.sql import fetch_rows
from letters_source.errors import DestinationError, DestinationUnreachable
from letters_source.service.responses import RETRIED
from letters_source.wording import reason, root_cause

FORMAT_LIBRARIES = {"delta": "dlt.common.libs.deltalake", "iceberg": "dlt.common.libs.pyiceberg"}
# foreign keys that change other tables when rows of a dataset are deleted: cascade, set null, set default
FOLLOWING_KEYS = """
    SELECT conname, conrelid::regclass::text FROM pg_constraint JOIN pg_class ON pg_class.oid = confrelid
    WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd') AND relnamespace = to_regnamespace(quote_ident(%s))
"""
MISSING_EXTENSION = re.compile(r'Failed to download extension "(\w+)"')
# how PostgreSQL, MySQL, SQL Server and Snowflake refuse a user or a database, and psycopg2 an address
REFUSAL = re.compile(
    r"password|authentication failed|login failed|access denied|permission denied|pg_hba|does not exist|invalid dsn",
    re.IGNORECASE,
)
EXTRAS = {"filesystem": "lake", "postgres": "postgres"}


def check_destination(pipeline: dlt.Pipeline) -> None:
    """Check that a file or folder is writable, or a bucket or server reachable.

    Raise `DestinationUnreachable` for one that does not answer, and `DestinationError` or `DestinationInUse` otherwise.
    """
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
    check_capable(pipeline)
    name = engine(pipeline)
    try:
        if library := FORMAT_LIBRARIES.get(table_format(pipeline) or ""):
            import_module(library)
        pipeline.destination_client()
    except MissingDependencyException as error:
        how = how_to_add_extra(EXTRAS[name]) if name in EXTRAS else how_to_install(f"dlt[{name}]")
        raise DestinationError(f"{table_format(pipeline) or name} is not installed: {how}") from error
    except ConfigFieldMissingException as error:
        # the bucket of a destination that loads through one has settings of its own
        is_bucket = pipeline.staging and error.spec_name == pipeline.staging.spec.__name__
        place = pipeline.staging if is_bucket else pipeline.destination
        keys = ", ".join(setting(place, field) for field in error.fields)
        key = setting(place, error.fields[0])
        raise DestinationError(f"The destination {name} is not configured: set {keys}.", key=key) from error
    except including_s3(ValueError) as error:
        is_path = is_files(pipeline) and isinstance(error, ValueError)
        key = "to" if is_path else setting(pipeline.destination)
        advice = ANOTHER_PATH if is_path else f"set {key}."
        raise DestinationError(f"The destination cannot be used: {reason(error)}", advice=advice, key=key) from error


def including_s3(error: type[Exception]) -> tuple[type[Exception], ...]:
    """Return a class of errors, and that of S3's library if it is in use: it raises its own for a missing profile."""
    library = sys.modules.get("botocore.exceptions")
    return (error, library.BotoCoreError) if library else (error,)


def check_server(pipeline: dlt.Pipeline) -> None:
    """Check that a database is reachable and writable."""
    client, key = pipeline.sql_client(), setting(pipeline.destination)
    try:
        # dlt's PostgreSQL client does not translate its driver's errors
        raise_open_connection_error(type(client).open_connection)(client)
    except DestinationConnectionError as error:
        words = reason(driver_error(error))
        # psycopg2 quotes an invalid address, including its password
        cause = "its address is invalid" if words.startswith("invalid dsn") else words
        lacking = MISSING_EXTENSION.search(words)
        kind = DestinationError if lacking or REFUSAL.search(words) else DestinationUnreachable
        advice = f"run INSTALL {lacking[1]} in DuckDB once, with network access." if lacking else f"set {key}."
        raise kind(f"{shown_place(pipeline)} cannot be reached: {cause}", advice=advice) from error
    try:
        if engine(pipeline) == "postgres":
            check_rights(pipeline, client)
    except DestinationException as error:
        kind = DestinationError if isinstance(error, DestinationTerminalException) else DestinationUnreachable
        raise kind(
            f"{shown_place(pipeline)} cannot be checked: {reason(root_cause(error))}", advice=f"set {key}."
        ) from error
    finally:
        client.close_connection()


def driver_error(error: DestinationConnectionError) -> Exception:
    """Return what the driver raised; clients that extend others of dlt's wrap it more than once."""
    inner: Exception = error.inner_exc
    return driver_error(inner) if isinstance(inner, DestinationConnectionError) else inner


def check_rights(pipeline: dlt.Pipeline, client: SqlClientBase[Any]) -> None:
    """Check that a PostgreSQL database and its schemas are writable, and that no foreign key changes other tables."""
    key = setting(pipeline.destination)
    [[read_only, may_create]] = fetch_rows(
        client,
        "SELECT current_setting('transaction_read_only') = 'on', has_database_privilege(current_database(), 'CREATE')",
    )
    if read_only:
        raise DestinationError(f"{shown_place(pipeline)} is read-only; set {key} to a writable server.", key=key)
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


def setting(destination: AnyDestination, field: str = "credentials") -> str:
    """Return the environment variable for a destination setting."""
    return f"DESTINATION__{destination.destination_name}__{field}".upper()


def check_bucket(pipeline: dlt.Pipeline) -> None:
    """Check an S3 bucket by writing and removing an empty object; other kinds of buckets are not checked."""
    client = files_client(pipeline)
    if client.config.protocol != "s3":
        return
    probe = f"{client.dataset_path}_letters_may_write"
    try:
        client.fs_client.pipe_file(probe, b"")
        client.fs_client.rm_file(probe)
    except including_s3(OSError) as error:
        kind = DestinationUnreachable if is_unanswered(error) else DestinationError
        raise kind(
            f"{client.config.bucket_url} cannot be written: {reason(error)}",
            advice=f"set {setting(pipeline.destination)}__..., or {ANOTHER_PATH}",
        ) from error


def is_unanswered(error: Exception) -> bool:
    """Return whether S3 did not answer, or said that a retry may succeed; otherwise it refused the request."""
    if response := getattr(error.__cause__, "response", None):
        return response["ResponseMetadata"]["HTTPStatusCode"] in RETRIED
    known = import_module("botocore.exceptions")
    # a certificate that is not trusted stays so
    return isinstance(error, known.ConnectionError | known.HTTPClientError) and not isinstance(error, known.SSLError)
