"""Can a load go where it shall? Asked before the service is asked for anything."""

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
from dlt.destinations.sql_client import raise_open_connection_error

from letters_source.destination.formats import format_of
from letters_source.destination.kinds import duckdb_file, engine, is_files, local_folder, shown_place, table_format
from letters_source.errors import DestinationError, DestinationInUse, DestinationUnreachable, reason, root_cause
from letters_source.tables import TABLES

FORMAT_LIBRARIES = {"delta": "dlt.common.libs.deltalake", "iceberg": "dlt.common.libs.pyiceberg"}
# an empty account's load takes 5 MiB in DuckDB, and as much in the working folder and the log together
LEAST_ROOM = 16 * 2**20
# foreign keys that do something to somebody else's rows when rows of a dataset go: cascade, set null, set default
FOLLOWING_KEYS = """
    SELECT conname, conrelid::regclass::text FROM pg_constraint JOIN pg_class ON pg_class.oid = confrelid
    WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd') AND relnamespace = to_regnamespace(quote_ident(%s))
"""
EXTRAS = {"filesystem": "letters-source[lake]", "postgres": "letters-source[postgres]"}


def check_destination(pipeline: dlt.Pipeline) -> None:
    """See that the destination can be used: a file or a folder written, a bucket or a server reached.

    Raises:
        DestinationError: with the plain cause.
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
    """See that there is such a destination, that what it needs is installed, and that it has its credentials.

    Raises:
        DestinationError: there is none, it is not, or has not; names the extra to install, or the setting.
    """
    if not pipeline.destination:
        raise DestinationError(
            f"The pipeline {pipeline.pipeline_name} has no destination: give it one, or make_pipeline()."
        )
    name = engine(pipeline)
    try:
        if library := FORMAT_LIBRARIES.get(table_format(pipeline)):
            import_module(library)
        pipeline.destination_client()
    except MissingDependencyException as error:
        wanted = EXTRAS.get(name, f"dlt[{name}]")
        raise DestinationError(f'{table_format(pipeline) or name} needs more: pip install "{wanted}"') from error
    except ConfigFieldMissingException as error:
        keys = ", ".join(setting(pipeline, field) for field in error.fields)
        raise DestinationError(f"The destination {name} is not configured: set {keys}.") from error
    except ValueError as error:
        raise DestinationError(f"No load can go there: {reason(error)}; choose another --to.") from error


def check_server(pipeline: dlt.Pipeline) -> None:
    """Connect to a database, and see that it can be written.

    Raises:
        DestinationError: it cannot be reached, refuses the credentials, or cannot be written.
    """
    try:
        client = pipeline.sql_client()
    except SqlClientNotAvailable:
        return
    try:
        # dlt's client for PostgreSQL lets its driver's own errors through
        raise_open_connection_error(type(client).open_connection)(client)
    except DestinationConnectionError as error:
        place, key, words = shown_place(pipeline), setting(pipeline), reason(error.inner_exc)
        # what cannot be read is quoted, its password too
        cause = "its address cannot be read" if words.startswith("invalid dsn") else words
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


def check_rights(pipeline: dlt.Pipeline, client: Any) -> None:
    """See that a PostgreSQL database can be written, its schemas used or made, and that only our rows go.

    Raises:
        DestinationError: it cannot, they may not, or rows of others would be deleted or changed with ours.
    """
    [[read_only, may_create]] = client.execute_sql(
        "SELECT current_setting('transaction_read_only') = 'on', has_database_privilege(current_database(), 'CREATE')"
    )
    if read_only:
        raise DestinationError(f"{shown_place(pipeline)} is read only; set {setting(pipeline)} to what can be written.")
    if keys := client.execute_sql(FOLLOWING_KEYS, client.dataset_name):
        names = ", ".join(f"{name} of {table}" for name, table in keys)
        raise DestinationError(
            f"{shown_place(pipeline)}: a load would delete or change the rows that the foreign key {names} ties to "
            "ours: make it ON DELETE NO ACTION, DEFERRABLE INITIALLY DEFERRED."
        )
    there = dict(client.execute_sql("SELECT nspname, has_schema_privilege(oid, 'USAGE') FROM pg_namespace"))
    schemas = {client.dataset_name, client.staging_dataset_name}
    if lacking := " and ".join(sorted(name for name in schemas if not there.get(name, may_create))):
        raise DestinationError(
            f"{shown_place(pipeline)}: {lacking} may neither be used nor made: make such schemas for the user, or "
            "grant CREATE on the database."
        )


def setting(pipeline: dlt.Pipeline, field: str = "credentials") -> str:
    """The variable that holds a setting of a destination."""
    return f"DESTINATION__{pipeline.destination.destination_name}__{field}".upper()


def check_duckdb(file: Path) -> None:
    """Open a DuckDB file for writing; one that does not exist yet is not made.

    Raises:
        DestinationError: its folder is missing or not writable, the file cannot be reached, another process holds it,
            or it is no DuckDB file, or no file at all.
    """
    if not os.path.isdir(file.parent):
        raise DestinationError(
            f"{file}: the folder {file.parent} does not exist, or may not be entered; make it, or choose another --to."
        )
    if not is_there(file):
        check_writable(file.parent)
        return
    # DuckDB would wait at a pipe for ever
    if not file.is_file():
        raise DestinationError(f"{file} cannot be opened for writing: it is no regular file; choose another --to.")
    check_space(file.parent)
    try:
        duckdb.connect(str(file)).close()
    except duckdb.Error as error:
        what = f"{file} cannot be opened for writing: {reason(error)}"
        if "set lock" in str(error):
            raise DestinationInUse(what) from None
        raise DestinationError(f"{what}; choose another --to.") from None


def is_there(file: Path) -> bool:
    """Whether a path leads to anything.

    Raises:
        DestinationError: it cannot be reached: its name is too long, or a link leads nowhere.
    """
    try:
        file.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not file.is_symlink():
            return False
        raise DestinationError(f"{file} cannot be reached: {error.strerror}; choose another --to.") from None
    return True


def check_folder(folder: Path) -> None:
    """See that a folder, or the nearest that exists above it, can be written.

    Raises:
        DestinationError: it cannot.
    """
    # os.path answers no where pathlib raises: below a folder that may not be entered
    nearest = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not os.path.isdir(nearest):
        raise DestinationError(f"{nearest} is a file, not a folder; choose another --to.")
    check_writable(nearest)


def check_spelling(folder: Path, form: str | None) -> None:
    """See that a folder can be named: dlt looks for files by pattern, and Iceberg writes to a URL, escapes and all.

    Raises:
        DestinationError: it cannot.
    """
    if set(str(folder)) & set("[]*?"):
        raise DestinationError(f"{folder}: dlt takes [, ], * and ? for a pattern of names; choose another --to.")
    if form == "iceberg" and folder.as_uri() != f"file://{folder}":
        raise DestinationError(
            f"{folder}: Iceberg cannot write below a name with spaces or signs that URLs escape; choose another --to."
        )


def check_format(dataset: Path, form: str | None) -> None:
    """See that a folder's tables are in the format of the load: rows of two would be mixed up.

    Raises:
        DestinationError: one is in another.
    """
    for table in TABLES:
        found = format_of(dataset / table.name)
        if found not in (None, form or "parquet"):
            raise DestinationError(
                f"{dataset} holds {table.name} as {found}: load with --destination {found}, or choose another --to."
            )


def check_bucket(pipeline: dlt.Pipeline) -> None:
    """Write an empty object to a bucket on S3, and take it away again; other buckets are left alone.

    Raises:
        DestinationError: the bucket is not there or cannot be reached, or the credentials do not do.
    """
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
    """Write a nameless file.

    Raises:
        DestinationError: the folder cannot be written.
    """
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DestinationError(
            f"{folder} cannot be written: {error.strerror}; make it writable, or choose another --to."
        ) from None
    check_space(folder)


def check_space(folder: Path) -> None:
    """See that a disk is not full; how much a load needs, nobody knows before it has been read.

    Raises:
        DestinationError: there is less room than the smallest load takes.
    """
    free = shutil.disk_usage(folder).free
    if free < LEAST_ROOM:
        raise DestinationError(
            f"{folder} has {free / 2**20:.0f} MiB of room left on its disk, and a load needs {LEAST_ROOM // 2**20} "
            "MiB or more; make room."
        )
