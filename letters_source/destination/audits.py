"""What does the dataset hold already? What the audits of its finished loads say, and which columns its tables have."""

import json
from collections.abc import Sequence
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.destination.exceptions import DestinationUndefinedEntity, SqlClientNotAvailable
from dlt.common.pipeline import PipelineContext
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.pipeline.exceptions import PipelineConfigMissing

from letters_source.destination.sql import open_sql
from letters_source.tables import LISTING_AUDIT, LOAD_ID, LOADS

JSON_NAMES = frozenset(column.name for column in LISTING_AUDIT.columns if column.kind == "json")


def running_pipeline() -> Any:
    """The pipeline that is loading; None while rows are only looked at: dlt still knows the one that was made last."""
    try:
        load_package_state()
    except CurrentLoadPackageStateNotAvailable:
        return None
    return Container()[PipelineContext].pipeline()


def finished_audits(pipeline: Any, name: str) -> list[dict[str, Any]]:
    """The audits of a listing, a facet or the mailings in finished loads, newest first; none where there is none."""
    return read_audits(pipeline, name, "IN")


def unfinished_audits(pipeline: Any, name: str) -> list[dict[str, Any]]:
    """The same of loads that dlt did not note, as they failed or were killed; their rows may be there or not."""
    return read_audits(pipeline, name, "NOT IN")


def read_audits(pipeline: Any, name: str, are: str) -> list[dict[str, Any]]:
    """The audits of a listing, a facet or the mailings in loads that are IN, or NOT IN, dlt's list of finished ones."""
    # all columns, as audits of an older version lack some
    query = (
        f"SELECT * FROM {{}} WHERE listing = %s AND {LOAD_ID.name} {are} (SELECT load_id FROM {{}} WHERE status = 0) "
        "ORDER BY started_at DESC"
    )
    columns, rows = ask(pipeline, query, (LISTING_AUDIT.name, LOADS), name)
    return [opened(dict(zip(columns, row, strict=True))) for row in rows]


def read_columns(pipeline: Any, table: str) -> set[str]:
    """The columns of a table, whoever made it; none where there is no such table."""
    columns, _ = ask(pipeline, "SELECT * FROM {} LIMIT 1", (table,))
    return set(columns)


def holds_rows(pipeline: Any, table: str, load_id: str) -> bool:
    """Whether a table has rows of a load."""
    _, rows = ask(pipeline, f"SELECT 1 FROM {{}} WHERE {LOAD_ID.name} = %s LIMIT 1", (table,), load_id)
    return bool(rows)


def ask(pipeline: Any, query: str, tables: Sequence[str], *values: Any) -> tuple[list[str], list[Any]]:
    """The columns and rows of a query, with braces for the tables; none where nothing was loaded yet."""
    try:
        with open_sql(pipeline) as client:
            qualified = map(client.make_qualified_table_name, tables)
            with client.execute_query(query.format(*qualified), *values) as cursor:
                return [column[0].lower() for column in cursor.description], cursor.fetchall()
    except (DestinationUndefinedEntity, SqlClientNotAvailable, PipelineConfigMissing):
        # neither tables nor files are there, or there is no SQL or no destination to ask
        return [], []


def opened(row: dict[str, Any]) -> dict[str, Any]:
    """An audit with its JSON read, which some engines give as text and others read."""
    return {
        name: json.loads(value) if name in JSON_NAMES and isinstance(value, str) else value
        for name, value in row.items()
    }
