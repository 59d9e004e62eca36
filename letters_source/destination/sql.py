"""Opens a SQL client on a destination, and quotes SQL literals."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import dlt
    from dlt.destinations.sql_client import SqlClientBase

    from letters_source.destination.file_tables import FilesSql


class Cursor(Protocol):
    """The part of a DB-API cursor (PEP 249) that we use."""

    @property
    def description(self) -> Sequence[Sequence[Any]]:
        """A sequence per column, its name first."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""


class SqlClient(Protocol):
    """The part of dlt's SQL client that `FilesSql` has, too."""

    def make_qualified_table_name(self, name: str, /) -> str:
        """Return the quoted name of a table, with its schema."""

    def execute_query(self, query: str, /, *values: Any) -> AbstractContextManager[Cursor]:
        """Run a query; yield its cursor."""


@contextmanager
def open_sql(pipeline: "dlt.Pipeline", dataset: str | None = None) -> "Iterator[SqlClientBase[Any] | FilesSql]":
    """Open a SQL client on the pipeline's dataset, or another one: dlt's own, or ours for tables in files."""
    # imported here, so that the report, which only quotes text, does not import dlt
    from letters_source.destination.kinds import files_client, is_files

    if is_files(pipeline):
        from letters_source.destination.file_tables import open_files

        files_of = files_client(pipeline)
        files_of.dataset_name = dataset or files_of.dataset_name
        with open_files(files_of) as files:
            yield files
    else:
        with pipeline.sql_client() as client, client.with_alternative_dataset_name(dataset or client.dataset_name):
            yield client


def fetch_rows(client: SqlClient, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with client.execute_query(query, *values) as cursor:
        return cursor.fetchall()


def literal(text: str) -> str:
    """Return a SQL string literal, for statements that do not accept parameters."""
    return "'" + text.replace("'", "''") + "'"
