"""Verifies a load: the destination holds as many rows and ids as were read, and children have their parents."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from letters_source.destination.place import Written
from letters_source.destination.sql import SqlClient, fetch_rows
from letters_source.errors import LoadFailed
from letters_source.results import Audit
from letters_source.service.listings import LISTINGS
from letters_source.tables import LISTING_AUDIT, LOAD_ID, REJECTED_ROWS, VALID_TO, Table, tables_of
from letters_source.wording import counted

Audits = Collection[Audit]


@dataclass(frozen=True, slots=True)
class Finding:
    """The counts of a check, by name, and the problem in one line; empty if there is none."""

    counts: Mapping[str, int]
    problem: str = ""


def verify_load(client: SqlClient, written: Written, *, keys: bool = False) -> tuple[Audit, ...]:
    """Check that the loaded tables match the load's audits, or raise `LoadFailed`; return the audits.

    With `keys`, also look for repeated keys of children.
    """
    audits, tables = audits_of(client, written.load_id), [table for table in written.tables if table.listing]
    check_audited(audits, tables)
    for table, finding in find_all(client, tables, audits, written.extracted, keys=keys):
        if finding.problem:
            raise LoadFailed(finding.problem, table=table.name, counts=finding.counts)
    return audits


def find_all(
    client: SqlClient, tables: Collection[Table], audits: Audits, extracted: Mapping[str, int] | None, *, keys: bool
) -> Iterator[tuple[Table, Finding]]:
    """Yield one finding per check, and its table."""
    for table in tables:
        yield table, find_rows(client, table, audits)
        if table.origin in ("object", "list"):
            if keys:
                yield table, find_repeated(client, table, audits)
            expected = None if extracted is None else extracted.get(table.name, 0)
            yield table, compare_counts(client, table, audits, expected)
    for audit in audits:
        if audit["listing"] in LISTINGS:
            yield REJECTED_ROWS, find_rejected(client, audit)


def check_audited(audits: Audits, tables: Collection[Table]) -> None:
    """Raise if a listing has no audit; a facet without values, and mailings without a day to request, need none."""
    audited = {audit["listing"] for audit in audits}
    listings = {table.name for table in tables if table.origin == "row"}
    if not listings <= audited <= {table.name for table in tables}:
        raise LoadFailed(
            f"{LISTING_AUDIT.name}: expected a row for {sorted(listings)}, got {sorted(audited)}; load again.",
            table=LISTING_AUDIT.name,
        )


def audits_of(client: SqlClient, load_id: str) -> tuple[Audit, ...]:
    """Return the rows of `listing_audit` that a load wrote."""
    names = [*LISTING_AUDIT.schema.names, LOAD_ID.name]
    audits = qualified(client, LISTING_AUDIT)
    query = f"SELECT {', '.join(names)} FROM {audits} WHERE {LOAD_ID.name} = %s ORDER BY started_at"
    return tuple(cast("Audit", dict(zip(names, row, strict=True))) for row in fetch_rows(client, query, load_id))


def find_rows(client: SqlClient, table: Table, audits: Audits) -> Finding:
    """Compare a table's rows and ids with the rows read; for a child, check that each row has its parent."""
    if table.origin in ("object", "list"):
        return find_orphans(client, table, tables_of(table.listing)[0], audits)
    own = [audit for audit in audits if audit["listing"] == table.name]
    expected, key = sum(audit["rows_yielded"] for audit in own), table.key[0]
    rows, ids = one(client, f"SELECT count(*), count(DISTINCT {key}) FROM {present(client, table, audits)}")
    is_wrong = rows < expected or (rows > expected and not keeps_more(table, audits))
    is_wrong |= table.origin == "row" and rows != ids
    problem = f"{table.name}: read {counted(expected)}, but the destination holds {rows} with {ids} ids; load again."
    return Finding({"rows_expected": expected, "rows": rows, "distinct_ids": ids}, problem if is_wrong else "")


