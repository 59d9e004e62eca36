"""The source works in a dlt pipeline without `run`."""

import logging
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dlt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from dlt.extract.exceptions import ResourceExtractionError
from dlt.pipeline.exceptions import PipelineStepFailed
from holdings import LISTED, change, held_tables, query, read_tables, table_names
from worlds import Begin, World

from letters_source import IncompleteListing, SettingsError, letters, run
from letters_source.wording import causes
from programmable_emulator import Behavior, Emulator

CONTACT_RESOURCES = {"contacts", "contacts__contact_labels", "contacts__rejected_rows", "contacts__listing_audit"}
TEMPLATE_RESOURCES = {
    "templates",
    "templates__creator",
    "templates__product",
    "templates__rejected_rows",
    "templates__listing_audit",
}
FACET_RESOURCES = {
    "templates__shared",
    "contacts__address_statuses",
    "contacts__last_mailed_statuses",
    "contacts__return_addresses",
}
MAILINGS_RESOURCES = {"mailings", "mailings__listing_audit"}
HIDDEN = {"contacts_pages", "templates_pages", "mailings_windows"}


@pytest.fixture
def world(begin: Begin) -> World:
    """30 contacts and 7 templates, three pages of contacts."""
    world = begin(Emulator(30, 7))
    world.settings["page_size"] = 10
    return world


def test_the_source_names_its_resources(world: World) -> None:
    """Every table of a listing has a resource; those that read pages are hidden, and mailings are not selected."""
    source = letters(**world.settings)
    assert set(source.resources) == CONTACT_RESOURCES | TEMPLATE_RESOURCES | MAILINGS_RESOURCES | HIDDEN
    assert set(source.selected_resources) == CONTACT_RESOURCES | TEMPLATE_RESOURCES
    assert (source.name, source.section) == ("letters", "letters")
    assert world.emulator.hits == []


def test_facets_and_mailings_are_selected_where_they_are_set(world: World) -> None:
    """Settings select the resources of facets and mailings, and nothing is requested before a run."""
    source = letters(**world.settings, facets=True, mailings=True, mailings_since=date(2024, 1, 1))
    selected = CONTACT_RESOURCES | TEMPLATE_RESOURCES | FACET_RESOURCES | MAILINGS_RESOURCES
    assert set(source.resources) == selected | HIDDEN
    assert set(source.selected_resources) == selected
    assert world.emulator.hits == []


def test_a_plain_pipeline_loads_all_tables(world: World) -> None:
    """A plain pipeline reads the pages of a listing once for all its tables."""
    world.pipeline.run(letters(**world.settings))
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    assert [audit["requests"] for audit in tables["listing_audit"]] == [1, 6]
    assert len(world.emulator.hits) == 7


