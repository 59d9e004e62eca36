"""How do readers get a file that no load ever touches? A copy beside it, renamed into place once it is whole."""

import os
from contextlib import suppress
from pathlib import Path
from shutil import copymode

import dlt
from dlt.common.destination.exceptions import DestinationException

from letters_source.destination.kinds import discard_duckdb, duckdb_file, is_duckdb, logs_of
from letters_source.destination.pipeline import RESERVED, catalog_of
from letters_source.destination.preflight import check_writable
from letters_source.destination.sql import literal
from letters_source.errors import DestinationError, LoadFailed, reason

COPY = "letters_source_copy"
"""What DuckDB calls the copy while it is written."""


def place_of_copy(file: Path | str | None) -> Path | None:
    """Where a copy goes, if one is wanted: a link is followed, so that readers of either name find it."""
    return Path(os.path.realpath(file)) if file else None


def check_published(pipeline: dlt.Pipeline, file: Path) -> None:
    """See that a copy of what a pipeline loads can be published there.

    Raises:
        DestinationError: the destination is not DuckDB, the file is the one that is loaded, has a dataset's name, is a
            folder, or cannot be written.
    """
    if not is_duckdb(pipeline):
        raise DestinationError("Only DuckDB files are published: leave publish out, or load into duckdb.")
    loaded = duckdb_file(pipeline)
    if loaded and loaded.resolve() == file.resolve():
        raise DestinationError(f"{file} is loaded itself: publish another file, which readers open.")
    if catalog_of(file) in (pipeline.dataset_name, f"{pipeline.dataset_name}_staging", *RESERVED):
        raise DestinationError(f"DuckDB could not tell {file.name} from a dataset of that name: publish another file.")
    if os.path.isdir(file) or not os.path.isdir(file.parent):
        raise DestinationError(f"{file} cannot be published: publish a file, in a folder that exists.")
    if os.path.exists(file) and not is_duckdb_file(file):
        raise DestinationError(f"{file} is no DuckDB file, and would be lost: publish another file.")
    check_writable(file.parent)


def is_duckdb_file(file: Path) -> bool:
    """Whether a path is a file that begins as DuckDB's do, with a checksum and a word."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(12)[8:] == b"DUCK"


def publish_copy(pipeline: dlt.Pipeline, file: Path) -> None:
    """Copy all that the DuckDB destination holds into a new file, and put that in the place of the old one.

    Who has the old file open goes on reading it; who opens the file from now on reads the new one. What a copy that
    was killed left behind, the next one removes.

    Raises:
        LoadFailed: it could not be copied; the old file is as it was.
    """
    copy = file.with_name(f".{file.name}.copy")
    try:
        discard_duckdb(copy)
        write_copy(pipeline, copy)
        if os.path.exists(file):
            copymode(file, copy)
        # logs beside the old file belong to who wrote into that, and would be taken for the new one's
        for log in logs_of(file):
            log.unlink(missing_ok=True)
        copy.replace(file)
    except (DestinationException, OSError) as error:
        with suppress(OSError):
            discard_duckdb(copy)
        raise LoadFailed(f"{file} was not published, though the load is verified: {reason(error)}") from error


def write_copy(pipeline: dlt.Pipeline, copy: Path) -> None:
    """Write all that a DuckDB destination holds into a new file, and see it on the disk.

    Where rows are so large that the limit of memory does not do, DuckDB's own is taken.
    """
    try:
        copy_database(pipeline, copy)
    except DestinationException as error:
        if "Out of Memory" not in str(error):
            raise
        discard_duckdb(copy)
        copy_database(pipeline, copy, enlarged=True)
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def copy_database(pipeline: dlt.Pipeline, copy: Path, *, enlarged: bool = False) -> None:
    """Write all that a DuckDB destination holds into a new file; `enlarged`, with DuckDB's own limit of memory."""
    with pipeline.sql_client() as client:
        if enlarged:
            # resetting alone changes what DuckDB says of its limit, and not what it takes
            client.execute_sql("RESET memory_limit")
            [[limit]] = client.execute_sql("SELECT current_setting('memory_limit')") or [[""]]
            client.execute_sql(f"SET memory_limit = {literal(limit)}")
        found = client.execute_sql("SELECT current_database()") or [[""]]
        client.execute_sql(f"ATTACH {literal(str(copy))} AS {COPY}")
        try:
            client.execute_sql(f"COPY FROM DATABASE {client.escape_column_name(found[0][0])} TO {COPY}")
        finally:
            client.execute_sql(f"DETACH {COPY}")
