"""Fixtures of whole loads, imported by the conftest of each folder that loads."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from terminals import Letters, Outcome
from worlds import ACCESS, REFRESH, Begin, World, serve_world

from letters_source.cli.process import main
from letters_source.config.settings import Kind
from programmable_emulator import Emulator


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


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A folder that we may enter but not write; where tests run as root, they are an ordinary user meanwhile."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "closed").mkdir(mode=0)
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o755)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Makes a world of an emulator and a kind of destination; it ends with the test."""
    with ExitStack() as stack:

        def start(emulator: Emulator | None = None, kind: Kind = "duckdb") -> World:
            return stack.enter_context(serve_world(tmp_path, kind, emulator))

        yield start


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Letters]:
    """Runs the command in this process; its output must never contain a token of the world."""
    logger = logging.getLogger("letters_source")
    handlers, level = list(logger.handlers), logger.level
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    # uv sets it, and the query to try then starts with it
    monkeypatch.delenv("UV", raising=False)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["letters", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        for handler in set(logger.handlers) - set(handlers):
            logger.removeHandler(handler)
        assert not any(token in captured.out + captured.err for token in (ACCESS, REFRESH))
        assert isinstance(caught.value.code, int)
        return Outcome(caught.value.code, captured.out, captured.err)

    yield call
    logger.setLevel(level)


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """45 contacts and 7 templates, reached by settings in the environment; modules may have a world of their own."""
    world = begin(Emulator(45, 7))
    world.configure(monkeypatch)
    return world
