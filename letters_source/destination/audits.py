"""Reads what a dataset contains: audits of earlier loads, columns and rows of its tables."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, cast

from dlt.common.destination.exceptions import DestinationUndefinedEntity, SqlClientNotAvailable
from dlt.pipeline.exceptions import PipelineConfigMissing

from letters_source.destination.place import Place
from letters_source.destination.sql import SqlClient
from letters_source.results import Audit
from letters_source.tables import LISTING_AUDIT, LOAD_ID, LOADS

FIND_AUDITS = """
    SELECT table_schema FROM information_schema.columns WHERE table_name = %s AND column_name = 'account_id' ORDER BY 1
"""
JSON_NAMES = frozenset(column.name for column in LISTING_AUDIT.columns if column.kind == "json")


@contextmanager
def open_held(place: Place, dataset: str = "") -> Iterator[SqlClient | None]:
    """Open a SQL client for the functions below; None without a destination, a dataset, or SQL support."""
    client = None
    with ExitStack() as stack:
        with suppress(DestinationUndefinedEntity, SqlClientNotAvailable, PipelineConfigMissing):
            client = stack.enter_context(place.kind.open_sql(place, dataset))
        yield client


def finished_audits(client: SqlClient | None, name: str) -> list[Audit]:
    """Return the audits of a listing, a facet or the mailings from finished loads, newest first."""
    return read_audits(client, name, "IN")


def unfinished_audits(client: SqlClient | None, name: str) -> list[Audit]:
    """Return the audits of loads that failed or were killed, newest first; their rows may have been loaded or not."""
    return read_audits(client, name, "NOT IN")


def read_audits(client: SqlClient | None, name: str, are: str) -> list[Audit]:
    """Return the audits of loads that are IN, or NOT IN, dlt's list of finished loads."""
    # SELECT *, because tables of older versions lack some columns
    query = (
        f"SELECT * FROM {{}} WHERE listing = %s AND {LOAD_ID.name} {are} (SELECT load_id FROM {{}} WHERE status = 0) "
        "ORDER BY started_at DESC"
    )
    columns, rows = ask(client, query, (LISTING_AUDIT.name, LOADS), name)
    return [cast("Audit", opened(dict(zip(columns, row, strict=True)))) for row in rows]


def held_service(client: SqlClient | None) -> str | None:
    """Return the service that the newest finished load of any listing recorded; None if none did."""
    if "service" not in read_columns(client, LISTING_AUDIT.name):
        return None
    query = (
        f"SELECT service FROM {{}} WHERE service IS NOT NULL AND {LOAD_ID.name} IN "
        "(SELECT load_id FROM {} WHERE status = 0) ORDER BY started_at DESC"
    )
    _, rows = ask(client, query, (LISTING_AUDIT.name, LOADS))
    return next((service for [service] in rows), None)


def other_account(place: Place, client: SqlClient | None, account: str) -> str | None:
    """Return an account that was loaded into another dataset of the same database; None for other destinations."""
    for schema in place.kind.find_audits(client) if client else ():
        query = f'SELECT account_id FROM "{schema}".{LISTING_AUDIT.name} WHERE account_id <> %s LIMIT 1'
        _, rows = ask(client, query, (), account)
        if rows:
            return str(rows[0][0])
    return None


def audited_schemas(client: SqlClient) -> list[str]:
    """Return the schemas of a database with audits of accounts."""
    _, schemas = ask(client, FIND_AUDITS, (), LISTING_AUDIT.name)
    return [schema for [schema] in schemas]


def read_columns(client: SqlClient | None, table: str) -> set[str]:
    """Return the columns of a table; empty if it does not exist."""
    # T-SQL has no LIMIT
    columns, _ = ask(client, "SELECT * FROM {} WHERE 1 = 0", (table,))
    return set(columns)


def holds_rows(client: SqlClient | None, table: str, load_id: str) -> bool:
    """Return whether a table has rows of a load."""
    _, rows = ask(client, f"SELECT count(*) FROM {{}} WHERE {LOAD_ID.name} = %s", (table,), load_id)
    return any(count for [count] in rows)


def ask(
    client: SqlClient | None, query: str, tables: Sequence[str], *values: Any
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of a query with a placeholder `{}` per table; empty before the first load.

    The names of columns are in lower case.
    """
    if client is None:
        return [], []
    try:
        qualified = map(client.make_qualified_table_name, tables)
        with client.execute_query(query.format(*qualified), *values) as cursor:
            # dlt's cursors of SQLAlchemy have no `description`
            names = getattr(cursor, "columns_schema", None) or (column[0] for column in cursor.description)
            return [name.lower() for name in names], cursor.fetchall()
    except DestinationUndefinedEntity:
        return [], []


def opened(row: dict[str, Any]) -> dict[str, Any]:
    """Return an audit with its JSON parsed and its time in UTC; engines return them as text or as objects."""
    return row | {name: read(row[name]) for name, read in READERS.items() if row.get(name) is not None}


def parsed(value: Any) -> Any:
    """Return a JSON value; a database that loaded it from a JSON file has it as JSON text within a JSON string."""
    return parsed(json.loads(value)) if isinstance(value, str) else value


def in_utc(value: datetime | str) -> datetime:
    """Return a time with its zone: SQLite returns text, and MySQL a time without a zone."""
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    return time if time.tzinfo else time.replace(tzinfo=UTC)


READERS: dict[str, Callable[[Any], Any]] = {**dict.fromkeys(JSON_NAMES, parsed), "started_at": in_utc}
"""How the values of columns are read whose type differs between engines."""
