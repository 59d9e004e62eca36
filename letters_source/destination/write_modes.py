"""Maps the modes of a load to dlt's write dispositions, and checks that the destination supports them."""

import dlt
from dlt.common.schema.typing import TCdcStrategyDict, TScd2StrategyDict, TWriteDispositionConfig

from letters_source.destination.kinds import is_files, merge_strategies, table_format
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION
from letters_source.tables import MERGE, Mode, Table
from letters_source.transform.row_hash import LISTED, ROW_HASH

STRATEGIES = {"sync": {"cdc"}, "history": {"scd2"}, MERGE: {"delete-insert", "upsert"}}
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
        key = table.key[0]
        history["destination_scope"] = f"{key} IN (SELECT {key} FROM {{staging_table}})"
        history["source_filter"] = f"{ROW_HASH.name} <> '{LISTED}'"
    return history


def check_mode(pipeline: dlt.Pipeline, name: str, mode: str) -> None:
    """Check that the destination supports a mode; otherwise dlt would append, or fail during the load."""
    # dlt can extract before a destination is set
    if mode == "replace" or not pipeline.destination or STRATEGIES[mode] & merge_strategies(pipeline):
        return
    files = f"{table_format(pipeline) or 'plain'} files"
    place = files if is_files(pipeline) else pipeline.destination.destination_name
    what, key = ("loading mailings", f"{SECTION}.mailings") if mode == MERGE else (mode, f"{SECTION}.{mode}")
    raise SettingsError(
        f"{name}: {what} is not supported for {place}; unset {key}, or choose another destination.", key=key
    )
