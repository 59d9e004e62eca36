"""Publishes a copy of a DuckDB file for readers, replaced atomically after each verified load."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import duckdb
from dlt.common.destination.exceptions import DestinationException
from duckdb import DuckDBPyConnection

from letters_source.destination.duckdb_copies import (
    Comment,
    Entry,
    binds,
    find_comments,
    find_entries,
    find_tables,
    insert_rows,
    opened_catalog,
    shown_names,
    write_comments,
    written_columns,
)
from letters_source.destination.duckdb_file import (
    discard_duckdb,
    is_duckdb_file,
    is_named_otherwise,
    logs_of,
    storage_of,
)
from letters_source.destination.duckdb_views import FIND_VIEWS, create_views, mentions
from letters_source.destination.local_files import check_writable, take_access
from letters_source.destination.locking import when_free
from letters_source.destination.pipeline import RESERVED, catalog_of
from letters_source.destination.place import Place
from letters_source.destination.sql import literal, quoted
from letters_source.errors import DestinationError, LoadFailed
from letters_source.wording import reason

logger = logging.getLogger("letters_source")

COPY = "letters_source_copy"
"""DuckDB's name for the attached copy."""
NOT_COPIED = (
    "DuckDB copies no tables whose foreign keys lead back to themselves, and no views that need this database's name."
)
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
    if not os.path.exists(file) and is_named_otherwise(file):
        advice = "choose another $publish, such as readers.duckdb."
        raise DestinationError(f"{file} would be a DuckDB file", advice=advice, key="publish")
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
        write_copy(place, copy, file)
        if os.path.exists(file):
            take_access(file, copy)
        # DuckDB would apply a WAL of the old file to the new one, also if this process ends between the next two steps
        for log in logs_of(file):
            log.unlink(missing_ok=True)
        copy.replace(file)
    except (DestinationException, duckdb.Error, OSError) as error:
        with suppress(OSError):
            discard_duckdb(copy)
        raise LoadFailed(
            f"{file} was not published, but the load is verified: {reason(error)}", advice="load again to publish it."
        ) from error


def write_copy(place: Place, copy: Path, file: Path) -> None:
    """Write the DuckDB database into a new file, and flush it to disk; warn of what the file for readers will lack."""
    try:
        left_out = copy_database(place, copy)
    except duckdb.OutOfMemoryException:
        # large rows exceed our memory limit
        discard_duckdb(copy)
        left_out = copy_database(place, copy, enlarged=True)
    with copy.open("rb") as written:
        os.fsync(written.fileno())
    if left_out:
        logger.warning("%s lacks %s: %s", file, shown_names(left_out), NOT_COPIED)


def copy_database(place: Place, copy: Path, *, enlarged: bool = False) -> list[Entry]:
    """Write the DuckDB database into a new file; return what cannot be copied.

    `enlarged` uses DuckDB's default memory limit.
    """
    with place.pipeline.sql_client() as client:
        connection = client.native_connection
        if enlarged:
            # RESET changes only the limit that DuckDB reports; SET applies it
            connection.execute("RESET memory_limit")
            [[limit]] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
            connection.execute(f"SET memory_limit = {literal(limit)}")
        name = opened_catalog(connection)
        storage = literal(storage_of(connection))
        connection.execute(f"ATTACH {literal(str(copy))} AS {COPY} (STORAGE_VERSION {storage})")
        try:
            left_out = copy_tables(connection, name)
        finally:
            connection.execute(f"DETACH {COPY}")
        # others work in the copy as they are, unless a table is missing there
        views = [view for view in find_entries(connection, FIND_VIEWS, name) if left_out or mentions(view, name)]
        comments = find_comments(connection, name)
    return [*left_out, *replace_views(copy, views, name, comments)]


def copy_tables(connection: DuckDBPyConnection, source: str) -> list[Entry]:
    """Copy a database with the definitions of its views; return the tables that cannot be copied."""
    connection.execute(f"COPY FROM DATABASE {quoted(source)} TO {COPY} (SCHEMA)")
    tables, left_out = find_tables(connection, source)
    left_out += [table for table in tables if not is_copied(connection, table, source)]
    for table in reversed(left_out):
        # an empty one that an empty table references stays
        binds(connection, f"DROP TABLE {COPY}.{table.quoted}")
    return left_out


def is_copied(connection: DuckDBPyConnection, table: Entry, source: str) -> bool:
    """Insert a table's rows into its copy; return whether DuckDB accepts them."""
    try:
        insert_rows(connection, table, written_columns(connection, table, COPY), source, COPY)
    except (duckdb.ConstraintException, duckdb.TransactionException):
        # a default that names a sequence of its database would change both files
        return False
    return True


def replace_views(copy: Path, views: Sequence[Entry], source: str, comments: Sequence[Comment]) -> list[Entry]:
    """Replace views that name their database; return those that do not work in the copy, which loses them."""
    if not views:
        return []
    # a connection of its own, which does not know the name of the loaded file
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH {literal(str(copy))} AS {COPY}")
        created = create_views(connection, views, source, COPY)
        left_out = [view for view in views if view not in created]
        for view in left_out:
            connection.execute(f"DROP VIEW {COPY}.{view.quoted}")
        connection.execute(f"USE {COPY}")
        replaced = {(view.schema, view.name) for view in views} - {(view.schema, view.name) for view in left_out}
        write_comments(connection, comments, replaced)
        connection.execute("CHECKPOINT")
    return left_out
