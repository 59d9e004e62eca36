"""How a row is written that the destination may hold already: dlt's write dispositions for the modes of a load."""

from typing import Any

from letters_source.destination.kinds import is_files, merge_strategies, table_format
from letters_source.errors import SettingsError
from letters_source.tables import MERGE, Mode, Table
from letters_source.transform.row_hash import LISTED, ROW_HASH

STRATEGIES = {"sync": {"cdc"}, "history": {"scd2"}, MERGE: {"delete-insert", "upsert"}}
"""dlt's ways to merge that serve a mode, any of them."""


def write_disposition(table: Table, mode: Mode, *, filtered: bool = False) -> Any:
    """How dlt shall write a table of a listing.

    - replace: all rows anew.
    - sync: rows by their key; those that did not change are left untouched, those that are gone are deleted.
    - history: a row for each version, valid from and to. With filters, only versions of what is listed end: what is not
      may just be left out.
    """
    if mode == "replace":
        return {"disposition": "replace"}
    version = {"disposition": "merge", "row_version_column_name": ROW_HASH.name}
    if mode == "sync":
        return {**version, "strategy": "cdc", "skip_unchanged_rows": True}
    history = {**version, "strategy": "scd2"}
    if not filtered:
        return history
    key = table.key[0]
    scope = f"{key} IN (SELECT {key} FROM {{staging_table}})"
    return {**history, "destination_scope": scope, "source_filter": f"{ROW_HASH.name} <> '{LISTED}'"}


def check_mode(pipeline: Any, name: str, mode: str) -> None:
    """See that the destination can be written in that mode; where it cannot merge so, dlt would append, or break off.

    Raises:
        SettingsError: it cannot; the message begins with the name of what is to be loaded.
    """
    # rows may be extracted before it is known where to
    if mode == "replace" or not pipeline.destination or STRATEGIES[mode] & merge_strategies(pipeline):
        return
    files = f"{table_format(pipeline) or 'plain'} files"
    place = files if is_files(pipeline) else pipeline.destination.destination_name
    wish = "loading mailings" if mode == MERGE else mode
    raise SettingsError(f"{name}: {place} cannot be merged into as {wish} needs; choose another destination.")
