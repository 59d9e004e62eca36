"""dlt's own settings cannot undo what a load guarantees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlt
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.resolve import inject_section, resolve_configuration
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.configuration.specs.config_section_context import ConfigSectionContext
from dlt.load.configuration import LoaderConfiguration
from holdings import DATASET, LISTED, Rows, change, query
from row_changes import amend
from worlds import Begin, World

from letters_source import DestinationError, LoadFailed, run
from letters_source.config.installation import how_to_install, installed_from
from letters_source.config.settings import Kind
from letters_source.destination.dlt_hooks import check_hook
from letters_source.destination.loading import enforced
from letters_source.destination.pipeline import make_pipeline
from programmable_emulator import Emulator

TRUNCATE = "truncate-and-insert"


def in_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the strategy of all destinations in the environment, and return a destination that names none."""
    monkeypatch.setenv("DESTINATION__REPLACE_STRATEGY", TRUNCATE)
    return dlt.destinations.duckdb(str(world.place))


def in_file(world: World, _: pytest.MonkeyPatch) -> Any:
    """Set the strategy of DuckDB in `config.toml`, and return a destination that names none."""
    (world.place.parent / ".dlt").mkdir()
    (world.place.parent / ".dlt/config.toml").write_text(f'[destination.duckdb]\nreplace_strategy = "{TRUNCATE}"\n')
    Container()[PluggableRunContext].reload_providers()
    return dlt.destinations.duckdb(str(world.place))


def in_code(world: World, _: pytest.MonkeyPatch) -> Any:
    """Return a destination with the strategy as its argument."""
    return dlt.destinations.duckdb(str(world.place), replace_strategy=TRUNCATE)


def listed(world: World) -> dict[str, Rows]:
    """Return the tables of listings, without the audit, which the next load appends to."""
    tables = world.tables()
    return {name: tables[name] for name in LISTED}


@pytest.mark.parametrize("configure", [in_environment, in_file, in_code])
def test_no_strategy_of_dlt_lets_tables_be_mixed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, configure: Callable[[World, pytest.MonkeyPatch], Any]
) -> None:
    """A load that fails in one table leaves all of them as they were."""
    world = begin(Emulator(3, 7))
    world.start_loaded()
    change(world.place, f"delete from {DATASET}.contacts__contact_labels where position > 0")
    before = listed(world)
    change(world.place, f"create unique index one_label on {DATASET}.contacts__contact_labels (contact_id)")
    labels = [{"id": "1", "title": "one"}, {"id": "2", "title": "two"}]
    amend(world.emulator.contacts, "1", city="Elsewhere", ContactLabels=labels)
    pipeline = dlt.pipeline("own", destination=configure(world, monkeypatch), dataset_name=DATASET)
    with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
        run(pipeline, **world.settings)
    assert listed(world) == before


@pytest.mark.parametrize(
    ("kind", "strategy", "loads"),
    [("parquet", TRUNCATE, 2), ("delta", "insert-from-staging", 1), ("iceberg", TRUNCATE, 1)],
)
def test_files_are_loaded_whatever_the_strategy(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, kind: Kind, strategy: str, loads: int
) -> None:
    """dlt itself would stop the load if the strategy is one of other destinations."""
    monkeypatch.setenv("DESTINATION__REPLACE_STRATEGY", strategy)
    world = begin(Emulator(9, 3), kind)
    for _ in range(loads):
        assert world.load(only=("contacts",)).tables["contacts"] == 9


@pytest.mark.usefixtures("project")
def test_nested_tables_of_others_are_replaced_from_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy with staging replaces tables of other sources, also those that no longer have rows."""
    monkeypatch.setenv("DESTINATION__REPLACE_STRATEGY", "insert-from-staging")
    pipeline = make_pipeline("duckdb", "mine.duckdb")
    for lines in ([{"line": 1}, {"line": 2}], [{"line": 3}], []):
        pipeline.run([{"id": 1, "lines": lines}], table_name="orders", write_disposition="replace")
        assert query(Path("mine.duckdb"), f"SELECT count(*) FROM {DATASET}.orders__lines") == [(len(lines),)]


@pytest.mark.usefixtures("project")
def test_what_a_load_needs_outranks_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings in the environment, also those under the pipeline's name, count again only after the load."""
    monkeypatch.setenv("LOAD__WORKERS", "7")
    monkeypatch.setenv("OWN__LOAD__RAISE_ON_MAX_RETRIES", "9")

    def found() -> tuple[int, int]:
        with inject_section(ConfigSectionContext(pipeline_name="own", sections=("load",))):
            config = resolve_configuration(LoaderConfiguration(), sections=("load",), accept_partial=True)
        return config.workers, config.raise_on_max_retries

    with enforced({"load": {"workers": 1, "raise_on_max_retries": 1}}, "own"):
        dlt.config["mine"] = 5
        assert found() == (1, 1)
    assert found() == (7, 9)
    assert dlt.config["mine"] == 5


def test_a_method_that_dlt_renamed_is_an_error() -> None:
    """A missing method is an error, because dlt would never call our override."""
    renamed = type("SqlJobClient", (), {})
    with pytest.raises(DestinationError) as caught:
        check_hook(renamed, "create_table_chain_completed_followup_jobs")
    assert str(caught.value) == (
        f"dlt {dlt.__version__} has no SqlJobClient.create_table_chain_completed_followup_jobs, so loads would not "
        "change all tables in one transaction; install the dlt that letters-source requires: "
        f"{how_to_install(installed_from())}"
    )
