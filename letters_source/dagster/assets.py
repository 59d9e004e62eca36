"""Assets for the tables and the service that they come from, and their checks: which there are, and what they find."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from letters_source.config.settings import Kind
from letters_source.destination.audits import finished_audits
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.place import Place
from letters_source.destination.sql import SqlClient
from letters_source.destination.verify import Audits, Finding, find_rejected, find_repeated, find_rows
from letters_source.errors import LoadFailed
from letters_source.source import is_wanted
from letters_source.tables import DATASET, LISTING_AUDIT, TABLES, Table, tables_of
from letters_source.wording import counted

TABLE_NAME = "dagster/table_name"
BY_NAME = {table.name: table for table in TABLES}
SERVICE = dg.AssetSpec(
    "letters_service",
    description="The letter mailing service: its listings of templates and contacts.",
    group_name="letters_service",
    kinds={"api"},
)
ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@dataclass
class LettersTranslator:
    """How a table becomes an asset. Subclass it to change tags and the like."""

    prefix: Sequence[str] = (DATASET,)  # the asset key before its last part, which must stay the table's name
    group: str = "letters"
    destination: Kind = "duckdb"  # shown on the assets
    dataset: str | None = DATASET  # that the resource loads into; None for partitions, which have a dataset each
    owners: Sequence[str] = ()  # email addresses, or teams as `team:name`
    service: dg.AssetKey = SERVICE.key

    def get_asset_spec(self, table: Table) -> dg.AssetSpec:
        """Return a table's asset; child tables depend on their listing's table, all others on the service."""
        # with the dataset: Dagster links assets that have the same table name
        name = {TABLE_NAME: f"{self.dataset}.{table.name}"} if self.dataset else {}
        return dg.AssetSpec(
            self.key_of(table),
            deps=[self.key_of(tables_of(table.listing)[0]) if table.is_child else self.service],
            description=table.description,
            group_name=self.group,
            kinds={"dlt", self.destination},
            owners=self.owners,
            metadata={**name, "dagster/column_schema": column_schema(table)},
        )

    def key_of(self, table: Table) -> dg.AssetKey:
        """Return the key of a table's asset."""
        return dg.AssetKey([*self.prefix, table.name])


def asset_specs(
    translator: LettersTranslator | None = None, *, facets: bool = False, mailings: bool = False
) -> list[dg.AssetSpec]:
    """Return the assets of all tables, parents first; facets and mailings only if wanted."""
    translator = translator or LettersTranslator()
    tables = (table for table in TABLES if is_wanted(table, facets=facets, mailings=mailings))
    return [translator.get_asset_spec(table) for table in tables]


def table_of(key: dg.AssetKey) -> Table:
    """Return the table of an asset."""
    return BY_NAME[key.path[-1]]


