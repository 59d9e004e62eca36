"""What do tables hold that lie in files, in a folder or a bucket? Asked by SQL, whatever their format.

dlt's own SQL client would have DuckDB download an extension for each format and for buckets, which takes a network.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from pyarrow.fs import FSSpecHandler, PyFileSystem

from letters_source.errors import LoadFailed

PLACEHOLDER = "%s"


class FilesSql:
    """As much of dlt's SQL clients as we use: DuckDB, which scans each table where it lies.

    Args:
        client: dlt's client of the destination.
        connection: a database of its own, in memory.
    """

    def __init__(self, client: Any, connection: duckdb.DuckDBPyConnection) -> None:
        self.client, self.connection = client, connection
        self.known: set[str] = set()

    def make_qualified_table_name(self, name: str) -> str:
        """The table's name, quoted, once DuckDB knows what is in it.

        Raises:
            DestinationUndefinedEntity: nothing was loaded into it yet.
        """
        if name not in self.known:
            self.connection.register(name, open_table(self.client, name))
            self.known.add(name)
        return f'"{name}"'

    def execute_sql(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""
        return self.connection.execute(query.replace(PLACEHOLDER, "?"), values).fetchall()

    @contextmanager
    def execute_query(self, query: str, *values: Any) -> Iterator[duckdb.DuckDBPyConnection]:
        """A query's columns and rows, the way of Python's database interface."""
        yield self.connection.execute(query.replace(PLACEHOLDER, "?"), values)


class Snapshot:
    """An Iceberg table as it is now, which DuckDB can read from its start time and again."""

    def __init__(self, table: Any) -> None:
        self.scan = table.scan()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Its rows from the first one on, as Arrow's own interface."""
        return self.scan.to_arrow_batch_reader().__arrow_c_stream__(requested_schema)


@contextmanager
def open_files(client: Any) -> Iterator[FilesSql]:
    """SQL over the tables of a client of dlt's for files, while the block runs."""
    with closing(duckdb.connect()) as connection:
        # left to pyarrow, filters fail on texts that delta-rs merged: they are of a type that it cannot compare
        connection.execute("SET disabled_optimizers = 'filter_pushdown,join_filter_pushdown'")
        yield FilesSql(client, connection)


def open_table(client: Any, name: str) -> Any:
    """Something that DuckDB can scan a table by.

    Raises:
        DestinationUndefinedEntity: nothing was loaded into it yet.
    """
    if client.is_open_table("delta", name):
        return client.load_open_table("delta", name).to_pyarrow_dataset()
    if client.is_open_table("iceberg", name):
        return Snapshot(client.load_open_table("iceberg", name))
    files = client.list_table_files(name)
    if not files:
        raise DestinationUndefinedEntity(name)
    return json_lines(client, files) if client.is_dlt_table(name) else parquet_files(client, files)


def parquet_files(client: Any, files: list[str]) -> ds.Dataset:
    """Parquet files as one table; columns that only some of them have are null in the others.

    Raises:
        LoadFailed: one cannot be read; the message names it.
    """
    filesystem = PyFileSystem(FSSpecHandler(client.fs_client))
    factory = ds.FileSystemDatasetFactory(filesystem, files, ds.ParquetFileFormat())
    try:
        return factory.finish(factory.inspect(fragments=None))
    except (OSError, pa.ArrowInvalid) as error:
        raise LoadFailed(str(error).partition("\n")[0]) from error


def json_lines(client: Any, files: list[str]) -> pa.Table:
    """The files of a table of dlt's own, which holds a row each; a bucket gives many at once.

    Raises:
        LoadFailed: a file holds something else.
    """
    documents = client.fs_client.cat(files, recursive=False)
    return pa.Table.from_pylist([json_line(name, documents[name]) for name in sorted(documents)])


def json_line(file: str, text: bytes) -> Any:
    """The row that a file holds.

    Raises:
        LoadFailed: it holds something else.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise LoadFailed(f"{file} was cut off: remove it, and load again.") from None
