"""The reference's table of destinations: what a load does in each, by dlt's capabilities and our code."""

from pathlib import Path
from tempfile import TemporaryDirectory

import dlt
from dlt.common.destination.reference import AnyDestination_CO

from letters_source.destination.dlt_hooks import DuckDB, Postgres
from letters_source.destination.kinds import place_of
from letters_source.destination.loading import STAGED
from letters_source.destination.modes import check_mode
from letters_source.destination.place import Held, Place
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
ADDED = {
    "duckdb": "comments, views",
    "parquet": "field metadata",
    "delta": "comments",
    "iceberg": "comments",
    "postgres": "comments, keys",
}
LOCKED = {
    "duckdb": "file",
    **dict.fromkeys(("parquet", "delta", "iceberg"), "folder, on one machine"),
    "postgres": "dataset",
}
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
    place = place_of(dlt.pipeline("documented", str(folder / name), destination=destination, dataset_name="letters"))
    modes = ", ".join(word for mode, word in MODES.items() if supports(place, mode))
    return (
        name,
        f"`{destination.destination_name}`",
        modes,
        change(place),
        ADDED.get(place.name, "none"),
        LOCKED.get(place.name, "none"),
        copy(place, folder),
        RUN.get(name, "no"),
    )


def supports(place: Place, mode: WriteMode) -> bool:
    """Return whether a load in a mode is accepted."""
    try:
        check_mode(place, "contacts", mode)
    except SettingsError:
        return False
    return True


def change(place: Place) -> str:
    """Return how readers see the tables of a load change."""
    loading = place.kind.loading(place, Held())
    if isinstance(loading, DuckDB | Postgres):
        return "all at once"
    is_staged = loading.config_params.get("replace_strategy", STAGED) == STAGED
    is_whole = place.name in LOCKED or loading.capabilities().supports_transactions
    return "one by one, each at once" if is_staged and is_whole else "one by one, each in steps"


def copy(place: Place, folder: Path) -> str:
    """Return whether a copy can be published."""
    try:
        place.kind.check_copy(place, folder / "readers.duckdb")
    except SettingsError:
        return "no"
    return "yes"
