"""SQL over tables stored as Parquet, Delta or Iceberg files, in a folder or a bucket.

Delta and Iceberg record which Parquet files are current. dlt's own SQL client would make DuckDB download an extension
for each format and for buckets, which needs network access.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import duckdb
import pyarrow as pa
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from pyarrow.parquet import read_table

from letters_source.destination.sql import literal
from letters_source.errors import LoadFailed
from letters_source.tables import LISTING_AUDIT, REJECTED_ROWS
from letters_source.wording import reason

if TYPE_CHECKING:
    from dlt.destinations.impl.filesystem.filesystem import FilesystemClient

# each load adds a small file to them
GROWING = (LISTING_AUDIT.name, REJECTED_ROWS.name)


class FilesSql:
    """The part of dlt's SQL client interface that we use, on an in-memory DuckDB, which scans each table in place."""

    def __init__(self, client: "FilesystemClient", connection: duckdb.DuckDBPyConnection) -> None:
        self.client, self.connection = client, connection
        self.known: set[str] = set()

    def make_qualified_table_name(self, name: str) -> str:
        """Return the table's quoted name; on first use, register the table with DuckDB."""
        if name not in self.known:
            self.open_table(name)
            self.known.add(name)
        return f'"{name}"'

    def open_table(self, name: str) -> None:
        """Register a table with DuckDB, or raise `DestinationUndefinedEntity` if nothing was loaded into it yet."""
        if self.client.is_dlt_table(name):
            self.connection.register(name, json_lines(self.client, name))
            return
        files, schema = parquet_files(self.client, name)
        if not files and schema is not None:
            self.connection.register(name, schema.empty_table())
            return
        if name in GROWING and not self.client.is_local_filesystem:
            self.connection.register(name, download_rows(self.client, files))
            return
        try:
            self.connection.execute(f'CREATE VIEW "{name}" AS FROM {parquet_rows(files)}')
        except duckdb.Error as error:
            raise self.unreadable_file(files) or error from None

    def unreadable_file(self, files: list[str]) -> LoadFailed | None:
        """Return an error naming the first of these files that cannot be read; DuckDB's own may not name it."""
        for file in files:
            try:
                self.connection.execute(f"FROM {parquet_rows([file])} LIMIT 0")
            except duckdb.Error as error:
                return LoadFailed(f"{file} cannot be read: {reason(error)}; inspect it, and load again.")
        return None

    @contextmanager
    def execute_query(self, query: str, *values: Any) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run a query; yield a DB-API cursor (PEP 249)."""
        yield self.connection.execute(query.replace("%s", "?"), values)


@contextmanager
def open_files(client: "FilesystemClient") -> Iterator[FilesSql]:
    """Open SQL over the tables of dlt's filesystem client."""
    with closing(duckdb.connect()) as connection:
        if not client.is_local_filesystem:
            # cannot deadlock: DuckDB releases the GIL while it waits for reads through fsspec
            connection.register_filesystem(client.fs_client)
        try:
            yield FilesSql(client, connection)
        finally:
            # dlt leaves its Iceberg catalog open, a SQLite database; the public method makes one where there is none
            if catalog := client._catalog:  # noqa: SLF001
                catalog.close()


def parquet_rows(files: list[str]) -> str:
    """Return the SQL relation of the rows of Parquet files; columns that a file lacks are null.

    Only `execute` may read it: DuckDB's relations in Python, and its scans of pyarrow datasets, hold the GIL while they
    wait for threads that need the GIL to read a file through fsspec.
    """
    return f"read_parquet([{', '.join(map(literal, files))}], union_by_name = true, hive_partitioning = false)"


def download_rows(client: "FilesystemClient", files: list[str]) -> pa.Table:
    """Return the rows of a table that has a small file per load, downloading the files in parallel."""
    # DuckDB would request each file several times per query: after 26 loads, 103 requests per file and load
    documents = client.fs_client.cat(files, recursive=False)
    tables = [read_document(file, documents[file]) for file in sorted(documents)]
    return pa.concat_tables(tables, promote_options="default")


def read_document(file: str, document: bytes) -> pa.Table:
    """Return the rows of a Parquet file, or raise `LoadFailed`."""
    try:
        return read_table(BytesIO(document))
    except pa.ArrowException as error:
        raise LoadFailed(f"{file} cannot be read: {error}; inspect it, and load again.") from None


def parquet_files(client: "FilesystemClient", name: str) -> tuple[list[str], pa.Schema | None]:
    """Return a table's current Parquet files, and its Arrow schema (None for plain Parquet).

    Raise `LoadFailed` if another writer marked rows as deleted in separate files, which we do not read.
    """
    if client.is_open_table("delta", name):
        delta = client.load_open_table("delta", name)
        if "deletionVectors" in (delta.protocol().reader_features or ()):
            raise LoadFailed(
                f"{name} has deletion vectors of another writer, which are not supported; purge the table."
            )
        return [plain_path(client, file) for file in delta.file_uris()], pa.schema(delta.schema())
    if client.is_open_table("iceberg", name):
        iceberg = client.load_open_table("iceberg", name)
        tasks = list(iceberg.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise LoadFailed(f"{name} has delete files of another writer, which are not supported; compact the table.")
        return [plain_path(client, task.file.file_path) for task in tasks], iceberg.schema().as_arrow()
    files = client.list_table_files(name)
    if not files:
        raise DestinationUndefinedEntity(name)
    return [plain_path(client, client.make_remote_url(file)) for file in files], None


def plain_path(client: "FilesystemClient", url: str) -> str:
    """Return a file as DuckDB opens it: a path for local files, a URL in a bucket."""
    return url2pathname(urlsplit(url).path) if client.is_local_filesystem else url


def json_lines(client: "FilesystemClient", name: str) -> pa.Table:
    """Return one of dlt's own tables, which have one file per row, downloading the files in parallel."""
    files = client.list_table_files(name)
    if not files:
        raise DestinationUndefinedEntity(name)
    documents = client.fs_client.cat(files, recursive=False)
    return pa.Table.from_pylist([json_line(name, documents[name]) for name in sorted(documents)])


def json_line(file: str, text: bytes) -> Any:
    """Return the row in a JSON file, or raise `LoadFailed`."""
    try:
        return json.loads(text)
    except ValueError:
        raise LoadFailed(f"{file} is truncated: remove it, and load again.") from None
