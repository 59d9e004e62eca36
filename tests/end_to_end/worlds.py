"""A served emulator and a pipeline, which is what a load needs."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dlt
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from holdings import DATASET, LISTED, Rows, change, held_tables, in_order, parsed, read_tables

from letters_source import Result, letters, make_pipeline, run
from letters_source.config.settings import Kind
from letters_source.destination.kinds import place_of
from letters_source.destination.pipeline import DEFAULT_PLACES
from letters_source.destination.place import Written
from letters_source.destination.verify import verify_load
from letters_source.tables import TABLES, Table
from programmable_emulator import Emulator

ACCESS, REFRESH = "canary-access-81c2", "canary-refresh-5d07"
BY_COLUMNS = {tuple(table.schema.names): table.name for table in TABLES}


@dataclass(frozen=True)
class World:
    """A served emulator, the settings that reach it, a pipeline, and the place that it loads into."""

    emulator: Emulator
    pipeline: dlt.Pipeline
    place: Path
    settings: dict[str, Any]

    def load(self, **changes: Any) -> Result:
        """Load with the emulator's settings, some of them changed."""
        return run(self.pipeline, **{**self.settings, **changes})

    def start_loaded(self, **changes: Any) -> None:
        """Put the files of a first load in place, but for Iceberg; a copy takes a tenth of the time of a load.

        The emulator still has the rows that it was made with. dlt's working folder is empty, as in a new container.
        """
        [kind] = [kind for kind, name in DEFAULT_PLACES.items() if name == self.place.name]
        contacts, templates = len(self.emulator.contacts.ids()), len(self.emulator.templates.ids())
        for path, content in first_load(kind, contacts, templates, **changes).items():
            file = self.place.parent / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if kind == "duckdb":
            change(self.place, f"update {DATASET}.listing_audit set service = '{self.settings['base_url']}'")
        else:
            self.settings["allow_other_service"] = True

    def variables(self, **changes: Any) -> dict[str, str]:
        """The settings, some of them changed, as variables of the environment."""
        settings = {**self.settings, **changes}
        return {f"SOURCES__LETTERS__{name.upper()}": str(value) for name, value in settings.items()}

    def configure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the settings into the environment."""
        for name, value in self.variables().items():
            monkeypatch.setenv(name, value)

    def tables(self) -> dict[str, Rows]:
        """Return the tables of the place."""
        return read_tables(self.place)

    def read(self, *listings: str, **changes: Any) -> dict[str, Rows]:
        """Return the tables of listings as a source yields them, in an eighth of the time of a load.

        This is for tests of what is read; others show that it is loaded as it is yielded.
        """
        rows: dict[str, Rows] = defaultdict(list)
        for table in letters(**{**self.settings, **changes}).with_resources(*listings):
            rows[BY_COLUMNS[tuple(table.column_names)]] += table.to_pylist()
        return {name: in_order(name, map(parsed, found)) for name, found in rows.items()}

    def is_exact(self, tables: Mapping[str, Rows] | None = None) -> bool:
        """Return whether these tables, or else those of the place, hold what the emulator holds."""
        tables = tables or self.tables()
        return {name: tables[name] for name in LISTED} == held_tables(self.emulator)


Begin = Callable[..., World]
"""Makes a world of an emulator and a kind of destination."""


@contextmanager
def isolated(folder: Path) -> Iterator[Path]:
    """Work in a folder where dlt finds no settings, and keeps its own files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLT_DATA_DIR", str(folder / "dlt"))
        patch.setenv("HOME", str(folder))
        patch.setenv("RUNTIME__LOG_LEVEL", "ERROR")
        # a world may outlive the test that sets this
        patch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
        patch.chdir(folder)
        Container()[PluggableRunContext].reload_providers()
        yield folder
    Container()[PluggableRunContext].reload_providers()


@contextmanager
def serve_world(folder: Path, kind: Kind = "duckdb", emulator: Emulator | None = None) -> Iterator[World]:
    """A world whose files lie in the folder."""
    emulator = emulator or Emulator()
    emulator.access_token, emulator.refresh_token = ACCESS, REFRESH
    with isolated(folder), emulator.serve() as base_url:
        place = folder / DEFAULT_PLACES[kind]
        # several pages of few rows; by default a load would request one page
        settings = {"base_url": base_url, "access_token": ACCESS, "refresh_token": REFRESH, "page_size": 100}
        yield World(emulator, make_pipeline(kind, place), place, settings)


@cache
def first_load(kind: Kind, contacts: int, templates: int, **changes: Any) -> dict[Path, bytes]:
    """The files after a first load of that many contacts and templates, which each process makes once."""
    emulator = Emulator(contacts, templates)
    with TemporaryDirectory() as folder, serve_world(Path(folder), kind, emulator) as world:
        world.load(**changes)
        files = [world.place] if world.place.is_file() else filter(Path.is_file, world.place.rglob("*"))
        return {file.relative_to(folder): file.read_bytes() for file in files}


def verify(pipeline: dlt.Pipeline, load_id: str, tables: Sequence[Table]) -> tuple[Mapping[str, Any], ...]:
    """The audits of a load that is verified once more."""
    trace = pipeline.last_trace
    assert trace
    assert trace.last_normalize_info
    place = place_of(pipeline)
    is_partial = "row_hash" in pipeline.default_schema.get_table_columns("contacts")
    written = Written(load_id, tables, None if is_partial else trace.last_normalize_info.row_counts)
    with place.kind.open_sql(place, "") as client:
        return verify_load(client, written, keys=place.name in ("parquet", "delta", "iceberg"))
