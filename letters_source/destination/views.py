"""Which views make a DuckDB file easier to read? Present rows of a history, and all accounts as one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import dlt

from letters_source.destination.quoting import literal
from letters_source.destination.sql import open_sql
from letters_source.destination.traits import is_duckdb
from letters_source.destination.versions import ROW_HASH
from letters_source.tables import LISTING_AUDIT, VALID_FROM, VALID_TO, Table

FIND_RELATIONS = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = %s AND NOT starts_with(table_name, '_dlt') ORDER BY table_name
"""


def create_current_views(pipeline: dlt.Pipeline, tables: Iterable[Table]) -> None:
    """A view `<table>_current` for each table with history: the rows that are valid now, without history's columns."""
    if not is_duckdb(pipeline):
        return
    with open_sql(pipeline) as client:
        for table in tables:
            view, name = (client.make_qualified_table_name(each) for each in (f"{table.name}_current", table.name))
            client.execute_sql(
                f"CREATE OR REPLACE VIEW {view} AS SELECT * EXCLUDE ({ROW_HASH.name}, {VALID_FROM}, {VALID_TO}) "
                f"FROM {name} WHERE {VALID_TO} IS NULL"
            )


def create_account_views(pipelines: Mapping[str, dlt.Pipeline], schema: str) -> None:
    """Views in a schema of their own: each table of all accounts, with a column `account_id` in front.

    Args:
        pipelines: the pipeline of each account, all of one destination; any other than DuckDB is left alone.
        schema: the schema's name.
    """
    first = next(iter(pipelines.values()))
    if not is_duckdb(first):
        return
    parts = defaultdict(list)
    with first.sql_client() as client:
        for account, pipeline in pipelines.items():
            # the client knows the dataset as dlt writes it
            dataset = pipeline.sql_client().dataset_name
            # facets, for example, may have been loaded for some accounts only
            found: Any = client.execute_sql(FIND_RELATIONS, dataset)
            for [name] in found:
                parts[name].append(account_rows(account, dataset, name))
        client.execute_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        for name, queries in parts.items():
            client.execute_sql(f'CREATE OR REPLACE VIEW "{schema}"."{name}" AS {" UNION ALL BY NAME ".join(queries)}')


def account_rows(account_id: str, dataset: str, name: str) -> str:
    """The query of one account's rows; the audit has the account already."""
    first = "" if name == LISTING_AUDIT.name else f"{literal(str(account_id))} AS account_id, "
    return f'SELECT {first}* FROM "{dataset}"."{name}"'
