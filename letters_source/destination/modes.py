"""How each mode of a load writes its tables, and which destinations support it."""

import re
from collections.abc import Collection, Iterable
from typing import Literal

from dlt.common.schema.typing import (
    TCdcStrategyDict,
    TDeleteInsertStrategyDict,
    TScd2StrategyDict,
    TWriteDispositionConfig,
)

from letters_source.destination.place import Place
from letters_source.destination.sql import quoted
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION
from letters_source.tables import MERGE, UNDOCUMENTED, VALID_TO, Mode, Table, WriteMode
from letters_source.transform.row_hash import LISTED, ROW_HASH

DELETE_INSERT: Literal["delete-insert"] = "delete-insert"
"""dlt's default merge strategy."""
STRATEGIES: dict[WriteMode, set[str]] = {"sync": {"cdc"}, "history": {"scd2"}, MERGE: {DELETE_INSERT, "upsert"}}
"""dlt's merge strategies for each mode; the destination must support one of them."""


def write_disposition(table: Table, mode: Mode, *, filtered: bool = False) -> TWriteDispositionConfig:
    """Return dlt's write disposition for a table of a listing."""
    if mode == "replace":
        return {"disposition": "replace"}
    if mode == "sync":
        return TCdcStrategyDict(
            disposition="merge", strategy="cdc", row_version_column_name=ROW_HASH.name, skip_unchanged_rows=True
        )
    history = TScd2StrategyDict(disposition="merge", strategy="scd2", row_version_column_name=ROW_HASH.name)
    if filtered:
        # only versions of listed rows end, because the others may just be filtered out
        history["destination_scope"], history["source_filter"] = merge_conditions(table)
    return history


def merge_conditions(table: Table) -> tuple[str, str]:
    """Return which rows of a table can be deleted or end, if staging lacks some that stay, and which are loaded."""
    key = table.key[0]
    return f"{key} IN (SELECT {key} FROM {{staging_table}})", f"{ROW_HASH.name} <> '{LISTED}'"


def has_another_hash(table: Table, *, has_versions: bool) -> str:
    """Return SQL that is true where a row `s` in staging has the key of a current row `d`, and another hash."""
    keys = " AND ".join(f"d.{name} = s.{name}" for name in table.key)
    current = f" AND d.{VALID_TO} IS NULL" if has_versions else ""
    is_other = f"d.{ROW_HASH.name} IS DISTINCT FROM s.{ROW_HASH.name}"
    return f"{keys} AND {is_other} AND s.{ROW_HASH.name} <> '{LISTED}'{current}"


def equal_values(table: Table, *, has_versions: bool) -> str:
    """Return SQL that is true where rows `d` and `s` have the same values; empty where equal rows have equal hashes.

    A contact or template that the service sent in another order of fields, or with other spaces, has another digest. In
    history, JSON columns of earlier releases differ, too: those hashed its text.
    """
    if table.origin != "row" and (not has_versions or all(column.kind != "json" for column in table.columns)):
        return ""
    compared = (column for column in table.columns if not (has_versions and column.name == UNDOCUMENTED.name))
    differ = (f"d.{column.name} IS DISTINCT FROM s.{column.name}" for column in compared if not column.key)
    # equality of each column would make DuckDB join by all of them, which takes twice as long
    return f"NOT ({' OR '.join(differ)})"


def update_hashes(table: Table, columns: Collection[str], target: str, staging: str) -> str:
    """Return SQL that gives current rows of a table the hash of equal rows in staging."""
    has_versions = VALID_TO in columns
    equal = equal_values(table, has_versions=has_versions)
    assign = f"UPDATE {target} AS d SET {ROW_HASH.name} = s.{ROW_HASH.name} FROM {staging} AS s"
    return f"{assign} WHERE {has_another_hash(table, has_versions=has_versions)} AND {equal};" if equal else ""