def column_schema(table: Table) -> dg.TableSchema:
    """Return a table's columns and primary key as Dagster metadata."""
    key = [f"primary key ({', '.join(table.key)})"] if table.key else []
    columns = [
        dg.TableColumn(
            column.name,
            column.kind,
            column.description,
            dg.TableColumnConstraints(nullable=column.nullable, unique=table.key == (column.name,)),
        )
        for column in table.loaded
    ]
    return dg.TableSchema(columns, constraints=dg.TableConstraints(other=key))


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the tables of some origins; `find` returns what it counted, and the problem if there is one."""

    description: str
    origins: Collection[str]
    find: Callable[[SqlClient, Table, Audits], Finding]
    severity: dg.AssetCheckSeverity = ERROR


def find_missing(client: SqlClient, table: Table, audits: Audits) -> Finding:
    """Compare the numbers of rows, IDs and rejected rows with those that were read."""
    rejected = [find_rejected(client, audit) for audit in audits if table.origin == "row"]
    findings = [find_rows(client, table, audits), *rejected]
    counts = {name: count for finding in findings for name, count in finding.counts.items()}
    return Finding(counts, next((finding.problem for finding in findings if finding.problem), ""))


def find_undocumented(_: SqlClient, table: Table, audits: Audits) -> Finding:
    """Count the undocumented fields, and the values that did not fit their column, of the last load."""
    found = {name: rows for audit in audits for name, rows in (audit["undocumented_fields"] or {}).items()}
    fields = ", ".join(f"{name} in {counted(rows)}" for name, rows in found.items())
    problem = f"{table.name}: new fields, or values that do not fit, kept in undocumented: {fields}."
    return Finding({"undocumented_values": sum(found.values())}, problem if found else "")


CHECKS = {
    "complete": Check(
        "The table holds all rows of the last load, which read the whole listing.",
        ("row", "facet", "dates"),
        find_missing,
    ),
    "unique_keys": Check("No key occurs twice.", ("row", "object", "list", "facet", "dates"), find_repeated),
    "no_orphans": Check("Every row has its parent.", ("object", "list"), find_rows),
    "documented": Check(
        "The service sent no undocumented field, and every value fit its column.", ("row",), find_undocumented, WARN
    ),
}


def check_specs(assets: Iterable[dg.AssetSpec]) -> list[dg.AssetCheckSpec]:
    """Return the checks of assets; downstream assets wait for all but those that only warn."""
    return [
        dg.AssetCheckSpec(name, asset=asset.key, description=check.description, blocking=check.severity == ERROR)
        for asset in assets
        for name, check in CHECKS.items()
        if table_of(asset.key).listing and table_of(asset.key).origin in check.origins
    ]


def run_checks(keys: Collection[dg.AssetCheckKey], place: Place) -> Mapping[dg.AssetCheckKey, Finding]:
    """Return what each check finds in a dataset; the reason for all of them if it cannot be read."""
    try:
        return plain_errors(query_findings)(keys, place)
    except LoadFailed as failure:
        return dict.fromkeys(keys, Finding({}, str(failure)))


def query_findings(keys: Collection[dg.AssetCheckKey], place: Place) -> Mapping[dg.AssetCheckKey, Finding]:
    """Return what each check finds in a dataset, or raise `LoadFailed`."""
    if place.path and not place.path.exists():
        # DuckDB would create it
        raise LoadFailed(f"{place.path.name} does not exist; load it first.")
    with place.kind.open_sql(place, "") as client:
        return {key: find(key, client) for key in keys}


def find(key: dg.AssetCheckKey, client: SqlClient) -> Finding:
    """Return what a check finds in a table, for the last load that read it."""
    table = table_of(key.asset_key)
    audits = finished_audits(client, table.audited)
    if not audits:
        return Finding({}, f"{table.name}: {LISTING_AUDIT.name} has no load of it; load it first.")
    last = [audit for audit in audits if audit["_dlt_load_id"] == audits[0]["_dlt_load_id"]]
    return CHECKS[key.name].find(client, table, last)


def result_of(key: dg.AssetCheckKey, findings: Mapping[str, Finding]) -> dg.AssetCheckResult:
    """Return a check's result from the findings for each loaded account, or for the one without a name."""
    problems = {account: finding.problem for account, finding in findings.items() if finding.problem}
    lines = [f"{account}: {problem}" if account else problem for account, problem in problems.items()]
    return dg.AssetCheckResult(
        passed=bool(findings) and not lines,
        asset_key=key.asset_key,
        check_name=key.name,
        severity=CHECKS[key.name].severity,
        description=" ".join(lines) or (None if findings else "No account is loaded yet."),
        metadata=counts_of(findings),
    )


def counts_of(findings: Mapping[str, Finding]) -> Mapping[str, Any]:
    """Return the counts of all accounts together, and those of each account as the table `accounts`."""
    counted = {account: finding.counts for account, finding in findings.items() if finding.counts}
    names = next(iter(counted.values()), {})
    total = {name: sum(counts[name] for counts in counted.values()) for name in names}
    records = [dg.TableRecord({"account": account, **counts}) for account, counts in counted.items() if account]
    return {**total, "accounts": dg.MetadataValue.table(records)} if records else total
