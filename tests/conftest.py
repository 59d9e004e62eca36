"""What do all tests run with?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext


@pytest.fixture(autouse=True)
def quiet_dlt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told about the tests' runs."""
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project folder to work in, where dlt finds no settings but a test's own."""
    for name in ("HOME", "DLT_DATA_DIR", "DLT_PROJECT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("DLT_PROJECT_DIR")
    (tmp_path / ".dlt").mkdir()
    monkeypatch.chdir(tmp_path)
    Container()[PluggableRunContext].reload_providers()
    yield tmp_path
    monkeypatch.undo()
    Container()[PluggableRunContext].reload_providers()
