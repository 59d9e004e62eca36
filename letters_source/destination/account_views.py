"""Views over the tables of all accounts in one DuckDB file."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

from dlt.destinations.exceptions import DatabaseTerminalException, DatabaseUndefinedRelation
from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination.locking import when_free
from letters_source.destination.place import Place
from letters_source.destination.sql import fetch_rows, literal, quoted
from letters_source.errors import LoadFailed
from letters_source.tables import LISTING_AUDIT, is_ours
from letters_source.wording import reason, root_cause

logger = logging.getLogger("letters_source")

FIND_RELATIONS = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = %s AND NOT starts_with(table_name, '_dlt') ORDER BY table_name
"""
FIND_VIEWS = """
    SELECT view_name FROM duckdb_views()
    WHERE schema_name = %s AND NOT starts_with(view_name, '_dlt') ORDER BY view_name
"""


def create_account_views(places: Mapping[str, Place], schema: str, wait: float) -> None:
    """Create views over each table of all accounts, with a first column `account_id`; wait for the file."""
    when_free(partial(replace_views, places, schema), wait)


def replace_views(places: Mapping[str, Place], schema: str) -> None:
    """Create or replace the views, and drop those over tables that none of the accounts has."""
    parts = defaultdict(list)
    with next(iter(places.values())).pipeline.sql_client() as client:
        for account, place in places.items():
            # the client has the normalized name
            dataset = place.pipeline.sql_client().dataset_name
            # some accounts may lack tables, for example of facets
            found = fetch_rows(client, FIND_RELATIONS, dataset)
            for [name] in found:
                parts[name].append(account_rows(account, dataset, name))
        client.execute_sql(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        for name, queries in parts.items():
            replace_view(client, schema, name, " UNION ALL BY NAME ".join(queries))
        for [name] in fetch_rows(client, FIND_VIEWS, schema):
            # other views in this schema are the user's
            if is_ours(name) and name not in parts:
                client.execute_sql(f"DROP VIEW {quoted(schema)}.{quoted(name)}")


def replace_view(client: SqlClientBase[Any], schema: str, name: str, query: str) -> None:
    """Create or replace a view; raise `LoadFailed` if DuckDB refuses, or warn if no load makes tables of that name."""
    try:
        client.execute_sql(f"CREATE OR REPLACE VIEW {quoted(schema)}.{quoted(name)} AS {query}")
    except (DatabaseTerminalException, DatabaseUndefinedRelation) as error:
        what = f"the view {schema}.{name} could not be replaced: {reason(root_cause(error))}"
        if is_ours(name):
            raise LoadFailed(what, advice="drop the table or view in its way, and load again.") from error
        # someone's own, such as a view whose table is gone
        logger.warning("%s", what)


def account_rows(account_id: str, dataset: str, name: str) -> str:
    """Return the query for one account's rows; the audit already has an account column."""
    first = "" if name == LISTING_AUDIT.name else f"{literal(str(account_id))} AS account_id, "
    return f"SELECT {first}* FROM {quoted(dataset)}.{quoted(name)}"
