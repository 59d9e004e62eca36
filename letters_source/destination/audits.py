"""Reads what a dataset already holds: the audits of earlier loads, and which columns and rows its tables have."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import dlt
from dlt.common.destination.exceptions import DestinationUndefinedEntity, SqlClientNotAvailable
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.pipeline.exceptions import PipelineConfigMissing

from letters_source.destination.sql import open_sql
from letters_source.tables import LISTING_AUDIT, LOAD_ID, LOADS

JSON_NAMES = frozenset(column.name for column in LISTING_AUDIT.columns if column.kind == "json")


def running_pipeline() -> dlt.Pipeline | None:
    """The pipeline that is loading; None outside a load, where dlt still returns the pipeline made last."""
    try:
        load_package_state()
    except CurrentLoadPackageStateNotAvailable:
        return None
    return dlt.current.pipeline()


@contextmanager
def open_held(pipeline: dlt.Pipeline) -> Iterator[Any]:
    """A SQL client for the functions below while the block runs; None where there is no SQL, destination or dataset."""
    with ExitStack() as stack:
        try:
            client = stack.enter_context(open_sql(pipeline))
        except (DestinationUndefinedEntity, SqlClientNotAvailable, PipelineConfigMissing):
            client = None
        yield client


def finished_audits(client: Any, name: str) -> list[dict[str, Any]]:
    """The audits of a listing, a facet or the mailings in finished loads, newest first."""
    return read_audits(client, name, "IN")


def unfinished_audits(client: Any, name: str) -> list[dict[str, Any]]:
    """The same for loads that failed or were killed; their rows may be there or not."""
    return read_audits(client, name, "NOT IN")


def read_audits(client: Any, name: str, are: str) -> list[dict[str, Any]]:
    """The audits of loads that are IN, or NOT IN, dlt's list of finished loads."""
    # all columns, as audits of an older version lack some
    query = (
        f"SELECT * FROM {{}} WHERE listing = %s AND {LOAD_ID.name} {are} (SELECT load_id FROM {{}} WHERE status = 0) "
        "ORDER BY started_at DESC"
    )
    columns, rows = ask(client, query, (LISTING_AUDIT.name, LOADS), name)
    return [opened(dict(zip(columns, row, strict=True))) for row in rows]


def read_columns(client: Any, table: str) -> set[str]:
    """The columns of a table, whoever made it; none where there is no such table."""
    columns, _ = ask(client, "SELECT * FROM {} LIMIT 1", (table,))
    return set(columns)


def holds_rows(client: Any, table: str, load_id: str) -> bool:
    """Whether a table has rows of a load."""
    _, rows = ask(client, f"SELECT 1 FROM {{}} WHERE {LOAD_ID.name} = %s LIMIT 1", (table,), load_id)
    return bool(rows)


def ask(client: Any, query: str, tables: Sequence[str], *values: Any) -> tuple[list[str], list[Any]]:
    """The columns and rows of a query, with braces for the tables; none where nothing was loaded yet."""
    if client is None:
        return [], []
    try:
        qualified = map(client.make_qualified_table_name, tables)
        with client.execute_query(query.format(*qualified), *values) as cursor:
            return [column[0].lower() for column in cursor.description], cursor.fetchall()
    except DestinationUndefinedEntity:
        return [], []


def opened(row: dict[str, Any]) -> dict[str, Any]:
    """An audit with its JSON parsed, which some engines return as text and others as objects."""
    return {
        name: json.loads(value) if name in JSON_NAMES and isinstance(value, str) else value
        for name, value in row.items()
    }
