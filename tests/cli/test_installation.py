"""Does advice name commands that work where it is printed?"""

import shlex
import sys
from pathlib import Path

import pytest

from letters_source.config.installation import how_to_add_extra, how_to_install, installed_from, python_command

PYTHON = shlex.quote(sys.executable)


@pytest.fixture(autouse=True)
def _without_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may be run by uv, which says so in the environment."""
    monkeypatch.delenv("UV", raising=False)


def test_the_clone_that_the_package_comes_from_is_found() -> None:
    """`installed_from` finds the folder of the clone, which extras are installed from."""
    assert (Path(installed_from()) / "letters_source").is_dir()


def test_an_extra_is_installed_into_the_running_environment() -> None:
    """Advice installs an extra by the pip of the running environment, or by uv if it has no pip."""
    what = shlex.quote(f"{installed_from()}[report]")
    assert how_to_add_extra("report") in (
        f"{PYTHON} -m pip install {what}",
        f"uv pip install --python {PYTHON} {what}",
    )


def test_under_uv_an_extra_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `uv run`, advice names options of `uv run`, because the next `uv run` removes what pip installs."""
    monkeypatch.setenv("UV", "/usr/bin/uv")
    monkeypatch.chdir(installed_from())
    assert how_to_add_extra("report") == "uv run --extra report ..."
    assert how_to_install("dlt[mssql]") == "uv run --with 'dlt[mssql]' ..."
    assert python_command() == "uv run python"


def test_under_uv_the_clone_is_named_outside_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Outside of the clone, advice for `uv run` names the project, which uv would not find."""
    monkeypatch.setenv("UV", "/usr/bin/uv")
    monkeypatch.chdir(tmp_path)
    clone = shlex.quote(installed_from())
    assert how_to_add_extra("report") == f"uv run --project {clone} --extra report ..."
    assert python_command() == f"uv run --project {clone} python"


def test_python_is_named_by_its_path_unless_the_shell_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Advice says `python` only where PATH finds the Python that is running, and its full path elsewhere."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert python_command() == PYTHON
    (tmp_path / "python").touch(0o755)
    assert python_command() == PYTHON
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert python_command() == "python"
