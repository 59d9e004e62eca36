"""Dagster loads complete tables, reports what they hold, and fails if they are incomplete."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from dagster_runs import (
    OWN,
    checked,
    failures,
    load_definitions,
    materialize,
    materialized,
    reach,
    retries,
)
from holdings import LISTED, change, held_tables, query
from worlds import ACCESS, Begin, World, serve_world

from letters_source.config.messages import where_to_set
from letters_source.dagster import LettersResource, asset_specs
from letters_source.tables import TABLES
from programmable_emulator import Behavior, Drift, Emulator

ALWAYS = {*LISTED, "rejected_rows", "listing_audit"}
FACETS = {table.name for table in TABLES if table.origin == "facet"}
METADATA = """
    select any_value(verdict), sum(requests), round(sum(seconds), 3), _dlt_load_id from letters_data.listing_audit
    where listing = 'contacts' group by _dlt_load_id order by _dlt_load_id desc limit 1
"""


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """145 contacts and 7 templates."""
    return reach(begin(Emulator(145, 7)), monkeypatch)


def make_incomplete(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contacts come and go while they are read, and are read once only."""
    world.emulator.behavior = Behavior(drift=[Drift("delete"), Drift("insert", "end")])
    monkeypatch.setenv("SOURCES__LETTERS__MAX_WALKS", "1")
    monkeypatch.setenv("SOURCES__LETTERS__PAGE_SIZE", "10")


@dg.asset(deps=[dg.AssetKey(["letters_data", "contacts"])])
def mailing_list() -> None:
    """An asset that is made of contacts."""


@dg.multi_asset(
    specs=asset_specs(facets=True, mailings=True), can_subset=True, retry_policy=dg.RetryPolicy(max_retries=2)
)
def letters_tables(context: dg.AssetExecutionContext, letters: LettersResource) -> Any:
    """All tables, with a destination that does not wait for locks."""
    yield from letters.materialize(context)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, dg.ExecuteInProcessResult]]:
    """The world with all its tables loaded, and what is downstream of them, once for all tests that only read."""
    with (
        serve_world(tmp_path_factory.mktemp("whole"), emulator=Emulator(145, 7)) as world,
        pytest.MonkeyPatch.context() as patch,
    ):
        reach(world, patch)
        yield world, materialize(load_definitions(), OWN, after=[mailing_list])


def everything(**resource: Any) -> dg.Definitions:
    """Definitions of all tables."""
    return dg.Definitions(assets=[letters_tables], resources={"letters": LettersResource(**resource)})


def test_tables_hold_what_the_service_holds(whole: tuple[World, dg.ExecuteInProcessResult]) -> None:
    """Every table is materialized with the service's rows, and every check passes."""
    world, result = whole
    assert result.success
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    found = materialized(result)
    assert {name: facts["dagster/row_count"] for name, facts in found.items() if name in tables} == {
        name: len(rows) for name, rows in tables.items()
    }
    assert len(result.get_asset_check_evaluations()) == 12
    assert checked(result) == {}


def test_metadata_is_the_audit_s(whole: tuple[World, dg.ExecuteInProcessResult]) -> None:
    """The metadata of a table is that of its audit and its place; a table of both listings has both verdicts."""
    world, result = whole
    found = materialized(result)
    verdict, requests, seconds, load_id = query(world.place, METADATA)[0]
    place = {"dataset": "letters_data", "destination": "duckdb", "place": str(world.place)}
    facts = {"verdict": verdict, "requests": requests, "seconds": seconds, "load_id": load_id, **place}
    name = {"dagster/table_name": "letters_data.contacts"}
    assert found["contacts"] == {"dagster/row_count": 145, **name, **facts}
    assert found["contacts__contact_labels"].items() >= facts.items()
    assert found["rejected_rows"]["verdict"] == "exact, stable"
    assert found["rejected_rows"]["requests"] == requests + found["templates"]["requests"]


def test_a_table_brings_its_listing(world: World) -> None:
    """Selecting a child table loads, checks and reports its listing's tables, and requests no other listing."""
    result = materialize(load_definitions(), OWN, "contacts__contact_labels")
    assert result.success
    assert set(materialized(result)) == ALWAYS - {"templates", "templates__creator", "templates__product"}
    assert {hit.path for hit in world.emulator.hits} == {"/api/v1/contacts"}
    assert {each.check_name for each in result.get_asset_check_evaluations()} == {"unique_keys", "no_orphans"}


def test_a_table_of_both_listings_brings_both(world: World) -> None:
    """Selecting a table that both listings fill loads both."""
    result = materialize(load_definitions(), OWN, "listing_audit")
    assert set(materialized(result)) == ALWAYS


