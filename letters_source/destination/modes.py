"""How each mode of a load writes its tables, and which destinations support it."""

from collections.abc import Collection
from typing import Literal

from dlt.common.schema.typing import (
    TCdcStrategyDict,
    TDeleteInsertStrategyDict,
    TScd2StrategyDict,
    TWriteDispositionConfig,
)

from letters_source.destination.place import Place
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION
from letters_source.tables import LOAD_ID, MERGE, UNDOCUMENTED, VALID_TO, Mode, Table, WriteMode
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


def equal_rows(table: Table, *, has_versions: bool) -> str:
    """Return SQL that is true where a row `s` in staging equals a row `d` with another hash; empty if hashes tell.

    A contact or template that the service wrote otherwise has another digest. In history, so has JSON in tables of
    earlier releases, which hashed its text.
    """
    if table.origin != "row" and (not has_versions or all(column.kind != "json" for column in table.columns)):
        return ""
    compared = (column for column in table.columns if not (has_versions and column.name == UNDOCUMENTED.name))
    differ = (f"d.{column.name} IS DISTINCT FROM s.{column.name}" for column in compared if not column.key)
    current = f" AND d.{VALID_TO} IS NULL" if has_versions else ""
    # equality of each column would make DuckDB join by all of them, which takes twice as long
    return f"{changed_rows(table)} AND NOT ({' OR '.join(differ)}){current}"


def changed_rows(table: Table) -> str:
    """Return SQL that is true where a row `s` in staging has the key of a row `d`, and another hash."""
    keys = " AND ".join(f"d.{name} = s.{name}" for name in table.key)
    return f"{keys} AND d.{ROW_HASH.name} <> s.{ROW_HASH.name} AND s.{ROW_HASH.name} <> '{LISTED}'"


def updated_hashes(table: Table, columns: Collection[str], name: str, staged: str) -> str:
    """Return SQL that gives rows of a table the hash of equal rows in staging, so that they stay."""
    equal = equal_rows(table, has_versions=VALID_TO in columns)
    assign = f"UPDATE {name} AS d SET {ROW_HASH.name} = s.{ROW_HASH.name} FROM {staged} AS s"
    return f"{assign} WHERE {equal};" if equal else ""


def inserted_anew(table: Table, columns: Collection[str], name: str, staged: str) -> str:
    """Return SQL for DuckDB that inserts rows with another hash anew: equal rows, and in sync those that changed, too.

    DuckDB keeps updated rows in memory until a transaction ends, and writes the rows around each of them. Measured: 50
    updated rows of a million write 19 MB and take 0.6 s, 50 that are inserted 1 MB and 0.04 s.
    """
    has_versions = VALID_TO in columns
    equal = equal_rows(table, has_versions=has_versions)
    outdated, values = equal, {ROW_HASH.name: f"s.{ROW_HASH.name}"}
    if not has_versions:
        outdated, values = changed_rows(table), {column: f"s.{column}" for column in columns}
        if equal:
            values[LOAD_ID.name] = f"CASE WHEN {equal} THEN d.{LOAD_ID.name} ELSE s.{LOAD_ID.name} END"
    if not outdated:
        return ""
    # columns that users added keep their values
    anew = ", ".join(f"{value} AS {column}" for column, value in values.items())
    rows = f"SELECT d.* REPLACE ({anew}) FROM {name} AS d JOIN {staged} AS s ON {outdated}"
    return f"INSERT INTO {name} BY NAME {rows}; DELETE FROM {name} AS d USING {staged} AS s WHERE {outdated};"


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
    what, key = ("loading mailings", f"{SECTION}.mailings") if mode == MERGE else (mode, f"{SECTION}.{mode}")
    raise SettingsError(
        f"{name}: {what} is not supported for {place.described}",
        advice=f"unset {key}, or choose another $destination.",
        key=key,
    )


def merge_strategies(place: Place) -> set[str]:
    """Return dlt's merge strategies for the destination: upsert, cdc, scd2 and others. Without one, dlt appends."""
    capabilities = place.pipeline.destination.capabilities()
    known = capabilities.supported_merge_strategies or ()
    select = capabilities.merge_strategies_selector
    form = capabilities.preferred_table_format
    return set(select(known, table_schema={"table_format": form}) if select else known)
