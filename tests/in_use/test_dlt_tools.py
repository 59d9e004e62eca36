"""dlt's own tools know what we load."""

import os
import re
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from holdings import held_tables, read_tables
from notebooks import serve_marimo
from playwright.sync_api import Browser, expect
from terminals import run_process, run_python
from worlds import ACCESS, REFRESH, World

ROOT = Path(__file__).parents[2]
DLT = str(Path(sys.executable).with_name("dlt"))


def recipe(start: str) -> str:
    """The line of the recipes that starts so."""
    [line] = re.findall(rf"^{start}.*$", (ROOT / "pipelines/README.md").read_text(), re.MULTILINE)
    return str(line).partition(" #")[0]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("tool", "shown"), [("info", "dataset_name: letters_data"), ("trace", "contacts: 30 row")])
def test_the_pipeline_is_known_by_its_name(tool: str, shown: str) -> None:
    """`dlt pipeline letters` knows the pipeline in the folder that it was loaded from, and shows no token."""
    folder, command = recipe("FOLDER="), recipe(f"dlt pipeline .* letters {tool}")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    outcome = run_process("/bin/sh", "-c", f"{folder}\n{command}", env=environment)
    assert outcome.code == 0, outcome.err
    assert shown in outcome.out
    assert not any(token in outcome.out for token in (ACCESS, REFRESH))


# calls of DuckDB to pandas and of dlt to DuckDB, of which the newer ones disapprove
@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.drop:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_the_dataset_is_read_in_python(loaded: World) -> None:
    """`pipeline.dataset()` returns the loaded contacts as pandas and as Arrow."""
    contacts: Any = loaded.pipeline.dataset().contacts
    assert set(contacts.df()["id"]) == set(contacts.arrow()["id"].to_pylist()) == set(loaded.emulator.contacts.ids())


@pytest.mark.usefixtures("loaded")
def test_the_dashboard_shows_the_pipeline(browser: Browser) -> None:
    """The recipe's dashboard shows the pipeline in a browser without dlt's commercial part."""
    command = recipe("marimo run").replace("marimo run", "exec marimo run --headless", 1)
    command = f"{recipe('FOLDER=')}\n{command}"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with serve_marimo("/bin/sh", "-c", command, env=environment) as address:
        page = browser.new_page()
        page.goto(address)
        expect(page.get_by_text("Pipeline letters").first).to_be_visible(timeout=120_000)
        expect(page.get_by_text("succeeded").first).to_be_visible(timeout=120_000)
        page.close()


def test_the_folder_can_be_copied_into_a_project(loaded: World, tmp_path: Path) -> None:
    """A copy of the package's folder in a project is imported from there, and the script next to it loads."""
    project = tmp_path / "project"
    copytree(ROOT / "letters_source", project / "letters_source")
    script = (ROOT / "pipelines/letters_pipeline.py").read_text()
    (project / "letters_pipeline.py").write_text(f"{script}\nimport letters_source\nprint(letters_source.__file__)\n")
    settings = loaded.variables()
    script_place = "import runpy; runpy.run_path('letters_pipeline.py', run_name='__main__')"
    outcome = run_python("-c", script_place, cwd=project, env={**os.environ, **settings})
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1] == str(project / "letters_source/__init__.py")
    assert held_tables(loaded.emulator).items() <= read_tables(project / "letters.duckdb").items()
