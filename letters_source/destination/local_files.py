"""Local folders to load into: whether a load can use them, what is in them, and who has access. Imports no dlt."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from letters_source.errors import DestinationError
from letters_source.tables import TABLES

Format = Literal["parquet", "delta", "iceberg"]
LAKE_FOLDERS: dict[Format, str] = {"delta": "_delta_log", "iceberg": "metadata"}
"""The metadata folders of Delta and Iceberg, next to Parquet files that may be outdated."""
# a load of an empty account takes 5 MiB in DuckDB, and 5 MiB in the working directory and the WAL
LEAST_ROOM = 16 * 2**20
ANOTHER_PATH = "choose another $to."


def check_folder(folder: Path) -> None:
    """Check that a folder, or its nearest existing parent, is writable, or raise `DestinationError`."""
    # os.path.exists returns False below an inaccessible folder, where pathlib raises
    nearest = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not os.path.isdir(nearest):
        raise DestinationError(f"{nearest} is a file, not a folder", advice=ANOTHER_PATH, key="to")
    check_writable(nearest)


def check_spelling(folder: Path, form: str | None) -> None:
    """Check that a folder's path has no character that dlt or Iceberg misreads as a glob pattern or a URL escape."""
    if set(str(folder)) & set("[]*?"):
        raise DestinationError(f"{folder}: dlt reads [, ], * and ? as wildcards", advice=ANOTHER_PATH, key="to")
    if form == "iceberg" and folder.as_uri() != f"file://{folder}":
        raise DestinationError(
            f"{folder}: Iceberg cannot write to a path with spaces or other characters that URLs escape",
            advice=ANOTHER_PATH,
            key="to",
        )


def check_format(dataset: Path, form: str | None) -> None:
    """Check that existing tables have the format of the load, or raise `DestinationError`."""
    for table in TABLES:
        found = format_of(dataset / table.name)
        if found not in (None, form or "parquet"):
            raise DestinationError(
                f"{dataset} holds {table.name} as {found}",
                advice=f"load with $destination {found}, or {ANOTHER_PATH}",
                key="to",
            )


def format_of(table: Path) -> Format | None:
    """Return the format of the table in a folder; None if there is no table."""
    for name, folder in LAKE_FOLDERS.items():
        if os.path.isdir(table / folder):
            return name
    return "parquet" if any(table.glob("*.parquet")) else None


def listed_loads(folder: Path) -> list[str]:
    """Return the ids of finished loads in a folder where dlt writes one file per load, named after schema and id."""
    return [file.stem.rpartition("__")[2] for file in folder.glob("*.jsonl")]


def check_writable(folder: Path, *, key: str = "to") -> None:
    """Check that a folder is writable and its disk has space, or raise `DestinationError`."""
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DestinationError(
            f"{folder} cannot be written: {error.strerror}",
            advice=f"make it writable, or choose another ${key}.",
            key=key,
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


def take_access(old: Path, new: Path) -> None:
    """Give a new file the owner, group, mode and access lists of an old one, as far as this user may."""
    there = old.stat()
    for owner, group in ((-1, there.st_gid), (there.st_uid, -1)):
        with suppress(PermissionError):
            os.chown(new, owner, group)
    shutil.copystat(old, new)
    # when it was written stays its own
    os.utime(new)


def unusable_directory(error: OSError) -> DestinationError:
    """Return the error for a working directory of dlt, or a file in it, that cannot be read or written."""
    what = f"dlt's working directory cannot be used: {error.strerror}: {error.filename}"
    return DestinationError(f"{what}; set DLT_DATA_DIR to another directory.")
