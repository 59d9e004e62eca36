"""DuckDB's memory and threads for the rows of a load."""

from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq
from dlt.common.configuration.container import Container
from dlt.common.storages.load_package import LoadPackageStateInjectableContext

from letters_source.destination.kinds import MEMORY_MB

# DuckDB's own, where dlt sets 1gb and so sends most rows of a load through DuckDB's log: 3 % of a first load
THRESHOLD = "16MiB"
# rows up to here, as Parquet encodes them, fit into our usual limit, however many
SMALL_ROW_BYTES = 1024
# those of a third of that fit into this one, unless they are merged or moved on
STRAIGHT_MB = 70
# DuckDB's row group: of large rows it holds so many before it writes them out
ROWS_TOGETHER = 122_880
# what it takes to hold them, as a multiple of their bytes: from 3 for rows of 20 kB to 8 for those of 4 MB
TIMES = 8
# what two threads bring, less than a row group each, DuckDB collects again: 100,000 contacts and their labels are a
# third more work for them and take a fifth longer; from 300,000 on they are faster
FEW_ROWS = 2 * ROWS_TOGETHER


def limits_for(files: Sequence[pq.FileMetaData], *, staged: bool) -> dict[str, str | int]:
    """DuckDB's limits for the rows of these files, where our usual ones do not fit.

    Args:
        files: what is known of them.
        staged: whether they go to staging first.
    """
    limits: dict[str, str | int] = {}
    if room := sum(map(large_bytes, files)) // 10**6:
        limits["memory_limit"] = f"{MEMORY_MB + TIMES * room}MB"
    elif not (staged or any(map(has_middling_rows, files))):
        limits["memory_limit"] = f"{STRAIGHT_MB}MB"
    if all(file.num_rows <= FEW_ROWS for file in files):
        limits["threads"] = 1
    return limits


def files_to_load() -> Iterator[pq.FileMetaData]:
    """What is known of each file of rows in the package that is being loaded."""
    package = Container()[LoadPackageStateInjectableContext]
    storage = package.storage
    for file in storage.list_new_jobs(package.load_id):
        if file.endswith(".parquet"):
            yield pq.read_metadata(storage.storage.make_full_path(file))


def large_bytes(file: pq.FileMetaData) -> int:
    """By how many bytes the rows of a file that DuckDB holds at once exceed small ones."""
    size = sum(group.total_byte_size for group in groups(file))
    large = max(0, size - SMALL_ROW_BYTES * file.num_rows)
    return int(large * ROWS_TOGETHER // max(ROWS_TOGETHER, file.num_rows))


def has_middling_rows(file: pq.FileMetaData) -> bool:
    """Whether rows that lie together in a file exceed a third of small ones, by a megabyte or more in all."""
    return any(group.total_byte_size - SMALL_ROW_BYTES // 3 * group.num_rows >= 10**6 for group in groups(file))


def groups(file: pq.FileMetaData) -> Iterator[pq.RowGroupMetaData]:
    """The row groups of a file."""
    return map(file.row_group, range(file.num_row_groups))