def reinsert(table: Table, columns: Collection[str], held: Iterable[str], target: str, staging: str) -> str:
    """Return SQL for DuckDB that replaces rows with another hash by a delete and an insert instead of an update.

    In history, those with equal values; dlt ends the others. Of the columns that the table has (`held`), those that
    are not the load's (`columns`) keep their values. DuckDB keeps what is updated in memory until the transaction ends,
    and writes the rows around it. Measured: to update a million rows takes 1,011 MB, and of 50 writes 19 MB.
    """
    has_versions = VALID_TO in columns
    equal = equal_values(table, has_versions=has_versions)
    if has_versions and not equal:
        return ""
    outdated = has_another_hash(table, has_versions=has_versions) + (f" AND {equal}" if has_versions else "")
    staged = {ROW_HASH.name} if has_versions else {*columns}
    # such as the load id
    not_compared = staged - {*table.schema.names, ROW_HASH.name} if equal else set()
    values = {name: f"{'s' if name in staged else 'd'}.{quoted(name)}" for name in held}
    for name in not_compared:
        values[name] = f"CASE WHEN {equal} THEN d.{quoted(name)} ELSE s.{quoted(name)} END AS {quoted(name)}"
    return (
        f"CREATE OR REPLACE TEMP TABLE reinserted AS SELECT d.rowid AS replaced_row, {', '.join(values.values())} "
        f"FROM {target} AS d JOIN {staging} AS s ON {outdated}; "
        # before the insert, for the sake of a unique key; by row id, as a second join takes as long as the first
        f"DELETE FROM {target} WHERE rowid IN (SELECT replaced_row FROM temp.reinserted); "
        f"INSERT INTO {target} BY NAME SELECT * EXCLUDE (replaced_row) FROM temp.reinserted; "
        "DROP TABLE temp.reinserted;"
    )


def not_exists(sql: str, searched: str, row: str) -> str:
    """Return dlt's SQL with NOT EXISTS instead of NOT IN where it searches a table for `row`, its alias or name.

    For NOT IN, DuckDB 1.5 keeps all hashes of the table in memory: 110 MB for a million rows. PostgreSQL 15 scans the
    whole table for each row once the hashes exceed its `work_mem`: 1,000 rows in a million took more than 100 s, and
    0.1 s with NOT EXISTS. Columns must not be null, for which the two differ.
    """
    name = row.replace("\\", r"\\")
    return re.sub(
        rf'(?<![\w".])("?\w+"?) NOT IN \((SELECT \1 FROM {re.escape(searched)}(?: WHERE [^()]+)?)\)',
        rf"NOT EXISTS (SELECT 1 FROM (\2) AS held WHERE held.\1 = {name}.\1)",
        sql,
    )


def replace_days() -> TWriteDispositionConfig:
    """Return dlt's write disposition for mailings: rows of the days that were read replace the table's rows of them.

    A row without `is_planned` only marks the days that were read, because a day may list nobody.
    """
    days = "(SELECT min(mailed_on) FROM {staging_table}) AND (SELECT max(mailed_until) FROM {staging_table})"
    return TDeleteInsertStrategyDict(
        disposition="merge",
        strategy=DELETE_INSERT,
        destination_scope=f"mailed_on BETWEEN {days}",
        source_filter="is_planned IS NOT NULL",
        # the service's ids are unique in each window
        deduplicated=True,
    )


def has_delete_insert(place: Place) -> bool:
    """Return whether a load can replace days in a place; open table formats merge rows by their key instead."""
    # dlt can extract before a destination is set
    return not place.name or DELETE_INSERT in merge_strategies(place)


def check_mode(place: Place, name: str, mode: WriteMode) -> None:
    """Check that the destination supports a mode; otherwise dlt would append, or fail during the load."""
    # dlt can extract before a destination is set
    if mode == "replace" or not place.name or STRATEGIES[mode] & merge_strategies(place):
        return
    what, key = ("loading mailings", "mailings") if mode == MERGE else (mode, mode)
    raise SettingsError(
        f"{name}: {what} is not supported for {place.described}",
        advice=f"turn off ${key}, or choose another $destination.",
        key=f"{SECTION}.{key}",
    )


def merge_strategies(place: Place) -> set[str]:
    """Return dlt's merge strategies for the destination: upsert, cdc, scd2 and others. Without one, dlt appends."""
    capabilities = place.pipeline.destination.capabilities()
    known = capabilities.supported_merge_strategies or ()
    select = capabilities.merge_strategies_selector
    form = capabilities.preferred_table_format
    return set(select(known, table_schema={"table_format": form}) if select else known)
