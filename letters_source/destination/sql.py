"""What we need of a SQL client, and how to quote SQL literals. Imports no dlt."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


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


def fetch_rows(client: SqlClient, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with client.execute_query(query, *values) as cursor:
        return cursor.fetchall()


def literal(text: str) -> str:
    """Return a SQL string literal, for statements that do not accept parameters."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a quoted SQL name."""
    return '"' + name.replace('"', '""') + '"'
