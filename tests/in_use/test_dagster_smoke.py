"""The extra `dagster` is sufficient. Quick, for a fresh environment with `dagster,dev`."""

import dagster as dg
import pytest
from dagster_runs import OWN, checked, load_definitions, materialize, materialized, reach
from worlds import Begin

from programmable_emulator import Emulator


def test_templates_are_loaded_and_checked(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The definitions are valid, and one of their tables can be loaded and checked."""
    reach(begin(Emulator(0, 3)), monkeypatch)
    defs = load_definitions()
    dg.Definitions.validate_loadable(defs)
    result = materialize(defs, OWN, "templates")
    assert materialized(result)["templates"]["dagster/row_count"] == 3
    assert checked(result) == {}
