"""The notebook, run without a browser: as a script, as an app, and its functions."""

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import resources
from operator import itemgetter
from pathlib import Path
from runpy import run_module
from subprocess import PIPE
from types import ModuleType
from typing import Any

import duckdb
import pytest
from notebooks import NOTEBOOK, import_notebook, run_notebook
from terminals import open_process, run_python
from worlds import Begin, World, serve_world

from letters_source import Result
from letters_source.config.settings import Kind
from letters_source.report.charts import CHARTS, COLORS
from letters_source.report.dataset import open_tables
from programmable_emulator import Emulator

pytestmark = [
    # DuckDB 1.5 makes pandas' frames in a way that pandas 3.1 deprecates
    pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning"),
    # marimo imports pyspark where it is installed; no frame of Spark is shown
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

TEMPLATE = {
    "title": "Offer",
    "thumbnail": "https://files.example.org/1.png",
    "size": "4.25x5.5",
    "product": "",
    "creator": "",
}
STATES = CHARTS[0]
WRITER = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("begin; delete from letters_data.contacts")
print("writing", flush=True)
sys.stdin.read()
"""
"""Writes until its standard input ends."""


@pytest.fixture(scope="module", autouse=True)
def main_module_with_a_file() -> Iterator[None]:
    """Give the main module of pytest's workers a file: pyspark, which marimo imports, ends a process without one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
        yield


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """45 contacts and 7 templates in letters.duckdb, in the working directory, loaded once for tests that only read."""
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=Emulator(45, 7)) as world:
        world.load()
        yield world


@pytest.fixture(scope="module")
def second(loaded: World) -> Result:
    """A second load of the same rows."""
    return loaded.load()


@pytest.fixture(scope="module")
def found(second: Result) -> Any:
    """What the cells define when the notebook runs without options, after the second load."""
    return run_notebook()


@pytest.fixture(scope="module")
def notebook() -> ModuleType:
    """The notebook as a module, of which a test calls a function."""
    return import_notebook()


def test_the_notebook_runs_as_a_script(loaded: World) -> None:
    """The notebook runs as a script and prints nothing."""
    done = run_python(str(NOTEBOOK), "--from", str(loaded.place))
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_question_of_your_own_finds_only_loaded_tables(found: Any) -> None:
    """Charts get empty tables in place of those that were not loaded; your question gets DuckDB's error."""
    assert len(found["db"].sql("FROM mailings")) == 0
    with pytest.raises(duckdb.CatalogException, match="Table with name mailings does not exist"):
        found["loaded"].sql("FROM mailings")


@pytest.mark.parametrize(("kind", "size"), [("duckdb", (0, 0)), ("parquet", (45, 7)), ("parquet", (0, 0))])
def test_the_notebook_reads_files_and_folders(begin: Begin, kind: Kind, size: tuple[int, int]) -> None:
    """Every cell runs on a DuckDB file and on a Parquet folder, also when the account is empty."""
    world = begin(Emulator(*size), kind)
    world.load()
    found = run_notebook("--from", world.place)
    assert tuple(len(found[name]) for name in ("contacts", "templates", "audits")) == (*size, 2)


def test_the_notebook_s_queries_find_what_was_loaded(loaded: World, second: Result, found: Any) -> None:
    """The queries find all templates, all contacts with their labels, and the audits of both loads."""
    verdicts = [audit["verdict"] for audit in reversed(second.audits)]
    assert list(found["audits"]["verdict"])[:2] == verdicts
    assert len(found["audits"]) == 4
    held = sorted((row.document for row in loaded.emulator.contacts.rows()), key=itemgetter("createdAt"), reverse=True)
    assert list(found["contacts"]["address1"]) == [contact["address1"] for contact in held]
    labels = [", ".join(label["title"] for label in contact["ContactLabels"]) for contact in held]
    assert list(found["contacts"]["labels"].fillna("")) == labels
    titles = sorted(row.document["title"] for row in loaded.emulator.templates.rows())
    assert list(found["templates"]["title"]) == titles


def test_the_default_is_the_file_of_a_load_without_options(found: Any) -> None:
    """Without options, the notebook reads letters.duckdb in the working directory."""
    assert tuple(len(found[name]) for name in ("contacts", "templates", "audits")) == (45, 7, 4)


def test_another_dataset_is_named(loaded: World) -> None:
    """`--dataset` names another dataset, and the error for a missing one names those that exist."""
    assert run_notebook("--from", loaded.place, "--dataset", "letters_data")["db"]
    with pytest.raises(SystemExit) as caught:
        run_notebook("--from", loaded.place, "--dataset", "verified")
    message = f"{loaded.place} holds no dataset verified (found: letters_data); name another dataset."
    assert caught.value.code == message


def test_a_missing_file_is_reported_in_a_sentence(project: Path) -> None:
    """A missing file ends the notebook with one line that names it, without a traceback."""
    with pytest.raises(SystemExit) as caught:
        run_notebook("--from", "nowhere.duckdb")
    assert caught.value.code == (f"{project}/nowhere.duckdb does not exist; load first, or name another path.")


