"""SQL over tables stored as files, in a folder or a bucket, whatever their format.

In every format rows are in Parquet files: plain folders list them, Delta and Iceberg know which are current. dlt's own
SQL client would have DuckDB download an extension for each format and for buckets, which takes a network.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import duckdb
import pyarrow as pa
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from pyarrow.parquet import read_table

from letters_source.errors import LoadFailed, reason
from letters_source.tables import LISTING_AUDIT

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
            self.open_table(name)
            self.known.add(name)
        return f'"{name}"'

    def open_table(self, name: str) -> None:
        """Let DuckDB read a table by its name; columns that only some files have are null in the others.

        DuckDB opens the files itself. Given a pyarrow dataset, it starts its scan while it holds the GIL, and that
        scan can wait for a thread that needs the GIL to read a file through fsspec: both wait forever.

        Raises:
            DestinationUndefinedEntity: nothing was loaded into it yet.
        """
        if self.client.is_dlt_table(name):
            self.connection.register(name, json_lines(self.client, name))
            return
        files, schema = parquet_files(self.client, name)
        if not files:
            self.connection.register(name, schema.empty_table())
            return
        if name == LISTING_AUDIT.name and not self.client.is_local_filesystem:
            self.connection.register(name, download_rows(self.client, files))
            return
        try:
            self.read_parquet(files).create_view(name)
        except duckdb.Error as error:
            raise self.unreadable_file(files) or error from None

    def read_parquet(self, files: list[str]) -> duckdb.DuckDBPyRelation:
        """The rows of Parquet files, opened to read their schemas; columns that a file lacks are null."""
        return self.connection.read_parquet(files, union_by_name=True, hive_partitioning=False)

    def unreadable_file(self, files: list[str]) -> LoadFailed | None:
        """The error that names the first of these files that cannot be read, as DuckDB's own may not."""
        for file in files:
            try:
                self.read_parquet([file])
            except duckdb.Error as error:
                return LoadFailed(f"{file} cannot be read: {reason(error)}; look at it, and load again.")
        return None

    def execute_sql(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""
        return self.connection.execute(query.replace(PLACEHOLDER, "?"), values).fetchall()

    @contextmanager
    def execute_query(self, query: str, *values: Any) -> Iterator[duckdb.DuckDBPyConnection]:
        """A query's columns and rows, the way of Python's database interface."""
        yield self.connection.execute(query.replace(PLACEHOLDER, "?"), values)


@contextmanager
def open_files(client: Any) -> Iterator[FilesSql]:
    """SQL over the tables of a client of dlt's for files, while the block runs."""
    with closing(duckdb.connect()) as connection:
        if not client.is_local_filesystem:
            # DuckDB holds nothing that Python waits for while it reads through it, nor the GIL while it waits
            connection.register_filesystem(client.fs_client)
        yield FilesSql(client, connection)


def download_rows(client: Any, files: list[str]) -> pa.Table:
    """The rows of a table with a small file per load, requested side by side.

    DuckDB would request each file by itself, several times per query: after 26 loads 103 requests per file and load.

    Raises:
        LoadFailed: a file cannot be read.
    """
    documents = client.fs_client.cat(files, recursive=False)
    tables = [read_document(file, documents[file]) for file in sorted(documents)]
    return pa.concat_tables(tables, promote_options="default")


def read_document(file: str, document: bytes) -> pa.Table:
    """The rows of a Parquet file.

    Raises:
        LoadFailed: it cannot be read.
    """
    try:
        return read_table(BytesIO(document))
    except pa.ArrowException as error:
        raise LoadFailed(f"{file} cannot be read: {error}; look at it, and load again.") from None


def parquet_files(client: Any, name: str) -> tuple[list[str], Any]:
    """The Parquet files that hold a table now, and its Arrow schema where its format keeps one.

    Raises:
        DestinationUndefinedEntity: nothing was loaded into it yet.
        LoadFailed: some of their rows are deleted, as another writer noted in files of their own.
    """
    if client.is_open_table("delta", name):
        delta = client.load_open_table("delta", name)
        if "deletionVectors" in (delta.protocol().reader_features or ()):
            raise LoadFailed(
                f"{name} has deletion vectors of another writer, which are not read here; purge the table."
            )
        return [plain_path(client, file) for file in delta.file_uris()], pa.schema(delta.schema())
    if client.is_open_table("iceberg", name):
        iceberg = client.load_open_table("iceberg", name)
        tasks = list(iceberg.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise LoadFailed(f"{name} has delete files of another writer, which are not read here; compact the table.")
        return [plain_path(client, task.file.file_path) for task in tasks], iceberg.schema().as_arrow()
    files = client.list_table_files(name)
    if not files:
        raise DestinationUndefinedEntity(name)
    return [plain_path(client, client.make_remote_url(file)) for file in files], None


def plain_path(client: Any, url: str) -> str:
    """A file as DuckDB opens it: by its path on this machine, by its URL in a bucket."""
    return url2pathname(urlsplit(url).path) if client.is_local_filesystem else url


def json_lines(client: Any, name: str) -> pa.Table:
    """A table of dlt's own, each of whose files holds one row; a bucket returns many files at once.

    Raises:
        DestinationUndefinedEntity: it is not there yet.
        LoadFailed: a file holds something else.
    """
    files = client.list_table_files(name)
    if not files:
        raise DestinationUndefinedEntity(name)
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