def test_facets_and_mailings_are_loaded_where_they_are_assets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facets and mailings are loaded where the definitions have them, and mailings alone where they are selected."""
    monkeypatch.setenv("SOURCES__LETTERS__MAILINGS_SINCE", "2026-11-20")
    # a window a day would be more requests each day that passes
    monkeypatch.setenv("SOURCES__LETTERS__MAILINGS_WINDOW", "365")
    result = materialize(everything(), OWN)
    assert set(materialized(result)) == ALWAYS | FACETS | {"mailings"}
    only = materialize(everything(), OWN, "mailings")
    assert set(materialized(only)) == {"mailings", "listing_audit"}


def test_parquet_is_loaded_and_checked(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource with settings of its own loads into Parquet, passes the checks, and hides its token."""
    world = begin(Emulator(12, 3), kind="parquet")
    defs = load_definitions()
    letters = LettersResource(**world.settings, destination="parquet", to=str(world.place))
    own = dg.Definitions(defs.assets, asset_checks=defs.asset_checks, resources={"letters": letters})
    result = materialize(own, OWN)
    assert result.success
    assert checked(result) == {}
    assert materialized(result)["contacts"].items() >= {"destination": "parquet", "place": str(world.place)}.items()
    assert {name: world.tables()[name] for name in LISTED} == held_tables(world.emulator)
    assert ACCESS not in repr(letters)


def test_an_incomplete_listing_fails_the_run_for_its_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete listing fails the run with one line and without a retry; nothing changes or runs downstream."""
    world.start_loaded()
    before = world.tables()
    make_incomplete(world, monkeypatch)
    result = materialize(load_definitions(), OWN, after=[mailing_list])
    assert not result.success
    [reason] = failures(result)
    assert reason.startswith("contacts: ")
    assert reason.endswith(
        "nothing was loaded. Run again when the listing is quieter, or raise sources.letters.max_walks."
    )
    assert "\n" not in reason
    assert (materialized(result), result.get_asset_check_evaluations(), retries(result)) == ({}, [], 0)
    assert world.tables() == before


def test_downstream_assets_run_once_the_tables_are_complete(whole: tuple[World, dg.ExecuteInProcessResult]) -> None:
    """An asset that is made of a table runs after the load and its checks."""
    _, result = whole
    assert result.success
    assert "mailing_list" in materialized(result)
    order = [event.step_key for event in result.all_events if event.is_step_success]
    assert order == ["letters_tables", "letters_tables_checks", "mailing_list"]


def test_an_unreachable_service_is_retried(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a service that cannot be reached is retried, as often as the policy says."""
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "0.1")
    world.emulator.behavior = Behavior(fault_every=1)
    result = materialize(everything(), OWN, "templates")
    assert not result.success
    assert retries(result) == 2
    assert "templates page 0 (" in failures(result)[0]
    world.emulator.behavior = Behavior()
    world.emulator.access_token = "another"
    assert retries(materialize(everything(), OWN, "templates")) == 0


def test_a_variable_that_is_not_set_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is not set is named before anything runs."""
    monkeypatch.delenv("SOURCES__LETTERS__ACCESS_TOKEN")
    with pytest.raises(dg.DagsterInvalidConfigError, match="SOURCES__LETTERS__ACCESS_TOKEN"):
        materialize(load_definitions(), OWN)


def test_a_resource_without_settings_takes_dlt_s(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource without settings takes dlt's, and what is set nowhere is named with where to set it."""
    assert materialize(everything(), OWN, "templates").success
    monkeypatch.delenv("SOURCES__LETTERS__BASE_URL")
    [reason] = failures(materialize(everything(), OWN, "templates"))
    assert reason.startswith(f"sources.letters.base_url is not set; {where_to_set('base_url')}. Searched ")


def test_an_impossible_place_is_a_failure_of_one_line(world: World) -> None:
    """A place that cannot be written fails the run before the first request to the service."""
    [reason] = failures(materialize(everything(to="nowhere/letters.duckdb"), OWN, "templates"))
    assert "nowhere does not exist or is not accessible" in reason
    assert world.emulator.hits == []


def test_a_file_that_others_changed_is_loaded_again(world: World) -> None:
    """A load replaces tables that another program has changed."""
    world.start_loaded()
    change(world.place, "insert into letters_data.contacts select * from letters_data.contacts")
    assert materialize(load_definitions(), OWN).success
    assert len(world.tables()["contacts"]) == 145
