"""The notebook of first queries, run by a Jupyter kernel."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config
from worlds import Begin

from programmable_emulator import Emulator

NOTEBOOK = Path(__file__).parents[2] / "pipelines/notebooks/first_queries.ipynb"


def read_notebook() -> Any:
    """The notebook as it is stored."""
    read: Any = nbformat.read
    return read(NOTEBOOK, as_version=4)


def codes(notebook: Any) -> list[Any]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def run_cells(folder: Path) -> dict[str, str]:
    """What each cell of code shows, by its id; an error in one is raised."""
    notebook = read_notebook()
    # files in place of ports, which others on the machine could listen to
    config = Config(KernelManager={"transport": "ipc"})
    NotebookClient(notebook, config=config, timeout=60, resources={"metadata": {"path": str(folder)}}).execute()
    return {cell.id: output.data["text/plain"] for cell in codes(notebook) for output in cell.outputs}


@pytest.mark.parametrize(("size", "below"), [((45, 7), "."), ((0, 0), "n")])
def test_the_first_queries_run(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], below: str
) -> None:
    """Every cell shows a table, also when the account is empty, or letters.duckdb is in the folder above the notebook.

    That is where Jupyter starts.
    """
    world = begin(Emulator(*size))
    result = world.load()
    folder = world.place.parent / below
    folder.mkdir(exist_ok=True)
    # the kernel's files have relative names
    monkeypatch.chdir(folder)
    shown = run_cells(folder)
    assert list(shown) == [cell.id for cell in codes(read_notebook())]
    assert all(name in shown["open"] for name in result.tables)
    assert all(audit["verdict"] in shown["loads"] for audit in result.audits)
    assert all(row.document["state"] in shown["states"] for row in world.emulator.contacts.rows())
    assert all(row.document["title"] in shown["creators"] for row in world.emulator.templates.rows())
    empty = {name for name, text in shown.items() if re.search(r"\b0 rows", text)}
    assert empty == (set() if any(size) else shown.keys() - {"open", "loads"})


def test_what_the_first_queries_showed_is_not_kept() -> None:
    """The notebook is stored without outputs, and so without any user's rows."""
    assert [cell.id for cell in codes(read_notebook()) if (cell.outputs, cell.execution_count) != ([], None)] == []
