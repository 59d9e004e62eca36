"""Verifies that the destination holds exactly what was read."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from letters_source.errors import LoadFailed
from letters_source.service.listings import LISTINGS
from letters_source.tables import LISTING_AUDIT, LOAD_ID, REJECTED_ROWS, VALID_TO, Table, tables_of

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was counted in a table, by name, and what is wrong with it in one line; empty when nothing is."""

    counts: Mapping[str, int]
    problem: str = ""


def verify_load(client: Any, load_id: str, tables: Collection[Table], *, keys: bool) -> tuple[Row, ...]:
    """The audits of a load, once the tables that it loaded are shown to hold what the audits say.

    Args:
        client: SQL on the destination.
        load_id: the load.
        tables: the tables that it loaded.
        keys: whether to look for repeated keys of children too.

    Raises:
        LoadFailed: a listing has no audit; rows, distinct ids and the audit disagree; or a child has no parent, or is
            there twice.
    """
    audits = read_audits(client, load_id)
    check_audited(audits, tables)
    for finding in find_all(client, tables, audits, keys=keys):
        if finding.problem:
            raise LoadFailed(finding.problem)
    return audits


def find_all(client: Any, tables: Collection[Table], audits: Collection[Row], *, keys: bool) -> Iterator[Finding]:
    """Count everything that a load answers for, one after the other; the keys of children only if wanted."""
    for table in tables:
        yield find_rows(client, table, audits)
        if keys and table.part in ("object", "list"):
            yield find_repeated(client, table, audits)
    for audit in audits:
        if audit["listing"] in LISTINGS:
            yield find_rejected(client, audit)


def check_audited(audits: Collection[Row], tables: Collection[Table]) -> None:
    """Each listing has its audit; a facet that is asked for no value, and mailings of no window, have none."""
    audited = {audit["listing"] for audit in audits}
    listings = {table.name for table in tables if table.part == "row"}
    if not listings <= audited <= {table.name for table in tables}:
        raise LoadFailed(
            f"{LISTING_AUDIT.name}: expected a row for {sorted(listings)}, got {sorted(audited)}; load again."
        )


def read_audits(client: Any, load_id: str) -> tuple[Row, ...]:
    """The rows of `listing_audit` that a load brought."""
    names = [*LISTING_AUDIT.schema.names, LOAD_ID.name]
    audits = qualified(client, LISTING_AUDIT)
    query = f"SELECT {', '.join(names)} FROM {audits} WHERE {LOAD_ID.name} = %s ORDER BY started_at"
    return tuple(dict(zip(names, row, strict=True)) for row in client.execute_sql(query, load_id))


def find_rows(client: Any, table: Table, audits: Collection[Row]) -> Finding:
    """Whether a listing's own table holds as many rows and ids as were read, a facet and mailings as many rows.

    Of a child, whether each row has its parent.
    """
    if table.part in ("object", "list"):
        return find_orphans(client, table, tables_of(table.listing)[0], audits)
    own = [audit for audit in audits if audit["listing"] == table.name]
    expected, key = sum(audit["rows_yielded"] for audit in own), table.key[0]
    rows, ids = one(client, f"SELECT count(*), count(DISTINCT {key}) FROM {present(client, table, audits)}")
    # filtered history keeps the rows that its filters leave out
    is_whole = rows >= expected if keeps_more(table, audits) else rows == expected
    wrong = not is_whole or (table.part == "row" and rows != ids)
    return Finding(
        {"rows_expected": expected, "rows": rows, "distinct_ids": ids},
        f"{table.name}: read {expected} rows, but the destination holds {rows} with {ids} ids; load again."
        if wrong
        else "",
    )


def keeps_more(table: Table, audits: Collection[Row]) -> bool:
    """Whether the destination may hold more present rows than were read."""
    return any(
        audit["listing"] == table.listing and audit["mode"] == "history" and audit["filters"] for audit in audits
    )


def present(client: Any, table: Table, audits: Collection[Row]) -> str:
    """The rows that a load answers for: all; with history those that are valid now; of mailings those it brought."""
    name = qualified(client, table)
    if table.part == "window":
        loads = ", ".join({f"'{audit[LOAD_ID.name]}'" for audit in audits}) or "''"
        return f"(SELECT * FROM {name} WHERE {LOAD_ID.name} IN ({loads})) AS present"
    if any(audit["mode"] == "history" for audit in audits):
        return f"(SELECT * FROM {name} WHERE {VALID_TO} IS NULL) AS present"
    return name


def find_orphans(client: Any, child: Table, parent: Table, audits: Collection[Row]) -> Finding:
    """Whether every child has its parent."""
    parents = f"SELECT id FROM {present(client, parent, audits)}"
    query = f"SELECT count(*) FROM {present(client, child, audits)} WHERE {child.key[0]} NOT IN ({parents})"
    [orphans] = one(client, query)
    problem = f"{child.name}: {orphans} rows have no row in {parent.name}; load again."
    return Finding({"orphans": orphans}, problem if orphans else "")


def find_repeated(client: Any, table: Table, audits: Collection[Row]) -> Finding:
    """Whether a key is there twice: with history among the versions that are valid now, of mailings among all."""
    rows = qualified(client, table) if table.part == "window" else present(client, table, audits)
    keys = f"SELECT 1 FROM {rows} GROUP BY {', '.join(table.key)} HAVING count(*) > 1"
    [repeated] = one(client, f"SELECT count(*) FROM ({keys}) AS repeated")
    problem = f"{table.name}: {repeated} keys are there more than once; load again."
    return Finding({"repeated_keys": repeated}, problem if repeated else "")


def find_rejected(client: Any, audit: Row) -> Finding:
    """Whether the rows that were rejected were loaded as such."""
    name, expected = qualified(client, REJECTED_ROWS), audit["rows_rejected"]
    query = f"SELECT count(*) FROM {name} WHERE listing = %s AND {LOAD_ID.name} = %s"
    [rows] = one(client, query, audit["listing"], audit[LOAD_ID.name])
    problem = (
        f"{REJECTED_ROWS.name}: {expected} rows of {audit['listing']} were rejected, "
        f"but the destination holds {rows}; load again."
    )
    return Finding({"rejected_expected": expected, "rejected": rows}, problem if rows != expected else "")


def count_rows(client: Any, tables: Iterable[Table]) -> dict[str, int]:
    """The number of rows in each table."""
    return {table.name: one(client, f"SELECT count(*) FROM {qualified(client, table)}")[0] for table in tables}


def one(client: Any, query: str, *values: Any) -> Any:
    """The only row of a query."""
    return client.execute_sql(query, *values)[0]


def qualified(client: Any, table: Table) -> str:
    """The table's name, quoted, with its dataset's."""
    name: str = client.make_qualified_table_name(table.name)
    return name
