"""Can a load go where it shall? Asked before the service is asked for anything."""

import os
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dlt
import duckdb
from dlt.common.exceptions import MissingDependencyException

from letters_source.destination import duckdb_file, is_files, table_format
from letters_source.errors import DestinationError

FORMAT_LIBRARIES = {"delta": "dlt.common.libs.deltalake", "iceberg": "dlt.common.libs.pyiceberg"}


def check_destination(pipeline: dlt.Pipeline) -> None:
    """See that the destination can be used: a file or a folder written, a bucket or a server reached.

    Raises:
        DestinationError: with the plain cause.
    """
    check_installed(pipeline)
    client: Any = pipeline.destination_client()
    if file := duckdb_file(pipeline):
        check_duckdb(file)
    elif getattr(client.config, "is_local_filesystem", False):
        check_folder(Path(url2pathname(urlsplit(client.config.bucket_url).path)))
    elif is_files(pipeline) and client.config.protocol == "s3":
        check_bucket(client)


def check_installed(pipeline: dlt.Pipeline) -> None:
    """See that what the destination needs is installed.

    Raises:
        DestinationError: it is not; names the extra to install.
    """
    extra = "lake" if is_files(pipeline) else pipeline.destination.destination_type.rpartition(".")[2]
    try:
        if library := FORMAT_LIBRARIES.get(table_format(pipeline)):
            import_module(library)
        pipeline.destination_client()
    except MissingDependencyException as error:
        wanted = f'"letters-source[{extra}]"' if extra in ("lake", "postgres") else f'"dlt[{extra}]"'
        raise DestinationError(f"The destination needs more than is installed: pip install {wanted}") from error


def check_duckdb(file: Path) -> None:
    """Open a DuckDB file for writing; one that does not exist yet is not made.

    Raises:
        DestinationError: its folder is missing or not writable, another process holds it, or it is no DuckDB file.
    """
    if not os.path.isdir(file.parent):
        raise DestinationError(
            f"{file}: the folder {file.parent} does not exist, or may not be entered; make it, or choose another --to."
        )
    if not os.path.exists(file):
        check_writable(file.parent)
        return
    try:
        duckdb.connect(str(file)).close()
    except duckdb.Error as error:
        raise DestinationError(f"{file} cannot be opened for writing: {plain_cause(error)}") from None


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


def check_bucket(client: Any) -> None:
    """Write an empty object to a bucket on S3, and take it away again.

    Raises:
        DestinationError: the bucket is not there or cannot be reached, or the credentials do not do.
    """
    probe = f"{client.dataset_path}_letters_may_write"
    try:
        client.fs_client.pipe_file(probe, b"")
        client.fs_client.rm_file(probe)
    except (OSError, import_module("botocore.exceptions").BotoCoreError) as error:
        raise DestinationError(
            f"{client.config.bucket_url} cannot be written: {first_line(error)}; "
            "set DESTINATION__FILESYSTEM__CREDENTIALS__..., or choose another --to."
        ) from error


def check_writable(folder: Path) -> None:
    """Write a nameless file.

    Raises:
        DestinationError: the folder cannot be written.
    """
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DestinationError(f"{folder} cannot be written: {error.strerror}.") from None


def plain_cause(error: Exception) -> str:
    """DuckDB's reason without its kind and its link: who holds a lock is in it."""
    return str(error).split(": ", 1)[-1].split(" See also ")[0]


def first_line(error: BaseException) -> str:
    """What an error says, without its full stop."""
    return str(error).strip().partition("\n")[0].rstrip(".")
