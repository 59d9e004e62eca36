"""Publishes a copy of a DuckDB file for readers, replaced atomically after each verified load."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import copymode

from dlt.common.destination.exceptions import DestinationException

from letters_source.destination.duckdb_file import discard_duckdb, is_duckdb_file, logs_of
from letters_source.destination.local_files import check_writable
from letters_source.destination.locking import when_free
from letters_source.destination.pipeline import RESERVED, catalog_of
from letters_source.destination.place import Place
from letters_source.destination.sql import fetch_rows, literal
from letters_source.errors import DestinationError, LoadFailed
from letters_source.wording import reason

COPY = "letters_source_copy"
"""DuckDB's name for the attached copy."""
ANOTHER_FILE = "choose another $publish."


def place_of_copy(file: Path | str | None) -> Path | None:
    """Return the path of the copy, with links resolved so that readers of either name find it; None for no copy."""
    return Path(os.path.realpath(file)) if file else None


def check_published(place: Place, file: Path) -> None:
    """Check that a copy of a DuckDB database can be published to a file, or raise `DestinationError`."""
    if place.path and place.path.resolve() == file.resolve():
        raise DestinationError.about("publish", f"must differ from the database being loaded: {file}")
    if catalog_of(file) in (place.dataset, f"{place.dataset}_staging", *RESERVED):
        raise DestinationError(
            f"DuckDB cannot tell {file.name} from a dataset of that name",
            advice=ANOTHER_FILE,
            key="publish",
        )
    if os.path.isdir(file):
        raise DestinationError(f"{file} is a folder", advice=ANOTHER_FILE, key="publish")
    if not os.path.isdir(file.parent):
        raise DestinationError(
            f"{file}: the folder {file.parent} does not exist or is not accessible",
            advice=f"create it, or {ANOTHER_FILE}",
            key="publish",
        )
    if os.path.exists(file) and not is_duckdb_file(file):
        raise DestinationError(
            f"{file} is not a DuckDB file and would be overwritten", advice=ANOTHER_FILE, key="publish"
        )
    check_writable(file.parent, key="publish")


def publish_copy(place: Place, file: Path, wait: float) -> None:
    """Publish a copy as `replace_copy` does, after waiting up to `wait` seconds for the file."""
    when_free(partial(replace_copy, place, file), wait)


def replace_copy(place: Place, file: Path) -> None:
    """Copy the DuckDB database into a new file and replace the old one, or raise `LoadFailed` and leave it unchanged.

    Readers with the old copy open keep reading it; new readers get the new copy.
    """
    copy = file.with_name(f".{file.name}.copy")
    try:
        # a killed run can leave an unfinished copy
        discard_duckdb(copy)
        write_copy(place, copy)
        if os.path.exists(file):
            copymode(file, copy)
        # DuckDB would apply a WAL of the old file to the new one, also if this process ends between the next two steps
        for log in logs_of(file):
            log.unlink(missing_ok=True)
        copy.replace(file)
    except (DestinationException, OSError) as error:
        with suppress(OSError):
            discard_duckdb(copy)
        raise LoadFailed(
            f"{file} was not published, but the load is verified: {reason(error)}", advice="load again to publish it."
        ) from error


def write_copy(place: Place, copy: Path) -> None:
    """Write the DuckDB database into a new file, and flush it to disk."""
    try:
        copy_database(place, copy)
    except DestinationException as error:
        if "Out of Memory" not in str(error):
            raise
        # large rows exceed our memory limit
        discard_duckdb(copy)
        copy_database(place, copy, enlarged=True)
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def copy_database(place: Place, copy: Path, *, enlarged: bool = False) -> None:
    """Write the DuckDB database into a new file; `enlarged` uses DuckDB's default memory limit."""
    with place.pipeline.sql_client() as client:
        if enlarged:
            # RESET changes only the limit that DuckDB reports; SET applies it
            client.execute_sql("RESET memory_limit")
            [[limit]] = fetch_rows(client, "SELECT current_setting('memory_limit')")
            client.execute_sql(f"SET memory_limit = {literal(limit)}")
        [[name]] = fetch_rows(client, "SELECT current_database()")
        client.execute_sql(f"ATTACH {literal(str(copy))} AS {COPY}")
        try:
            client.execute_sql(f"COPY FROM DATABASE {client.escape_column_name(name)} TO {COPY}")
        finally:
            client.execute_sql(f"DETACH {COPY}")