def test_settings_come_from_the_configuration(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source without arguments takes its settings from the environment."""
    world.configure(monkeypatch)
    world.pipeline.run(letters())
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)


def test_another_dataset_and_file_work_too(world: World, tmp_path: Path) -> None:
    """`run` loads through any pipeline of the user, into its file and dataset."""
    file = tmp_path / "mine.duckdb"
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.duckdb(str(file)), dataset_name="my_data")
    result = run(pipeline, **world.settings)
    assert {schema for schema, _ in table_names(file)} == {"my_data"}
    assert result.tables["contacts"] == 30
    assert query(file, "select count(*) from my_data.contacts") == [(30,)]
    assert query(file, "select count(*) from duckdb_tables() where comment is not null") == [(7,)]


@pytest.mark.parametrize(
    ("destination", "file", "loads"),
    [
        ("duckdb", "mine.duckdb", 2),
        (dlt.destinations.duckdb(), "mine.duckdb", 1),
        (dlt.destinations.duckdb(destination_name="warehouse"), "warehouse.duckdb", 1),
        (dlt.destinations.duckdb({"database": "dict.duckdb"}), "dict.duckdb", 1),
    ],
    ids=["name", "object", "named", "dict"],
)
def test_a_duckdb_destination_needs_no_file_s_name(
    world: World, tmp_path: Path, destination: Any, file: str, loads: int
) -> None:
    """A DuckDB destination without a file's name loads into the file that dlt chooses, the first time and later."""
    for _ in range(loads):
        pipeline = dlt.pipeline("mine", destination=destination, dataset_name="my_data")
        run(pipeline, only=("contacts",), **world.settings)
        assert query(tmp_path / file, "select count(*) from my_data.contacts") == [(30,)]


def test_a_duckdb_destination_may_be_configured_by_environment(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` keeps to the DuckDB file that dlt's configuration names."""
    monkeypatch.setenv("DESTINATION__DUCKDB__CREDENTIALS__DATABASE", "set.duckdb")
    run(dlt.pipeline("mine", destination="duckdb", dataset_name="my_data"), **world.settings)
    assert query(tmp_path / "set.duckdb", "select count(*) from my_data.contacts") == [(30,)]


@pytest.mark.parametrize("names", [("contacts",), ("contacts__contact_labels",), ("templates", "contacts")])
def test_a_selected_table_brings_its_listing_along(world: World, names: tuple[str, ...]) -> None:
    """A selected table loads its whole listing and no other; a selection of a selection does so too."""
    world.start_loaded()
    world.emulator.contacts.delete(0)
    source = letters(**world.settings).with_resources(*names)
    world.pipeline.run(source.with_resources("contacts") if "contacts" in names else source)
    assert world.is_exact()
    assert [audit["listing"] for audit in world.tables()["listing_audit"]].count("contacts") == 2
    assert {hit.path.rpartition("/")[2] for hit in world.emulator.hits} == {"contacts"}


def refusal(world: World, data: Any) -> str:
    """Return why a plain load is refused; nothing has changed then, and nothing was requested."""
    before, sent = world.tables(), len(world.emulator.hits)
    with pytest.raises(PipelineStepFailed) as caught:
        world.pipeline.run(data)
    assert (world.tables(), world.emulator.hits[sent:]) == (before, [])
    [error] = [cause for cause in causes(caught.value) if isinstance(cause, SettingsError)]
    return str(error)


def test_a_table_without_its_children_is_refused(world: World) -> None:
    """A table cannot be loaded without the others of its listing, which would keep rows of an earlier load."""
    world.start_loaded()
    why = "tables of a listing load together, or rows of two loads would be mixed. Use letters()"
    source = letters(**world.settings, facets=True).with_resources("contacts")
    source.resources["contacts__contact_labels"].selected = False
    source.resources["contacts__return_addresses"].selected = False
    assert refusal(world, source) == (
        f"contacts: not selected: contacts__contact_labels, contacts__return_addresses; {why}"
        ".with_resources('contacts'), or run(only=('contacts',))."
    )
    missing = "templates__creator, templates__product, templates__rejected_rows, templates__listing_audit"
    assert refusal(world, letters(**world.settings).resources["templates"]).startswith(
        f"templates: not selected: {missing}; {why}"
    )


def test_a_filter_for_rows_is_refused(world: World) -> None:
    """`add_filter` is refused, since it would drop whole Arrow tables; the message says what to write instead."""
    source = letters(**world.settings)
    with pytest.raises(SettingsError) as caught:
        source.resources["contacts"].add_filter(lambda row: row["state"] == "Texas")
    assert caught.value.key == "item_filter"
    assert str(caught.value) == (
        "contacts: add_filter would drop whole Arrow tables, not rows; filter rows with "
        "add_map(lambda table: table.filter(...)), or get rows one by one with "
        "add_yield_map(lambda table: iter(table.to_pylist()))."
    )


def texan(row: Any) -> Any:
    """A step written for rows: no comparison of an Arrow table with a text is true."""
    return row if row["state"] == "Texas" else None


def texans(row: Any) -> Any:
    """A generator that chooses rows like `texan`, for `add_yield_map`."""
    yield from (row,) if row["state"] == "Texas" else ()


def nothing(_: Any) -> Any:
    """A step that returns an empty list."""
    return []


def no_rows(_: Any) -> Any:
    """A generator that yields only empty items, for `add_yield_map`."""
    yield None
    yield []


@pytest.mark.parametrize(
    ("method", "step"),
    [("add_map", texan), ("add_map", nothing), ("add_yield_map", texans), ("add_yield_map", no_rows)],
)
def test_a_step_that_drops_tables_fails_the_load(world: World, method: str, step: Any) -> None:
    """A step that drops a whole Arrow table fails the load, and the message names the step."""
    world.start_loaded()
    before = world.tables()
    source = letters(**world.settings)
    getattr(source.resources["contacts"], method)(step)
    with pytest.raises(PipelineStepFailed) as caught:
        world.pipeline.run(source)
    [error] = [cause for cause in causes(caught.value) if isinstance(cause, SettingsError)]
    assert error.key == "item_map"
    assert str(error).startswith(f"contacts: a step of {method} dropped a whole Arrow table with rows; filter rows")
    assert world.tables() == before


@pytest.mark.parametrize("method", ["add_filter", "add_map", "add_yield_map"])
def test_what_reads_pages_takes_no_steps(world: World, method: str) -> None:
    """The hidden resource that reads pages accepts no steps, because it reads for several tables."""
    hidden = letters(**world.settings).resources["contacts_pages"]
    with pytest.raises(SettingsError, match=r"^contacts_pages accepts no steps, because it reads for several tables"):
        getattr(hidden, method)(texan)


def test_steps_come_after_those_that_make_tables(world: World) -> None:
    """A step cannot be inserted before those that make tables, where items are not tables yet."""
    contacts = letters(**world.settings).resources["contacts"]
    with pytest.raises(
        SettingsError, match=r"^contacts: add_map adds steps at the end only; leave insert_at out\.$"
    ) as caught:
        contacts.add_map(texan, insert_at=0)
    assert caught.value.key == "insert_at"


def test_a_step_for_rows_that_fails_is_explained(world: World) -> None:
    """A step that treats an Arrow table as a dict fails with a message that explains why."""
    source = letters(**world.settings)
    source.resources["contacts"].add_map(lambda row: {**row, "x": 1})
    assert refusal_of_step(world, source).startswith("contacts: a step of add_map failed on an Arrow table: ")


def refusal_of_step(world: World, source: Any) -> str:
    """Return our error where a step fails a plain load."""
    with pytest.raises(PipelineStepFailed) as caught:
        world.pipeline.run(source)
    return next(str(cause) for cause in causes(caught.value) if isinstance(cause, SettingsError))


def first_labels(table: pa.Table, _meta: Any) -> pa.Table:
    """A step that also takes dlt's meta."""
    return table.filter(pc.field("position") == 0)


def test_rows_can_be_chosen_in_arrow_tables(world: World) -> None:
    """`add_map` filters the rows of Arrow tables; a step may also take dlt's meta."""
    state = world.emulator.contacts.rows()[0].document["state"]
    source = letters(**world.settings)
    source.resources["contacts"].add_map(lambda table: table.filter(pc.field("state") == state))
    source.resources["contacts__contact_labels"].add_map(first_labels)
    world.pipeline.run(source)
    assert {row["state"] for row in world.tables()["contacts"]} == {state}
    assert {row["position"] for row in world.tables()["contacts__contact_labels"]} == {0}


def test_rows_can_be_taken_one_by_one(world: World) -> None:
    """`add_yield_map` returns rows as dicts, to which dlt adds its own ids."""
    source = letters(**world.settings)
    source.resources["contacts"].add_yield_map(lambda table: iter(table.to_pylist()))
    world.pipeline.run(source)
    change(world.place, "alter table letters_data.contacts drop column _dlt_id")
    assert world.is_exact()


@pytest.mark.parametrize("mode", ["sync", "history"])
def test_incremental_would_end_what_sync_and_history_keep(world: World, mode: str) -> None:
    """Incremental is refused with sync and history, where rows that are not new would count as gone."""
    world.start_loaded(**{mode: True})
    world.settings[mode] = True
    source = letters(**world.settings)
    source.resources["contacts"].apply_hints(incremental=dlt.sources.incremental("created_at"))
    assert refusal(world, source).startswith("contacts: incremental keeps only new rows")


@pytest.mark.parametrize("strategy", ["scd2", "upsert"])
def test_merge_strategies_of_dlts_own_are_refused(world: World, strategy: Any) -> None:
    """The merge strategies of dlt, which would fail late, are refused with a message that names ours."""
    world.start_loaded()
    source = letters(**world.settings)
    source.resources["contacts"].apply_hints(write_disposition={"disposition": "merge", "strategy": strategy})
    assert refusal(world, source) == (
        f'contacts: {strategy} is not supported; write_disposition must be "replace", "append" or "merge". To write '
        "only changed rows, set sync; to keep row history, set history."
    )


def test_tables_can_be_refreshed_after_a_first_load(world: World) -> None:
    """A plain pipeline refreshes the tables after a first load, which has made no staging dataset."""
    world.start_loaded()
    world.pipeline.run(letters(**world.settings), refresh="drop_sources")
    assert world.is_exact()


def test_an_incremental_table_that_is_replaced_is_refused(world: World) -> None:
    """Incremental is refused where a table is replaced, and accepted where it is merged."""
    world.start_loaded()
    source = letters(**world.settings)
    source.resources["contacts"].apply_hints(incremental=dlt.sources.incremental("created_at"))
    assert refusal(world, source) == (
        "contacts: incremental keeps only new rows, so replace, sync and history would delete or close all "
        'others; set write_disposition to "merge" or "append", or remove incremental.'
    )
    source.resources["contacts"].apply_hints(write_disposition="merge")
    for _ in range(2):
        world.pipeline.run(source)
        assert world.is_exact()


@pytest.fixture
def dlt_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """The warnings that dlt logs."""
    monkeypatch.setenv("RUNTIME__LOG_LEVEL", "WARNING")
    Container()[PluggableRunContext].reload()
    log = logging.getLogger("dlt")
    log.addHandler(caplog.handler)
    yield caplog
    log.removeHandler(caplog.handler)
    monkeypatch.undo()
    Container()[PluggableRunContext].reload()


def test_a_plain_load_makes_dlt_warn_of_nothing(world: World, dlt_log: pytest.LogCaptureFixture) -> None:
    """A plain load logs no warning of dlt about JSON columns, while other resources still do."""
    world.emulator.behavior = Behavior(extra_fields={"countryCode": "US"})
    world.pipeline.run(letters(**world.settings))
    assert [record.message for record in dlt_log.records if record.name == "dlt"] == []
    mine = dlt.resource([pa.table({"note": ["{}"]})], name="contacts", columns={"note": {"data_type": "json"}})
    dlt.pipeline("mine", destination=dlt.destinations.duckdb("mine.duckdb")).run(mine)
    assert any(message.startswith("In resource: contacts, when merging arrow schema") for message in dlt_log.messages)


def test_a_resource_can_be_given_another_table(world: World) -> None:
    """`apply_hints` renames the table of a resource, and its keys and types stay."""
    source = letters(**world.settings).with_resources("contacts")
    source.resources["contacts"].apply_hints(table_name="people")
    world.pipeline.run(source)
    tables = {name for schema, name in table_names(world.place) if schema == "letters_data" and name[0] != "_"}
    assert tables == {"people", "contacts__contact_labels", "rejected_rows", "listing_audit"}
    sql = "select count(distinct id), typeof(any_value(created_at)) from letters_data.people"
    assert query(world.place, sql) == [(30, "TIMESTAMP WITH TIME ZONE")]


def test_a_resource_with_another_table_can_keep_its_rows(world: World) -> None:
    """A second load with sync into a renamed table does not miss the table that the resource would have."""
    for _ in range(2):
        source = letters(**world.settings, sync=True)
        source.resources["contacts"].apply_hints(table_name="people")
        world.pipeline.run(source)
    assert query(world.place, "select count(*) from letters_data.people") == [(30,)]


@pytest.mark.parametrize("mode", ["sync", "history"])
def test_pipelines_that_load_other_sources_keep_rows(world: World, mode: str) -> None:
    """Pipelines with a first source of another schema, and without a working folder, load what changed."""
    settings: dict[str, Any] = {**world.settings, mode: True}
    destination = dlt.destinations.duckdb(str(world.place))
    for name in ("mine", "yours"):
        pipeline = dlt.pipeline(name, destination=destination, dataset_name="letters_data")
        pipeline.run(dlt.resource([{"number": 1}], name="numbers"))
        for _ in range(2):
            world.emulator.contacts.grow()
            pipeline.run(letters(**settings))
    assert query(world.place, "select count(*), count(distinct id) from letters_data.contacts") == [(34, 34)]


def test_limited_pages_are_refused(world: World) -> None:
    """`add_limit` on pages is refused before any request, so part of a listing never replaces the full table."""
    world.start_loaded()
    source = letters(**world.settings)
    source.resources["contacts_pages"].add_limit(1)
    assert refusal(world, source.with_resources("contacts")) == (
        "add_limit is not supported: it would load part of contacts as if it were complete; "
        "to experiment, load from the emulator: letters serve."
    )


def test_a_limit_on_what_is_loaded_never_leaves_a_part(world: World) -> None:
    """`add_limit` on a table is refused, or has no effect, as dlt says of transformers: the table stays full."""
    world.start_loaded()
    try:
        world.pipeline.run(letters(**world.settings).with_resources("contacts").add_limit(1))
    except PipelineStepFailed as failure:
        if not any(isinstance(cause, SettingsError) for cause in causes(failure)):
            raise
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]


def test_a_resource_can_be_read_without_a_pipeline(world: World) -> None:
    """A resource yields Arrow tables of the documented columns without a pipeline, and without a load id."""
    tables = list(letters(**world.settings).resources["contacts"])
    assert [table.num_rows for table in tables] == [30]
    assert [row["id"] for table in tables for row in table.to_pylist()] == world.emulator.contacts.ids()
    assert "_dlt_load_id" not in tables[0].schema.names


def test_an_incomplete_listing_raises_without_a_pipeline(world: World) -> None:
    """A resource yields no row of an incomplete listing."""
    world.emulator.behavior = Behavior(ignore_page=True)
    rows = iter(letters(**world.settings).resources["contacts"])
    with pytest.raises(ResourceExtractionError) as caught:
        next(rows)
    assert any(isinstance(cause, IncompleteListing) for cause in causes(caught.value))


def test_a_plain_pipeline_keeps_the_tables_when_a_listing_is_incomplete(world: World) -> None:
    """An incomplete listing changes no table of a plain pipeline, and leaves nothing pending."""
    world.start_loaded()
    before = world.tables()
    world.emulator.behavior = Behavior(ignore_page=True)
    with pytest.raises(PipelineStepFailed):
        world.pipeline.run(letters(**world.settings))
    assert world.tables() == before
    assert not world.pipeline.has_pending_data


@pytest.mark.parametrize("normalized", [False, True])
def test_run_reads_again_what_an_earlier_run_left_unfinished(world: World, *, normalized: bool) -> None:
    """`run` drops rows that were extracted or normalized but not loaded, and reads them again."""
    world.pipeline.extract(letters(**world.settings))
    if normalized:
        world.pipeline.normalize()
    assert world.pipeline.has_pending_data
    world.emulator.contacts.delete("1")
    result = world.load()
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    assert len(tables["listing_audit"]) == 2
    assert query(world.place, "select load_id from letters_data._dlt_loads") == [(result.load_id,)]
    assert not world.pipeline.has_pending_data


def test_a_lost_working_folder_changes_nothing(world: World) -> None:
    """A load after the loss of dlt's working folder gives the same tables."""
    world.start_loaded()
    world.load()
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    assert len(tables["listing_audit"]) == 4


def test_a_run_without_a_pipeline_loads_into_the_default_file(world: World) -> None:
    """`run` without a pipeline loads into `letters.duckdb` in the working directory."""
    result = run(only=("templates",), **world.settings)
    assert read_tables(Path("letters.duckdb"))["templates"] == held_tables(world.emulator)["templates"]
    assert result.tables["templates"] == 7


def test_the_pipeline_of_a_run_may_load_what_nests_elsewhere(world: World) -> None:
    """After `run`, the pipeline also loads nested resources of others, replaced, merged and appended."""
    pipeline = world.pipeline
    run(pipeline, only=("templates",), **world.settings)
    for size in (2, 1):
        orders = [{"id": order, "lines": [{"line": line} for line in range(size)]} for order in range(size)]
        resources = [
            dlt.resource(orders, name="replaced", write_disposition="replace"),
            dlt.resource(orders, name="merged", write_disposition="merge", primary_key="id"),
            dlt.resource(orders, name="added", write_disposition="append"),
        ]
        with dlt.config.values({"destination.replace_strategy": "insert-from-staging"}):
            pipeline.run(resources, dataset_name="orders")
    counts = {"replaced": 1, "replaced__lines": 1, "merged": 2, "merged__lines": 3, "added": 3, "added__lines": 5}
    for name, count in counts.items():
        assert query(world.place, f"select count(*) from orders.{name}") == [(count,)], name
