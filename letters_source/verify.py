"""Does the destination hold exactly what was read?"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import dlt

from letters_source.errors import LoadFailed
from letters_source.tables import LISTING_AUDIT, REJECTED_ROWS, Table, tables_of

Row = Mapping[str, Any]


def verify_load(pipeline: dlt.Pipeline, load_id: str, listings: Collection[str]) -> tuple[Row, ...]:
    """The audit's rows of a load, once the tables of its listings are shown to hold what they say.

    Raises:
        LoadFailed: a listing has no audit, rows, distinct ids and the audit disagree, or a child has no parent.
    """
    with pipeline.sql_client() as client:
        audits = read_audits(client, load_id)
        audited = {audit["listing"] for audit in audits}
        if audited != set(listings):
            raise LoadFailed(
                f"{LISTING_AUDIT.name}: expected a row for {sorted(listings)}, got {sorted(audited)}; load again."
            )
        for audit in audits:
            root, *children = tables_of(audit["listing"])
            check_rows(client, root, audit["rows_yielded"])
            for child in children:
                check_children(client, child, root)
            check_rejected(client, audit, load_id)
    return audits


def read_audits(client: Any, load_id: str) -> tuple[Row, ...]:
    """The rows of `listing_audit` that a load brought."""
    names = LISTING_AUDIT.schema.names
    query = (
        f"SELECT {', '.join(names)} FROM {qualified(client, LISTING_AUDIT)} WHERE _dlt_load_id = %s ORDER BY started_at"
    )
    return tuple(dict(zip(names, row, strict=True)) for row in client.execute_sql(query, load_id))


def check_rows(client: Any, table: Table, expected: int) -> None:
    """A listing's own table holds as many rows, and as many ids, as were read."""
    rows, ids = one(client, f"SELECT count(*), count(DISTINCT id) FROM {qualified(client, table)}")
    if not rows == ids == expected:
        raise LoadFailed(
            f"{table.name}: read {expected} rows, but the destination holds {rows} with {ids} ids; load again."
        )


def check_children(client: Any, child: Table, parent: Table) -> None:
    """Every child has its parent."""
    parents = f"SELECT id FROM {qualified(client, parent)}"
    query = f"SELECT count(*) FROM {qualified(client, child)} WHERE {child.key[0]} NOT IN ({parents})"
    [orphans] = one(client, query)
    if orphans:
        raise LoadFailed(f"{child.name}: {orphans} rows have no row in {parent.name}; load again.")


def check_rejected(client: Any, audit: Row, load_id: str) -> None:
    """The rows that were rejected were loaded as such."""
    query = f"SELECT count(*) FROM {qualified(client, REJECTED_ROWS)} WHERE listing = %s AND _dlt_load_id = %s"
    [rows] = one(client, query, audit["listing"], load_id)
    if rows != audit["rows_rejected"]:
        raise LoadFailed(
            f"{REJECTED_ROWS.name}: {audit['rows_rejected']} rows of {audit['listing']} were rejected, "
            f"but the destination holds {rows}; load again."
        )


def count_rows(pipeline: dlt.Pipeline, tables: Iterable[Table]) -> dict[str, int]:
    """How many rows each table holds now."""
    with pipeline.sql_client() as client:
        return {table.name: one(client, f"SELECT count(*) FROM {qualified(client, table)}")[0] for table in tables}


def one(client: Any, query: str, *values: Any) -> Any:
    """The only row of a query."""
    return client.execute_sql(query, *values)[0]


def qualified(client: Any, table: Table) -> str:
    """The table's name, quoted, with its dataset's."""
    name: str = client.make_qualified_table_name(table.name)
    return name
