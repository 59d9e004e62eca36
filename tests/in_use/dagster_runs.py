"""Materializes the definitions that users copy, in this process."""

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from worlds import World

FILE = Path(__file__).parents[2] / "pipelines/dagster_defs.py"
OWN, OF_ACCOUNTS = "letters_tables", "account_tables"


def load_definitions() -> dg.Definitions:
    """The file's definitions."""
    defs: dg.Definitions = runpy.run_path(str(FILE))["defs"]
    return defs


def materialize(
    defs: dg.Definitions, assets: str, *tables: str, after: Any = (), **options: Any
) -> dg.ExecuteInProcessResult:
    """Materialize assets and run their checks; only those of the named tables, if any, and with what is downstream."""
    keys = [key for key in keys_of(defs, assets) if not tables or key.path[-1] in tables]
    return execute(defs, assets, dg.AssetSelection.assets(*keys), after, options)


def check(defs: dg.Definitions, assets: str, after: Any = (), **options: Any) -> dg.ExecuteInProcessResult:
    """Run the checks of assets, and materialize only what is downstream."""
    return execute(defs, assets, dg.AssetSelection.checks_for_assets(*keys_of(defs, assets)), after, options)


def execute(
    defs: dg.Definitions, assets: str, selection: dg.AssetSelection, after: Any, options: dict[str, Any]
) -> dg.ExecuteInProcessResult:
    """Run what is selected, and what is downstream."""
    chosen = [*(named(defs.assets, assets)), *(named(defs.asset_checks, f"{assets}_checks")), *after]
    selection |= dg.AssetSelection.assets(*(each.key for each in after))
    return dg.materialize(chosen, resources=defs.resources, selection=selection, raise_on_error=False, **options)


def keys_of(defs: dg.Definitions, assets: str) -> list[dg.AssetKey]:
    """The keys of some assets."""
    return [key for each in named(defs.assets, assets) for key in each.keys]


def named(definitions: Any, name: str) -> list[dg.AssetsDefinition]:
    """The definitions whose computation has a name."""
    return [each for each in definitions or () if isinstance(each, dg.AssetsDefinition) and each.op.name == name]


def reach(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world, reached by settings in the environment."""
    world.configure(monkeypatch)
    return world


def requested(defs: dg.Definitions, schedule: str, accounts: Sequence[str]) -> dict[str | None, str | None]:
    """The runs that a schedule requests of a Dagster that knows these accounts: by key, the partition."""
    # unlike others, schedules refuse a Dagster that is only in memory
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("letters_accounts", accounts)
        # a context that is not closed would make this instance the current one again when it is collected as garbage
        with dg.build_schedule_context(instance=instance, repository_def=defs.get_repository_def()) as context:
            tick = defs.resolve_schedule_def(schedule).evaluate_tick(context)
    return {request.run_key: request.partition_key for request in tick.run_requests or ()}


def materialized(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """The metadata of every table that a run materialized, whether it was selected or came with one that was."""
    events = [event for event in result.all_events if event.is_step_materialization]
    found = [event.step_materialization_data.materialization for event in events]
    return {each.asset_key.path[-1]: {name: value.value for name, value in each.metadata.items()} for each in found}


def checked(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], str | None]:
    """Of every check that did not pass: by table and check, what it says."""
    failed = [each for each in result.get_asset_check_evaluations() if not each.passed]
    return {(each.asset_key.path[-1], each.check_name): each.description for each in failed}


def numbers(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], dict[str, Any]]:
    """What every check counted, by table and check."""
    return {
        (each.asset_key.path[-1], each.check_name): {name: value.value for name, value in each.metadata.items()}
        for each in result.get_asset_check_evaluations()
    }


def failures(result: dg.ExecuteInProcessResult) -> list[str]:
    """What Dagster shows as the reasons of a failed run."""
    found = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
    return [str(each.description) for each in found if each]


def retries(result: dg.ExecuteInProcessResult) -> int:
    """How often a step was tried again."""
    return sum(event.is_step_up_for_retry for event in result.all_events)
