"""What `letters report` prints, whether it succeeds or fails."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reports import figure_of
from terminals import Letters, Outcome, open_process, run_command
from worlds import Begin, World, serve_world

from letters_source import account_pipelines, make_pipeline, run, run_accounts
from letters_source.config.installation import how_to_add_extra
from letters_source.config.settings import Kind
from letters_source.destination.ledger import LEDGER, usual_folder
from programmable_emulator import Emulator

WITHOUT = "import sys; sys.modules[{module!r}] = None; from letters_source.cli.process import main; main()"
HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One contact and one template, whose charts are sentences, so that pages are written quickly."""
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=Emulator(1, 1)) as world:
        world.load()
        yield world


@pytest.fixture
def world(loaded: World, begin: Begin) -> World:
    """The same rows in letters.duckdb, in the working directory, and a service that lists them elsewhere."""
    world = begin(Emulator(1, 1))
    world.settings["allow_other_service"] = True
    shutil.copy(loaded.place, world.place)
    return world


def test_it_writes_the_page_and_says_where(world: World, letters: Letters) -> None:
    """The command reads letters.duckdb by default, without writing to it, and prints where the page is."""
    before = world.place.read_bytes()
    made = letters("report", "--html", "letters.html")
    file = Path.cwd() / "letters.html"
    assert (made.code, made.err) == (0, "")
    assert made.out == f"{file}: {file.stat().st_size / 1000:,.0f} kB, to open in a browser.\n"
    assert world.place.read_bytes() == before
    assert figure_of(file, "contacts") == "1"
    assert letters("report", "--html", "letters.html", "--quiet") == Outcome(0, "", "")


def test_runs_that_cannot_be_read_are_reported(world: World, letters: Letters) -> None:
    """A report without the list of runs says why it has none."""
    ledger = usual_folder() / LEDGER
    ledger.unlink(missing_ok=True)
    ledger.mkdir(parents=True)
    made = letters("report", "--html", "letters.html", "--quiet")
    assert (made.code, made.out) == (0, "")
    assert made.err.startswith(
        "letters: the report lists no runs: dlt's working directory cannot be used: Is a directory"
    )
    assert 'id="runs"' not in Path("letters.html").read_text()


def test_it_reads_a_published_copy(world: World, letters: Letters) -> None:
    """A published copy can be reported whatever its file is called, even if that is the name of the dataset."""
    world.load(publish="readers.duckdb")
    Path("readers.duckdb").rename("letters_data.duckdb")
    assert letters("report", "--html", "letters.html", "--from", "letters_data.duckdb").code == 0
    assert figure_of(Path("letters.html"), "contacts") == "1"


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_another_dataset_is_named(begin: Begin, letters: Letters, kind: Kind) -> None:
    """`--dataset` names another dataset, and the error for a missing one names those that exist."""
    world = begin(Emulator(1, 1), kind)
    run(make_pipeline(kind, world.place, "spring"), **world.settings)
    missing = letters("report", "--html", "letters.html", "--from", world.place)
    assert missing == Outcome(
        2, "", f"letters: {world.place} holds no dataset letters_data (found: spring); name another --dataset.\n"
    )
    assert letters("report", "--html", "letters.html", "--from", world.place, "--dataset", "spring").code == 0
    assert figure_of(Path("letters.html"), "contacts") == "1"


def test_accounts_are_shown_as_one(begin: Begin, letters: Letters) -> None:
    """A report of the views that unite accounts shows all of them together."""
    world = begin(Emulator(60, 9))
    results = run_accounts(account_pipelines("duckdb", world.place, "letters_data", ["501", "502"]), **world.settings)
    assert letters("report", "--html", "letters.html", "--dataset", "letters_data_all").code == 0
    page = Path("letters.html")
    assert figure_of(page, "templates") == str(sum(result.tables["templates"] for result in results.values()))
    assert '<p class="headline">Complete</p>' in page.read_text()


def nothing(folder: Path) -> Path:
    """A path without a file."""
    return folder / "absent.duckdb"


def text(folder: Path) -> Path:
    """A file that is no DuckDB file."""
    file = folder / "some.duckdb"
    file.write_text("some text " * 1_000)
    return file


def delta(folder: Path) -> Path:
    """A Delta table."""
    (folder / "lake" / "letters_data" / "contacts" / "_delta_log").mkdir(parents=True)
    return folder / "lake"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (nothing, "does not exist; load first, or name another --from."),
        (text, "cannot be read: "),
        (delta, "holds Delta or Iceberg tables: name a DuckDB file or a folder of plain Parquet."),
    ],
)
def test_a_place_that_cannot_be_read_is_one_line(
    tmp_path: Path, letters: Letters, make: Callable[[Path], Path], words: str
) -> None:
    """A place that cannot be read ends the command with one line that names it, and no page is written."""
    place = make(tmp_path)
    failed = letters("report", "--html", tmp_path / "letters.html", "--from", place)
    assert (failed.code, failed.out) == (2, "")
    assert failed.err.startswith(f"letters: {place} {words}")
    assert failed.err.count("\n") == 1
    assert not (tmp_path / "letters.html").exists()


def test_a_page_that_cannot_be_written_is_one_line(world: World, letters: Letters) -> None:
    """A page that cannot be written ends the command with a line that names --html."""
    failed = letters("report", "--html", "absent/letters.html")
    assert failed == Outcome(
        2, "", "letters: absent/letters.html cannot be written: No such file or directory; choose another --html.\n"
    )


@pytest.mark.parametrize("place", ["letters.duckdb", "folder", "pipe"])
def test_what_is_no_page_is_not_replaced(place: str, world: World, letters: Letters) -> None:
    """A file, folder or pipe that is not a page is not replaced, least of all the dataset itself."""
    Path("folder").mkdir()
    os.mkfifo("pipe")
    done = letters("report", "--html", place)
    assert done == Outcome(2, "", f"letters: {place} exists and is not an HTML page; choose another --html.\n")
    assert world.is_exact()


def test_a_file_that_is_being_loaded_is_one_line(world: World, letters: Letters) -> None:
    """A file that another process has open for writing ends the command with one line that says what can help."""
    with open_process(sys.executable, "-c", HOLDER, str(world.place), stdin=-1) as holder:
        assert holder.stdout
        assert holder.stdin
        assert holder.stdout.readline() == "held\n"
        failed = letters("report", "--html", "letters.html")
        holder.stdin.close()
    assert failed.code == 6
    assert failed.err.startswith(f"letters: {world.place} is in use: Could not set lock on file")
    later = "; read it again when that program has ended, or read the copy that a load with publish makes.\n"
    assert failed.err.endswith(later)
    assert failed.err.count("\n") == 1


@pytest.mark.parametrize("module", ["altair", "vl_convert", "jinja2"])
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, module: str) -> None:
    """Without a library of the extra, the command prints one line that says what to install."""
    failed = run_command("report", "--html", str(tmp_path / "letters.html"), code=WITHOUT.format(module=module))
    how = how_to_add_extra("report")
    assert failed == Outcome(2, "", f"letters: {module} is not installed; add the extra report: {how}\n")
