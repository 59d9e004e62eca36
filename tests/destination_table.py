"""The reference's table of destinations: what a load does in each, by dlt's capabilities and our code."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import dlt
from dlt.common.destination.reference import AnyDestination_CO

from letters_source.destination.annotate import DESCRIBE, FIND_COMMENTS, KEYS_IN, VIEWS_IN
from letters_source.destination.kinds import STAGED, check_mode, engine, is_duckdb, is_files, table_format
from letters_source.destination.loading import OURS, for_loading, replace_strategy
from letters_source.destination.locking import LOCKED
from letters_source.destination.publish import check_published
from letters_source.errors import SettingsError
from letters_source.tables import MERGE, WriteMode

FILES = "file:///letters_parquet"
DESTINATIONS: dict[str, AnyDestination_CO] = {
    "DuckDB": dlt.destinations.duckdb(),
    "Parquet": dlt.destinations.filesystem(FILES),
    "Delta": dlt.destinations.filesystem(FILES, preferred_table_format="delta"),
    "Iceberg": dlt.destinations.filesystem(FILES, preferred_table_format="iceberg"),
    "PostgreSQL": dlt.destinations.postgres(),
    "SQLite, MySQL": dlt.destinations.sqlalchemy(),
    "DuckLake": dlt.destinations.ducklake(),
    "MotherDuck": dlt.destinations.motherduck(),
    "Snowflake": dlt.destinations.snowflake(),
    "BigQuery": dlt.destinations.bigquery(),
    "Databricks": dlt.destinations.databricks(),
    "Redshift": dlt.destinations.redshift(),
    "SQL Server": dlt.destinations.mssql(),
    "ClickHouse": dlt.destinations.clickhouse(),
}
RUN = {
    **dict.fromkeys(("DuckDB", "Parquet", "Delta", "Iceberg", "PostgreSQL"), "in the test suite"),
    "SQLite, MySQL": "in the test suite (SQLite)",
    "DuckLake": "by hand",
}
"""Where loads have been run. Of other destinations, only what dlt says of them is known."""
MODES: dict[WriteMode, str] = {"replace": "replace", "sync": "sync", "history": "history", MERGE: "mailings"}
HEAD = ("destination", "dlt's name", "modes", "tables change", "adds", "locks", "publishes", "tested")


def destinations_table() -> str:
    """Return the table of destinations, in Markdown."""
    with TemporaryDirectory() as folder:
        rows = [cells(Path(folder), name, destination) for name, destination in DESTINATIONS.items()]
    lines = (" | ".join(row) for row in (HEAD, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join((first, "|---" * len(HEAD) + "|", *others))


def cells(folder: Path, name: str, destination: AnyDestination_CO) -> tuple[str, ...]:
    """Return a destination's row."""
    pipeline = dlt.pipeline(
        "documented", destination=destination, dataset_name="letters", pipelines_dir=str(folder / name)
    )
    modes = ", ".join(word for mode, word in MODES.items() if supports(pipeline, mode))
    added = ", ".join(additions(pipeline)) or "none"
    tested = RUN.get(name, "no")
    return (
        name,
        f"`{engine(pipeline)}`",
        modes,
        change(pipeline),
        added,
        lock(pipeline),
        copy(pipeline, folder),
        tested,
    )


def supports(pipeline: dlt.Pipeline, mode: WriteMode) -> bool:
    """Return whether a load in a mode is accepted."""
    try:
        check_mode(pipeline, "contacts", mode)
    except SettingsError:
        return False
    return True


def change(pipeline: dlt.Pipeline) -> str:
    """Return how readers see the tables of a load change."""
    if type(pipeline.destination) in OURS:
        return "all at once"
    strategy = replace_strategy(pipeline)
    is_whole = is_files(pipeline) or for_loading(pipeline.destination, strategy).capabilities().supports_transactions
    return "one by one, each at once" if strategy == STAGED and is_whole else "one by one, each in steps"


def additions(pipeline: dlt.Pipeline) -> Iterator[str]:
    """Yield what a load adds to the tables."""
    if engine(pipeline) in FIND_COMMENTS or table_format(pipeline) in DESCRIBE:
        yield "comments"
    elif is_files(pipeline):
        yield "field metadata"
    if engine(pipeline) in KEYS_IN:
        yield "keys"
    if engine(pipeline) in VIEWS_IN:
        yield "views"


def lock(pipeline: dlt.Pipeline) -> str:
    """Return what a load locks against others."""
    if is_files(pipeline):
        return "folder, on one machine"
    if is_duckdb(pipeline):
        return "file"
    return "dataset" if engine(pipeline) in LOCKED else "none"


def copy(pipeline: dlt.Pipeline, folder: Path) -> str:
    """Return whether a copy can be published."""
    try:
        check_published(pipeline, folder / "readers.duckdb")
    except SettingsError:
        return "no"
    return "yes"
