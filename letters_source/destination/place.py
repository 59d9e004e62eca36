"""Where a load goes: a value made once and handed down, and what a load asks of each kind of destination."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

import dlt
from dlt.common.destination import AnyDestination, TLoaderFileFormat

from letters_source.results import Audit
from letters_source.tables import Table


class ShownPlace(TypedDict):
    """Where a load goes, for people and programs: `place` is null where it is not configured."""

    destination: str
    place: str | None
    dataset: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a load goes. Functions that call dlt reach it through `pipeline`; nothing else asks what it is."""

    name: str
    """The `--destination` name: duckdb, parquet, delta, iceberg, postgres, or dlt's; empty without a destination."""
    kind: "DestinationKind"
    """What a load asks of this kind of destination."""
    address: str | None
    """A path, a URL, or a server without its password; None where it is not configured."""
    path: Path | None
    """The DuckDB file, or the local folder; None for servers, buckets and databases in memory."""
    dataset: str
    described: str
    """The destination in messages: its name in dlt, or the format of files."""
    pipeline: dlt.Pipeline = field(repr=False, compare=False)

    @property
    def working_dir(self) -> Path:
        """dlt's working directory, which loads into this place share with no other."""
        return Path(self.pipeline.working_dir)

    @property
    def lock_file(self) -> Path:
        """The file that a load into this place locks."""
        return self.working_dir.with_name(f"{self.working_dir.name}.lock")

    @property
    def shown(self) -> ShownPlace:
        """The place for messages, the ledger and results."""
        return {"destination": self.name, "place": self.address, "dataset": self.dataset}


@dataclass(frozen=True, slots=True)
class Held:
    """What a load knows once it has locked its place."""

    is_new: bool = False
    """Whether no rows can be there yet."""
    lock_check: str = ""
    """SQL that fails if the lock was lost."""
    only_changes: bool = False
    """Whether staging receives only rows that changed, and markers of those that are gone."""


@dataclass(frozen=True, slots=True)
class Written:
    """A load whose rows are written."""

    load_id: str
    tables: Sequence[Table]
    extracted: Mapping[str, int] | None
    """The number of rows extracted for each table; None if only changes were."""


@dataclass(frozen=True, slots=True)
class ObstacleSearch:
    """How to find what may stop loads in a kind of database, and what to do about it."""

    query: str
    """SQL with two parameters, the dataset and its staging; each row: kind, name, schema, table."""
    advice: str


class DestinationKind(Protocol):
    """What a load asks of a kind of destination, in the order of a load. Modules implement it: `other` has defaults."""

    has_schema_metadata: bool
    """Whether descriptions go into the Arrow schema of each file."""
    obstacles: ObstacleSearch | None
    """How to find keys, triggers and the like on tables; None where they cannot be found, or cannot exist."""

    def check(self, place: Place, /) -> None:
        """Raise `DestinationError`, `DestinationInUse` or `DestinationUnreachable` unless a load can use the place."""

    def lock(self, place: Place, wait: float, /) -> AbstractContextManager[Held]:
        """Keep other loads out while the block runs, or raise `DestinationInUse` after `wait` seconds."""

    def writes_changes(self, place: Place, /) -> bool:
        """Return whether a load can write only the rows that changed: all tables must change at once."""

    def clean_up(self, place: Place, /) -> None:
        """Remove what killed loads left, before this one reads anything."""

    def restore(self, place: Place, tables: Collection[str], /) -> None:
        """Have dlt recreate tables and columns that were dropped."""

    def file_format(self, place: Place, /) -> TLoaderFileFormat | None:
        """Return the file format of load packages; None for dlt's default."""

    def load_settings(self) -> Mapping[str, bool | int]:
        """Return dlt's settings of the section `load`, besides those of all loads."""

    def loading(self, place: Place, held: Held, /) -> AnyDestination:
        """Return the dlt destination to load with."""

    def open_sql(self, place: Place, dataset: str, /) -> AbstractContextManager[Any]:
        """Open a SQL client on a dataset."""

    def find_audits(self, client: Any, /) -> list[str]:
        """Return the datasets of the same database that have audits; none where they cannot be listed."""

    def verify(self, client: Any, written: Written, /) -> tuple[Audit, ...]:
        """Remove what unfinished loads left, and return the load's audits, or raise `LoadFailed`."""

    def annotate(self, place: Place, client: Any, written: Written, audits: Sequence[Audit], /) -> None:
        """Add descriptions, keys and views."""

    def check_copy(self, place: Place, copy: Path, /) -> None:
        """Raise `DestinationError` unless a copy for readers can be published to a file."""

    def publish(self, place: Place, copy: Path, wait: float, /) -> None:
        """Replace the copy for readers, or raise `LoadFailed`."""

    def combine(self, places: Mapping[str, Place], schema: str, wait: float, /) -> None:
        """Create views over the tables of all accounts."""

    def example_code(self, place: Place, contacts: str, query: str, /) -> str:
        """Return a line of Python that queries the loaded contacts; empty if one line is not enough."""