def test_a_published_copy_is_read_while_the_file_is_written(loaded: World, tmp_path: Path) -> None:
    """A published copy can be read while the file is written; the file itself is refused with one line."""
    written, copy = (shutil.copy(loaded.place, tmp_path / name) for name in ("letters.duckdb", "published.duckdb"))
    with open_process(sys.executable, "-c", WRITER, str(written), stdin=PIPE) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "writing\n"
        assert len(run_notebook("--from", copy)["contacts"]) == 45
        with pytest.raises(SystemExit, match=f"^{written} is in use: Could not set lock.*$") as refused:
            run_notebook("--from", written)
        writer.communicate()
    assert isinstance(refused.value.code, str)
    assert "\n" not in refused.value.code


def test_the_notebook_changes_nothing(loaded: World) -> None:
    """The notebook leaves the file as it is, byte by byte, and writes nothing next to it."""
    before = {path: path.read_bytes() for path in loaded.place.parent.glob("*.duckdb*")}
    run_notebook("--from", loaded.place)
    assert {path: path.read_bytes() for path in loaded.place.parent.glob("*.duckdb*")} == before


def test_the_answer_comes_first(begin: Begin, notebook: ModuleType) -> None:
    """The notebook says first whether all is there, and of which account, in the words of the report."""
    world = begin(Emulator(45, 7))
    world.load(account_id="501")
    with open_tables(world.place) as db:
        texts = re.sub("<[^>]*>", "|", notebook.answered(notebook.summarize(db)))
        contacts, templates = (len(db.sql(f"FROM {name}")) for name in ("contacts", "templates"))
    assert f"Complete|Everything is here: {contacts} contacts and {templates} templates." in texts
    assert "|account 501" in texts


def test_the_charts_have_the_report_s_colors() -> None:
    """The notebook's charts have the colors of the report in light mode."""
    style = resources.files("letters_source.report").joinpath("page.css").read_text()
    light = style.partition("@media")[0]
    assert dict(re.findall(r"--(contacts|templates): (#\w{6});", light)) == COLORS


def test_marimo_s_check_of_the_notebook_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """marimo's own check of cells, names and formatting finds nothing."""
    monkeypatch.setattr(sys, "argv", ["marimo", "check", "--strict", str(NOTEBOOK)])
    with pytest.raises(SystemExit) as ended:
        run_module("marimo", run_name="__main__")
    assert (ended.value.code, *capsys.readouterr()) == (0, "", "")


def test_a_changed_query_is_drawn_or_shown_or_refused(loaded: World, notebook: ModuleType) -> None:
    """A changed query shows a chart, its only value or a table, and an error is reported in DuckDB's words."""
    tried = notebook.tried
    db = open_tables(loaded.place)
    one = "SELECT 'one' AS name, 1 AS number, 1 AS place, 1 AS gathered"
    other = f"{one} UNION ALL SELECT 'two', 2, 2, 1"
    assert "vega" in html(tried(STATES, db, STATES.query))
    assert "vega" in html(tried(STATES, db, other))
    assert "The only value is one (1 contact)." in html(tried(STATES, db, one))
    assert "marimo-table" in html(tried(STATES, db, "SELECT 1 AS answer"))
    assert "Nothing yet." in html(tried(STATES, db, f"{other} LIMIT 0"))
    assert "no_such_table" in html(tried(STATES, db, "FROM no_such_table"))
    assert "read-only" in html(tried(STATES, db, "DELETE FROM stored.letters_data.contacts"))


def test_a_chart_without_rows_says_what_loads_it(notebook: ModuleType) -> None:
    """A chart whose data was not loaded names the option that loads it."""
    drawn = notebook.drawn
    texts = {chart.name: html(drawn(chart, [])) for chart in CHARTS}
    assert {name for name, text in texts.items() if "Nothing yet." not in text} == {
        chart.name for chart in CHARTS if chart.option
    }
    assert "letters load --facets" in texts["address_status"]


def test_a_card_loads_a_thumbnail_only_where_it_is_wanted(notebook: ModuleType) -> None:
    """A card without its thumbnail draws a sheet in the shape of the paper, and requests nothing."""
    card = notebook.card
    assert "https:" not in card(TEMPLATE, thumbnail=False)
    assert "aspect-ratio: 4.25 / 5.5" in card(TEMPLATE, thumbnail=False)
    assert 'src="https://files.example.org/1.png"' in card(TEMPLATE, thumbnail=True)


@pytest.mark.parametrize("url", ["", "javascript:alert(1)", "data:text/html,x", "/thumbnails/1.png"])
def test_a_card_loads_nothing_but_from_the_web(notebook: ModuleType, url: str) -> None:
    """A thumbnail whose URL is not a web address is not loaded."""
    assert "<img" not in notebook.card({**TEMPLATE, "thumbnail": url}, thumbnail=True)


def test_a_card_quotes_what_the_service_wrote(notebook: ModuleType) -> None:
    """Markup in the texts of a template is escaped on its card."""
    foul = '"><script>alert(1)</script>'
    fields = {**dict.fromkeys(TEMPLATE, foul), "thumbnail": f"https://{foul}"}
    for thumbnail in (False, True):
        text = notebook.card(fields, thumbnail=thumbnail)
        assert "<script" not in text
        assert '"https://"' not in text
        assert "8.5 / 11" in text


def html(shown: Any) -> str:
    """Return the HTML that marimo sends to the page."""
    return str(shown.text)
