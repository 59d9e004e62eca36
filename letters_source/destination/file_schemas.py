"""Gives all Parquet files of a table the same columns: loads add files to a table, and releases add columns to it.

A reader that takes the first file's columns for all of them would lose the newer ones, or refuse the folder.
"""

import logging
import os
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from letters_source.destination.local_files import take_access
from letters_source.errors import LoadFailed
from letters_source.wording import reason

if TYPE_CHECKING:
    from dlt.destinations.impl.filesystem.filesystem import FilesystemClient

logger = logging.getLogger("letters_source")


def unify_files(client: "FilesystemClient", table: str) -> None:
    """Rewrite a table's Parquet files whose columns differ from those of the newest file, each at once.

    The oldest file is the last: while it differs, files may be left to rewrite, as after a load that was killed.
    """
    # dlt's names begin with the time of the load
    paths = (path for path in client.list_table_files(table) if path.endswith(".parquet"))
    *older, newest = sorted(paths, key=lambda path: PurePosixPath(path).name)
    wanted = schema_of(client, newest)
    if not older or schema_of(client, older[0]).equals(wanted):
        return
    for path in reversed(older):
        with client.fs_client.open(path, "rb") as opened:
            rows = pq.read_table(opened)
        if not rows.schema.equals(wanted):
            try:
                rewrite(client, path, with_schema(rows, wanted))
            except pa.ArrowException as error:
                logger.warning("%s keeps its columns, which differ from those of %s: %s", path, newest, reason(error))


def schema_of(client: "FilesystemClient", path: str) -> pa.Schema:
    """Return the columns of a Parquet file."""
    with client.fs_client.open(path, "rb") as opened:
        return pq.read_schema(opened)


def with_schema(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return rows with the columns, order and types of a schema, null where they have none; `ArrowInvalid` if not."""
    if unknown := set(rows.column_names) - set(wanted.names):
        raise pa.ArrowInvalid(f"it alone has {', '.join(sorted(unknown))}")
    columns = (
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in wanted
    )
    return pa.Table.from_arrays(list(columns), schema=wanted)


def rewrite(client: "FilesystemClient", path: str, rows: pa.Table) -> None:
    """Replace a file at once: buckets do so themselves, in a folder the new file takes the old one's place."""
    content = BytesIO()
    pq.write_table(rows, content)
    if not client.is_local_filesystem:
        client.fs_client.pipe_file(path, content.getvalue())
        return
    # readers take no hidden file for a part of the table
    file = Path(path)
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("wb") as written:
            written.write(content.getbuffer())
            os.fsync(written.fileno())
        take_access(file, part)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise LoadFailed(f"{file} cannot be rewritten: {reason(error)}; load again.") from error