def present(client: SqlClient, table: Table, audits: Audits) -> str:
    """Return SQL for the rows to verify: all rows; with history the current ones; of mailings the load's own."""
    name = qualified(client, table)
    if table.origin == "dates":
        loads = ", ".join({f"'{audit['_dlt_load_id']}'" for audit in audits}) or "''"
        return f"(SELECT * FROM {name} WHERE {LOAD_ID.name} IN ({loads})) AS present"
    if any(audit["mode"] == "history" for audit in audits):
        return f"(SELECT * FROM {name} WHERE {VALID_TO} IS NULL) AS present"
    return name


def find_orphans(client: SqlClient, child: Table, parent: Table, audits: Audits) -> Finding:
    """Count rows of a child table without a parent."""
    count = f"SELECT count(*) FROM {present(client, child, audits)}"
    parents = f"SELECT id FROM {present(client, parent, audits)}"
    [rows] = one(client, count)
    # not NOT IN: above its work_mem, PostgreSQL scans all parents for each row
    [found] = one(client, f"{count} WHERE {child.key[0]} IN ({parents})")
    orphans = rows - found
    problem = f"{child.name}: {counted(orphans)} without a row in {parent.name}; load again."
    return Finding({"orphans": orphans}, problem if orphans else "")


def compare_counts(client: SqlClient, child: Table, audits: Audits, expected: int | None) -> Finding:
    """Compare the number of a child table's rows with those extracted."""
    # history with filters keeps other rows, and extracts markers of rows without children
    if expected is None or keeps_more(child, audits):
        return Finding({})
    [rows] = one(client, f"SELECT count(*) FROM {present(client, child, audits)}")
    problem = f"{child.name}: read {counted(expected)}, but the destination holds {rows}; load again."
    return Finding({"rows_expected": expected, "rows": rows}, problem if rows != expected else "")


def keeps_more(table: Table, audits: Audits) -> bool:
    """Return whether a table keeps rows that were not read: with history, those that filters leave out."""
    own = [audit for audit in audits if audit["listing"] == table.listing]
    return any(audit["mode"] == "history" and audit["filters"] for audit in own)


def find_repeated(client: SqlClient, table: Table, audits: Audits) -> Finding:
    """Count repeated keys: with history among current versions, for mailings among all rows."""
    rows = qualified(client, table) if table.origin == "dates" else present(client, table, audits)
    keys = f"SELECT 1 FROM {rows} GROUP BY {', '.join(table.key)} HAVING count(*) > 1"
    [repeated] = one(client, f"SELECT count(*) FROM ({keys}) AS repeated")
    problem = f"{table.name}: {repeated} keys occur more than once; load again."
    return Finding({"repeated_keys": repeated}, problem if repeated else "")


def find_rejected(client: SqlClient, audit: Audit) -> Finding:
    """Compare the number of loaded rejected rows with the audit."""
    name, expected = qualified(client, REJECTED_ROWS), audit["rows_rejected"]
    query = f"SELECT count(*) FROM {name} WHERE listing = %s AND {LOAD_ID.name} = %s"
    [rows] = one(client, query, audit["listing"], audit["_dlt_load_id"])
    problem = (
        f"{REJECTED_ROWS.name}: {expected} rows of {audit['listing']} were rejected, "
        f"but the destination holds {rows}; load again."
    )
    return Finding({"rejected_expected": expected, "rejected": rows}, problem if rows != expected else "")


def count_rows(client: SqlClient, tables: Iterable[Table]) -> dict[str, int]:
    """Return the number of rows in each table."""
    return {table.name: one(client, f"SELECT count(*) FROM {qualified(client, table)}")[0] for table in tables}


def one(client: SqlClient, query: str, *values: Any) -> tuple[Any, ...]:
    """Return the only row of a query."""
    return fetch_rows(client, query, *values)[0]


def qualified(client: SqlClient, table: Table) -> str:
    """Return the table's quoted name, qualified with its dataset."""
    return client.make_qualified_table_name(table.name)
