"""A listing is read in parts by dynamic outputs of Dagster, and loaded by one op."""

import runpy
from pathlib import Path

import dagster as dg
import pytest
from dagster_runs import reach
from holdings import query
from worlds import Begin

from programmable_emulator import Behavior, Emulator

FILE = Path(__file__).parents[2] / "pipelines" / "dagster_parts.py"


def test_parts_are_read_by_ops_of_their_own_and_loaded_in_one(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The load holds what the service holds, and is reported as a materialization of contacts."""
    world = begin(Emulator(300, 3, behavior=Behavior(max_page_size=50)))
    reach(world, monkeypatch)
    monkeypatch.setenv("LETTERS_PARTS", str(tmp_path / "parts"))
    monkeypatch.setenv("LETTERS_FILE", str(world.place))
    job = runpy.run_path(str(FILE))["defs"].resolve_job_def("letters_parts")
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, run_config={"ops": {"plan": {"config": {"number": 3}}}})
        event = instance.get_latest_materialization_event(dg.AssetKey("contacts"))
    assert result.output_for_node("read") == {"0": 135, "1": 140, "2": 100}
    assert event
    assert event.asset_materialization
    assert event.asset_materialization.metadata == {
        "rows": dg.MetadataValue.int(300),
        "parts": dg.MetadataValue.int(3),
    }
    held = {row.id for row in world.emulator.contacts.rows()}
    assert {row[0] for row in query(world.place, "select id from letters_data.contacts")} == held
