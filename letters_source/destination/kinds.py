"""Properties of a destination: its kind, its location, its capabilities, and how it writes each mode of a load."""

from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dlt
from dlt.common.destination import TLoaderFileFormat
from dlt.common.schema.typing import TCdcStrategyDict, TScd2StrategyDict, TTableFormat, TWriteDispositionConfig
from dlt.destinations.impl.duckdb.configuration import DuckDbClientConfiguration, DuckDbCredentials

from letters_source.errors import DestinationError, SettingsError
from letters_source.service.listings import SECTION
from letters_source.tables import MERGE, Mode, Table, WriteMode
from letters_source.transform.row_hash import LISTED, ROW_HASH

if TYPE_CHECKING:
    # imported at run time, it would delay loads into other destinations
    from dlt.destinations.impl.filesystem.filesystem import FilesystemClient

# keeps a load's memory independent of the listing's size: 10 million rows fit. Each thread needs a share of it, and a
# second one makes a load no faster
MEMORY_MB = 120
DUCKDB_CONFIG = {"memory_limit": f"{MEMORY_MB}MB", "threads": 1, "preserve_insertion_order": False}
# DuckDB's default; dlt raises it to 1 GB, and rows would go through the write-ahead log first: a tenth of a load
DUCKDB_PRAGMAS = ("checkpoint_threshold='16MiB'",)
STRATEGIES: dict[WriteMode, set[str]] = {"sync": {"cdc"}, "history": {"scd2"}, MERGE: {"delete-insert", "upsert"}}
"""dlt's merge strategies for each mode; the destination must support one of them."""
STAGED = "insert-from-staging"
"""dlt's replace strategy that keeps a table's old rows until all new ones are in a staging dataset."""
FILE_FORMATS: dict[str, TLoaderFileFormat] = {
    # dlt's default there, CSV, would turn empty text into null
    "postgres": "insert_values",
    # dlt cannot load a JSON column from Parquet, its default there
    "bigquery": "jsonl",
}
"""The file formats of loads, by dlt's destination type, where dlt's default for Arrow tables cannot load our rows."""


def engine(pipeline: dlt.Pipeline) -> str:
    """Return dlt's destination type: duckdb, filesystem, postgres and so on; empty without a destination."""
    return pipeline.destination.destination_type.rpartition(".")[2] if pipeline.destination else ""


def is_duckdb(pipeline: dlt.Pipeline) -> bool:
    """Return whether the destination is a DuckDB database."""
    return engine(pipeline) == "duckdb"


def is_files(pipeline: dlt.Pipeline) -> bool:
    """Return whether the destination is files in a folder or a bucket."""
    return engine(pipeline) == "filesystem"


def merge_strategies(pipeline: dlt.Pipeline) -> set[str]:
    """Return dlt's merge strategies for the destination: upsert, cdc, scd2 and others. Without one, dlt appends."""
    capabilities = pipeline.destination.capabilities()
    known = capabilities.supported_merge_strategies or ()
    select = capabilities.merge_strategies_selector
    return set(select(known, table_schema={"table_format": table_format(pipeline)}) if select else known)


def table_format(pipeline: dlt.Pipeline) -> TTableFormat | None:
    """Return the open table format, delta or iceberg; None for plain files and databases."""
    return pipeline.destination.capabilities().preferred_table_format


def kind_of(pipeline: dlt.Pipeline) -> str:
    """Return the `--destination` name: duckdb, parquet, delta, iceberg, postgres, or dlt's name for any other."""
    return table_format(pipeline) or ("parquet" if is_files(pipeline) else engine(pipeline))


def duckdb_file(pipeline: dlt.Pipeline) -> Path | None:
    """Return the file of a DuckDB destination; None for an in-memory database and any other destination."""
    if not is_duckdb(pipeline):
        return None
    given = pipeline.destination.config_params.get("credentials")
    # the lookup below resolves dlt's whole configuration, which takes 10 ms
    if isinstance(given, DuckDbCredentials) and (file := Path(given.database or "")).is_absolute():
        return file
    config = cast("DuckDbClientConfiguration", pipeline.destination_client().config)
    name = str(config.credentials.database)
    return None if name.startswith(":") else Path(name)


def shown_place(pipeline: dlt.Pipeline) -> str:
    """Return a pipeline's destination for messages: a path, a URL, or a server without its password."""
    return str(duckdb_file(pipeline) or local_folder(pipeline) or pipeline.destination_client().config)


def local_folder(pipeline: dlt.Pipeline) -> Path | None:
    """Return the local folder of a filesystem destination; None for any other destination."""
    if not is_files(pipeline):
        return None
    config = files_client(pipeline).config
    return Path(url2pathname(urlsplit(config.bucket_url).path)) if config.is_local_filesystem else None


def files_client(pipeline: dlt.Pipeline) -> "FilesystemClient":
    """Return dlt's client of a filesystem destination."""
    return cast("FilesystemClient", pipeline.destination_client())


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


def check_mode(pipeline: dlt.Pipeline, name: str, mode: WriteMode) -> None:
    """Check that the destination supports a mode; otherwise dlt would append, or fail during the load."""
    # dlt can extract before a destination is set
    if mode == "replace" or not pipeline.destination or STRATEGIES[mode] & merge_strategies(pipeline):
        return
    files = f"{table_format(pipeline) or 'plain'} files"
    place = files if is_files(pipeline) else pipeline.destination.destination_name
    what, key = ("loading mailings", f"{SECTION}.mailings") if mode == MERGE else (mode, f"{SECTION}.{mode}")
    raise SettingsError(
        f"{name}: {what} is not supported for {place}", advice=f"unset {key}, or choose another $destination.", key=key
    )


def check_capable(pipeline: dlt.Pipeline) -> None:
    """Check that a database has staging tables, SQL, and names that SQL finds unquoted, or raise `DestinationError`."""
    if is_files(pipeline):
        return
    name, capabilities = pipeline.destination.destination_name, pipeline.destination.capabilities()
    if STAGED not in (capabilities.supported_replace_strategies or ()):
        raise DestinationError(
            f"{name} has no staging tables, which run() needs to replace tables and to verify them with SQL",
            advice="choose another $destination, or load without verification: pipeline.run(letters()).",
        )
    if capabilities.casefold_identifier("a") == "A":
        naming = pipeline.naming
        if pipeline.destination.capabilities(naming=naming).casefold_identifier("a") != "A":
            raise DestinationError(
                f"{name} reads unquoted names in upper case, and the naming convention {naming.name()} creates "
                "them in lower case: set SCHEMA__NAMING to snake_case."
            )
