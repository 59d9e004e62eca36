"""How do keys reach a database? As primary keys of PostgreSQL, which dlt does not make."""

from collections.abc import Iterable
from typing import Any

import dlt

from letters_source.destination.sql import open_sql
from letters_source.destination.traits import engine
from letters_source.tables import VALID_FROM, Table

FIND_KEYS = """
    SELECT table_name FROM information_schema.table_constraints
    WHERE table_schema = %s AND constraint_type = 'PRIMARY KEY'
"""


def create_keys(pipeline: dlt.Pipeline, tables: Iterable[Table]) -> None:
    """Make the primary keys that a PostgreSQL destination lacks; others have them in dlt's schema alone."""
    if engine(pipeline) != "postgres":
        return
    with open_sql(pipeline) as client:
        found: Any = client.execute_sql(FIND_KEYS, client.dataset_name)
        present = {name for [name] in found}
        for table in tables:
            if table.key and table.name not in present:
                names = ", ".join(map(client.escape_column_name, key_columns(pipeline, table)))
                client.execute_sql(
                    f"ALTER TABLE {client.make_qualified_table_name(table.name)} ADD PRIMARY KEY ({names})"
                )


def key_columns(pipeline: dlt.Pipeline, table: Table) -> list[str]:
    """The columns of a table's key as it is loaded."""
    versions = [VALID_FROM] if VALID_FROM in pipeline.default_schema.get_table_columns(table.name) else []
    return [*table.key, *versions]
