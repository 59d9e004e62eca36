"""Which checks are there, and what do they find in the destination?"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import dlt

from letters_source.dagster.specs import audited_as, table_of
from letters_source.destination.audits import finished_audits
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import duckdb_file
from letters_source.destination.sql import open_sql
from letters_source.destination.verify import Finding, find_rejected, find_repeated, find_rows
from letters_source.errors import LoadFailed
from letters_source.tables import LISTING_AUDIT, LOAD_ID, Table

Audits = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the tables whose rows lie in some parts; `find` returns counts and the problem, if any."""

    description: str
    parts: Collection[str]
    find: Callable[[Any, Table, Audits], Finding]
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR


def find_missing(client: Any, table: Table, audits: Audits) -> Finding:
    """As many rows and ids as were read, and as many rejected rows."""
    rejected = (find_rejected(client, audit) for audit in audits if table.part == "row")
    findings = [find_rows(client, table, audits), *rejected]
    counts = {name: count for finding in findings for name, count in finding.counts.items()}
    return Finding(counts, next((finding.problem for finding in findings if finding.problem), ""))


def find_undocumented(_: Any, table: Table, audits: Audits) -> Finding:
    """No undocumented field, and no value that did not fit its column, in what was read last."""
    found = {name: times for audit in audits for name, times in (audit["undocumented_fields"] or {}).items()}
    fields = ", ".join(f"{name} in {times} rows" for name, times in found.items())
    problem = f"{table.name}: did not fit the columns: {fields}."
    return Finding({"undocumented_values": sum(found.values())}, problem if found else "")


CHECKS = {
    "complete": Check(
        "The table holds what was read, and that was shown to be the whole listing.",
        ("row", "facet", "window"),
        find_missing,
    ),
    "unique_keys": Check("No key is there twice.", ("row", "object", "list", "facet", "window"), find_repeated),
    "no_orphans": Check("Every row has its parent.", ("object", "list"), find_rows),
    "documented": Check(
        "The service sent no undocumented field, and no value that does not fit its column.",
        ("row",),
        find_undocumented,
        dg.AssetCheckSeverity.WARN,
    ),
}


def check_specs(assets: Iterable[dg.AssetSpec]) -> list[dg.AssetCheckSpec]:
    """The checks of some assets. What comes after an asset waits for those that are no mere warnings."""
    return [
        dg.AssetCheckSpec(
            name,
            asset=asset.key,
            description=check.description,
            blocking=check.severity == dg.AssetCheckSeverity.ERROR,
        )
        for asset in assets
        for name, check in CHECKS.items()
        if table_of(asset.key).listing and table_of(asset.key).part in check.parts
    ]


def collect_findings(keys: Collection[dg.AssetCheckKey], pipeline: dlt.Pipeline) -> Mapping[dg.AssetCheckKey, Finding]:
    """What each check finds in a dataset."""
    try:
        return query_findings(keys, pipeline)
    except LoadFailed as failure:
        return dict.fromkeys(keys, Finding({}, str(failure)))


@plain_errors
def query_findings(keys: Collection[dg.AssetCheckKey], pipeline: dlt.Pipeline) -> Mapping[dg.AssetCheckKey, Finding]:
    """What each check finds in a dataset that can be read.

    Raises:
        LoadFailed: it cannot.
    """
    file = duckdb_file(pipeline)
    if file and not file.exists():
        # DuckDB would create it
        raise LoadFailed(f"{file.name} does not exist; load it first.")
    with open_sql(pipeline) as client:
        audits = last_audits(client, {audited_as(table_of(key.asset_key)) for key in keys})
        return {key: finding_of(key, client, audits) for key in keys}


def last_audits(client: Any, names: Collection[str]) -> Mapping[str, Audits]:
    """The audits of the last load of each listing, facet and the mailings."""
    found = {name: finished_audits(client, name) for name in names}
    return {
        name: [audit for audit in audits if audit[LOAD_ID.name] == audits[0][LOAD_ID.name]]
        for name, audits in found.items()
    }


def finding_of(key: dg.AssetCheckKey, client: Any, audits: Mapping[str, Audits]) -> Finding:
    """What a check finds in a table."""
    table = table_of(key.asset_key)
    last = audits[audited_as(table)]
    if not last:
        return Finding({}, f"{table.name}: {LISTING_AUDIT.name} knows of no load of it; load it first.")
    return CHECKS[key.name].find(client, table, last)


def result_of(key: dg.AssetCheckKey, findings: Mapping[str, Finding]) -> dg.AssetCheckResult:
    """A check's result from what was found in the datasets of loaded accounts, or in the one without a name."""
    problems = {account: finding.problem for account, finding in findings.items() if finding.problem}
    told = [f"{account}: {problem}" if account else problem for account, problem in problems.items()]
    return dg.AssetCheckResult(
        passed=bool(findings) and not told,
        asset_key=key.asset_key,
        check_name=key.name,
        severity=CHECKS[key.name].severity,
        description=" ".join(told) or (None if findings else "No account was loaded yet."),
        metadata=numbers_of(findings),
    )


def numbers_of(findings: Mapping[str, Finding]) -> Mapping[str, Any]:
    """What was counted in all accounts together, and in the table `accounts` what was counted in each."""
    counted = {account: finding.counts for account, finding in findings.items() if finding.counts}
    names = next(iter(counted.values()), {})
    total = {name: sum(counts[name] for counts in counted.values()) for name in names}
    records = [dg.TableRecord({"account": account, **counts}) for account, counts in counted.items() if account]
    return {**total, "accounts": dg.MetadataValue.table(records)} if records else total
