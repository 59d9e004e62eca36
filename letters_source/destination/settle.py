"""What follows once rows are written: clean up, verify, and describe the tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import dlt
from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination.annotate import (
    KEYS_IN,
    VIEWS_IN,
    create_current_views,
    create_keys,
    describe_lake,
    describe_tables,
)
from letters_source.destination.cleanup import adopt_unfinished, drop_empty_staging, remove_unfinished
from letters_source.destination.file_tables import FilesSql
from letters_source.destination.kinds import engine
from letters_source.destination.verify import verify_load
from letters_source.results import Audit
from letters_source.tables import Table


def settle(
    pipeline: dlt.Pipeline,
    client: SqlClientBase[Any] | FilesSql,
    load_id: str,
    tables: Sequence[Table],
    extracted: Mapping[str, int],
) -> tuple[Audit, ...]:
    """Clean up after unfinished loads, verify this one, and add comments, keys and views; return its audits."""
    audited = [table for table in tables if table.listing]
    if isinstance(client, FilesSql):
        # keys can repeat only in files, because two machines can load into one bucket at once
        audits = verify_load(client, load_id, audited, extracted, keys=True)
        describe_lake(client.client, tables)
        return audits
    remove_unfinished(client, tables)
    kind = engine(pipeline)
    if kind == "duckdb":
        drop_empty_staging(client)
    audits = verify_load(client, load_id, audited, extracted, keys=False)
    if kind in ("duckdb", "postgres"):
        adopt_unfinished(client, load_id, tables, {audit["listing"]: audit["mode"] for audit in audits})
        describe_tables(client, kind, tables)
    if kind in KEYS_IN:
        create_keys(client, pipeline.default_schema, tables)
    if kind in VIEWS_IN and any(audit["mode"] == "history" for audit in audits):
        create_current_views(client, (table for table in tables if table.key and table.origin != "dates"))
    return audits
