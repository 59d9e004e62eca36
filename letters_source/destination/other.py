"""Any database that dlt can load into: what a load does where the kind of destination has no module of its own."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlt.common.destination import AnyDestination, TLoaderFileFormat
from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination.cleanup import remove_unfinished
from letters_source.destination.loading import STAGED, with_parameters
from letters_source.destination.place import Held, ObstacleSearch, Place, Written
from letters_source.destination.preflight import check_capable, check_configured, reachable
from letters_source.destination.verify import verify_load
from letters_source.errors import DestinationError
from letters_source.results import Audit

has_schema_metadata = False
obstacles: ObstacleSearch | None = None
FILE_FORMATS: dict[str, TLoaderFileFormat] = {
    # dlt cannot load a JSON column from Parquet, its default there
    "bigquery": "jsonl",
}
"""The file formats of loads, where dlt's default for Arrow tables cannot load our rows."""


def check(place: Place) -> None:
    """Check that a database is configured, capable and reachable."""
    check_capable(place)
    check_configured(place)
    with reachable(place):
        pass


@contextmanager
def lock(_place: Place, _wait: float) -> Iterator[Held]:
    """Lock nothing: dlt has no lock that all databases know."""
    yield Held()


def writes_changes(_place: Place) -> bool:
    """Return that all rows are staged: after a crash, a table could lack rows that another table shows as known."""
    return False


def clean_up(place: Place) -> None:
    """Leave all as it is: a database rolls unfinished transactions back."""


def restore(place: Place, tables: Collection[str]) -> None:
    """Leave dropped tables to dlt."""


def file_format(place: Place) -> TLoaderFileFormat | None:
    """Return the file format of load packages; None for dlt's default."""
    return FILE_FORMATS.get(place.name)


def load_settings() -> Mapping[str, bool | int]:
    """Have dlt empty its staging dataset after the load."""
    return {"truncate_staging_dataset": True}


def loading(place: Place, _held: Held) -> AnyDestination:
    """Load through staging tables, so that old rows stay until all new ones have arrived."""
    return with_parameters(place.pipeline.destination, STAGED)


@contextmanager
def open_sql(place: Place, dataset: str) -> Iterator[SqlClientBase[Any]]:
    """Open dlt's SQL client."""
    with place.pipeline.sql_client() as client, client.with_alternative_dataset_name(dataset or client.dataset_name):
        yield client


def find_audits(_client: Any) -> list[str]:
    """Return none: databases list their schemas in ways of their own."""
    return []


def verify(client: SqlClientBase[Any], written: Written) -> tuple[Audit, ...]:
    """Delete audits and rejected rows of unfinished loads, and verify this one."""
    remove_unfinished(client, written.tables)
    return verify_load(client, written)


def annotate(place: Place, client: Any, written: Written, audits: Sequence[Audit]) -> None:
    """Add nothing: databases comment on tables in ways of their own."""


def check_copy(_place: Place, _copy: Path) -> None:
    """Raise `DestinationError`: only a DuckDB file can be copied."""
    raise DestinationError.about("publish", "works only with DuckDB files: load into duckdb, or leave it out")


def publish(place: Place, copy: Path, _wait: float) -> None:
    """Raise `DestinationError`."""
    check_copy(place, copy)


def combine(places: Mapping[str, Place], schema: str, wait: float) -> None:
    """Create no views."""


def example_code(_place: Place, _contacts: str, _query: str) -> str:
    """Return nothing: a client and credentials take more than a line."""
    return ""
