"""Views over the tables of all accounts in one DuckDB file."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from letters_source.destination.locking import when_free
from letters_source.destination.place import Place
from letters_source.destination.sql import fetch_rows, literal
from letters_source.tables import LISTING_AUDIT, is_ours

FIND_RELATIONS = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = %s AND NOT starts_with(table_name, '_dlt') ORDER BY table_name
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
        client.execute_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        for name, queries in parts.items():
            client.execute_sql(f'CREATE OR REPLACE VIEW "{schema}"."{name}" AS {" UNION ALL BY NAME ".join(queries)}')
        for [name] in fetch_rows(client, FIND_RELATIONS, schema):
            # other views in this schema are the user's
            if is_ours(name) and name not in parts:
                client.execute_sql(f'DROP VIEW "{schema}"."{name}"')


def account_rows(account_id: str, dataset: str, name: str) -> str:
    """Return the query for one account's rows; the audit already has an account column."""
    first = "" if name == LISTING_AUDIT.name else f"{literal(str(account_id))} AS account_id, "
    return f'SELECT {first}* FROM "{dataset}"."{name}"'
