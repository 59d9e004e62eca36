"""DuckDB files: which storage new ones have, whether a load can use one, and the logs beside it. Imports no dlt."""

import os
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from letters_source.destination.local_files import ANOTHER_PATH, check_space, check_writable
from letters_source.errors import DestinationError, DestinationInUse
from letters_source.wording import reason

OTHER_FORMATS = {
    ".arrow",
    ".avro",
    ".csv",
    ".gz",
    ".html",
    ".json",
    ".jsonl",
    ".log",
    ".md",
    ".orc",
    ".parquet",
    ".sql",
    ".sqlite",
    ".tar",
    ".tsv",
    ".txt",
    ".xls",
    ".xlsx",
    ".xml",
    ".zip",
}
"""The endings of files that are no DuckDB files."""
# of new files; existing ones keep theirs. Every DuckDB since 0.10 reads it, while DuckDB 1 cannot read the default of 2
STORAGE: dict[str, str | bool | int | float | list[str]] = {"storage_compatibility_version": "v1.0.0"}
# where the file's header has the release that wrote it, and in how many bytes
RELEASE_AT, RELEASE_BYTES = 52, 32


def create_duckdb(file: Path) -> None:
    """Create an empty DuckDB file, whose storage stays as it is when other releases of DuckDB write to it."""
    try:
        duckdb.connect(str(file), config=STORAGE).close()
    except duckdb.Error as error:
        raise unusable(file, error) from None


def is_named_otherwise(file: Path) -> bool:
    """Return whether a path has the ending of another format."""
    return file.suffix.lower() in OTHER_FORMATS


def storage_of(connection: DuckDBPyConnection) -> str:
    """Return the storage version of the open database, such as v1.0.0."""
    query = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = current_database()"
    [[version]] = connection.execute(query).fetchall()
    return str(version).rstrip("+")


def check_duckdb(file: Path) -> None:
    """Open an existing DuckDB file for writing, or check the folder of a new one."""
    if not os.path.isdir(file.parent):
        raise DestinationError(
            f"{file}: the folder {file.parent} does not exist or is not accessible",
            advice=f"create it, or {ANOTHER_PATH}",
            key="to",
        )
    if not is_there(file):
        if is_named_otherwise(file):
            raise DestinationError(
                f"{file} would be a DuckDB file", advice="end $to in .duckdb, or choose another $destination.", key="to"
            )
        check_writable(file.parent)
        return
    # DuckDB would wait forever on a pipe
    if not file.is_file():
        raise DestinationError(
            f"{file} cannot be opened for writing: it is not a regular file", advice=ANOTHER_PATH, key="to"
        )
    check_space(file.parent)
    try:
        duckdb.connect(str(file)).close()
    except duckdb.Error as error:
        raise unusable(file, error) from None


def unusable(file: Path, error: duckdb.Error) -> DestinationError | DestinationInUse:
    """Return the error of a file that DuckDB cannot open for writing."""
    what = f"{file} cannot be opened for writing: {why_closed(file, error)}"
    return DestinationInUse(what) if is_held(error) else DestinationError(what, advice=ANOTHER_PATH, key="to")


def why_closed(file: Path, error: duckdb.Error) -> str:
    """Return why DuckDB cannot open a file; if its release is too old for it, with both releases."""
    if "database file with version number" not in str(error):
        return reason(error)
    with file.open("rb") as opened:
        release = opened.read(RELEASE_AT + RELEASE_BYTES)[RELEASE_AT:].rstrip(b"\0").decode(errors="replace")
    return f"DuckDB {release} wrote it, and DuckDB {duckdb.__version__} here cannot read its storage; upgrade duckdb"


def is_held(error: duckdb.Error) -> bool:
    """Return whether a DuckDB file could not be opened because another process has it open."""
    return "set lock" in str(error)


def is_there(file: Path) -> bool:
    """Return whether a path exists, or raise `DestinationError`."""
    try:
        file.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not file.is_symlink():
            return False
        raise DestinationError(f"{file} cannot be reached: {error.strerror}", advice=ANOTHER_PATH, key="to") from None
    return True


def discard_duckdb(file: Path) -> None:
    """Remove an unfinished DuckDB file and its logs."""
    for path in (file, *logs_of(file)):
        path.unlink(missing_ok=True)


def logs_of(file: Path) -> list[Path]:
    """Return the paths of a file's DuckDB WAL, which DuckDB would apply to any file of that name."""
    return [file.with_name(f"{file.name}{ending}") for ending in (".wal", ".wal.checkpoint")]


def is_duckdb_file(file: Path) -> bool:
    """Return whether a path is a file that starts like DuckDB's, with a checksum and a magic word."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(12)[8:] == b"DUCK"
