"""An unusable destination is refused before the first request, with the reason."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dlt
import duckdb
import pytest
from dlt.common.configuration.exceptions import ConfigurationException
from holdings import change
from terminals import open_process
from worlds import Begin, verify

from letters_source import DestinationError, DestinationInUse, LoadFailed, SettingsError, make_pipeline, run
from letters_source.config.settings import Kind
from letters_source.destination.duckdb_file import check_duckdb
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import place_of
from letters_source.destination.local_files import check_folder
from letters_source.tables import tables_of
from programmable_emulator import Emulator

Refuse = Callable[[Kind, Path | str], str]


@pytest.fixture
def refuse(begin: Begin) -> Refuse:
    """Loads into a place that must be refused before any request, and returns the message."""
    world = begin(Emulator(1, 1))

    def message(kind: Kind, place: Path | str) -> str:
        with pytest.raises((DestinationError, DestinationInUse)) as caught:
            run(make_pipeline(kind, place), **world.settings)
        assert caught.value.exit_code == (6 if isinstance(caught.value, DestinationInUse) else 2)
        assert world.emulator.hits == []
        return str(caught.value)

    return message


def test_a_text_is_no_pipeline() -> None:
    """The error for a path in place of a pipeline says what makes a pipeline of it, and not what the text was."""
    with pytest.raises(SettingsError) as caught:
        run("canary.duckdb")  # type: ignore[arg-type]
    assert caught.value.key == "pipeline"
    assert str(caught.value) == 'pipeline must be a dlt pipeline, such as make_pipeline(to="letters.duckdb"), got str.'


def test_a_file_that_another_process_holds_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    """A file that another process holds open is refused with a line that names the process."""
    file = tmp_path / "held.duckdb"
    hold = f"import duckdb, sys; c = duckdb.connect({str(file)!r}); print('held', flush=True); sys.stdin.read()"
    with open_process(sys.executable, "-c", hold, stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        message = refuse("duckdb", file)
        holder.communicate()
    assert message.startswith(f"{file} cannot be opened for writing: Could not set lock on file")
    assert f"(PID {holder.pid})" in message
    assert "\n" not in message
    assert "http" not in message


def test_a_file_that_is_not_of_duckdb_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    """A file that is no DuckDB database is refused, and is not overwritten."""
    file = tmp_path / "notes.txt"
    file.write_text("These are notes.\n" * 1000)
    message = refuse("duckdb", file)
    assert message.startswith(f"{file} cannot be opened for writing: ")
    assert "not a valid DuckDB database file" in message
    assert file.read_text() == "These are notes.\n" * 1000


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_duckdb_target_that_is_a_folder_or_a_pipe_is_refused(
    make: Callable[[Path], None], refuse: Refuse, tmp_path: Path
) -> None:
    """A folder or a pipe as a DuckDB file is refused; a load would wait forever at a pipe."""
    place = tmp_path / "other.duckdb"
    make(place)
    assert (
        refuse("duckdb", place)
        == f"{place} cannot be opened for writing: it is not a regular file; choose another path."
    )


def test_a_missing_folder_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    """A missing parent folder is refused and not made, since the path may be misspelled."""
    place = tmp_path / "missing/letters.duckdb"
    assert refuse("duckdb", place) == (
        f"{place}: the folder {place.parent} does not exist or is not accessible; create it, or choose another path."
    )
    assert not place.parent.exists()


def test_a_file_below_a_file_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    """A DuckDB file whose parent is a file is refused."""
    (tmp_path / "notes.txt").touch()
    place = tmp_path / "notes.txt/letters.duckdb"
    assert refuse("duckdb", place) == (
        f"{place}: the folder {place.parent} does not exist or is not accessible; create it, or choose another path."
    )


def test_a_parquet_target_that_is_a_file_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    """A Parquet folder that is a file, or lies below one, is refused."""
    (tmp_path / "notes.txt").touch()
    message = f"{tmp_path / 'notes.txt'} is a file, not a folder; choose another path."
    assert refuse("parquet", tmp_path / "notes.txt") == message
    assert refuse("parquet", tmp_path / "notes.txt/below") == message


def test_a_parquet_target_that_is_missing_is_made(begin: Begin) -> None:
    """A missing Parquet folder is made, with all folders above it."""
    world = begin(Emulator(1, 1))
    place = world.place / "a b/ü/folder"
    run(make_pipeline("parquet", place), **world.settings)
    assert (place / "letters_data/contacts").is_dir()


@pytest.mark.parametrize("name", ["letters_data.duckdb", "letters_data", "letters_data.db"])
def test_a_file_named_as_the_dataset_is_refused(tmp_path: Path, name: str) -> None:
    """A DuckDB file named like its dataset is refused, because DuckDB could not tell them apart."""
    with pytest.raises(DestinationError) as caught:
        make_pipeline("duckdb", tmp_path / name)
    assert str(caught.value) == f"A DuckDB file named {name} cannot hold the dataset letters_data: rename one."


@pytest.mark.parametrize(("destination", "missing"), [("filesystem", "BUCKET_URL"), ("postgres", "CREDENTIALS")])
def test_a_destination_without_its_settings_is_refused(begin: Begin, destination: str, missing: str) -> None:
    """A destination without its settings is refused before any request, and the message names the variable."""
    world = begin(Emulator(1, 1))
    pipeline = dlt.pipeline("unset", destination=destination, dataset_name="unset")
    with pytest.raises(DestinationError) as caught:
        run(pipeline, **world.settings)
    key = f"DESTINATION__{destination.upper()}__{missing}"
    assert str(caught.value) == f"The destination {destination} is not configured: set {key}."
    assert isinstance(caught.value.__cause__, ConfigurationException)
    assert world.emulator.hits == []


def test_a_table_that_cannot_be_verified_is_a_failed_load(begin: Begin) -> None:
    """A table that cannot be verified after the load fails it, with the cause in one line."""
    world = begin(Emulator(1, 1))
    load_id = world.load(only=("contacts",)).load_id
    change(world.place, "drop table letters_data.rejected_rows")
    with pytest.raises(LoadFailed) as caught:
        plain_errors(verify)(world.pipeline, load_id, tables_of("contacts"))
    assert "rejected_rows" in str(caught.value)
    assert "\n" not in str(caught.value)


def check_place(pipeline: dlt.Pipeline) -> None:
    """Check where a pipeline loads to, as a load does."""
    place = place_of(pipeline)
    place.kind.check(place)


@pytest.mark.parametrize("check", [check_duckdb, check_folder])
def test_a_folder_that_cannot_be_written_is_refused(unwritable: Path, check: Callable[[Path], None]) -> None:
    """A folder without write permission is refused with the message of the operating system."""
    with pytest.raises(DestinationError) as caught:
        check(unwritable / "new")
    assert (
        str(caught.value)
        == f"{unwritable} cannot be written: Permission denied; make it writable, or choose another path."
    )


@pytest.mark.parametrize("check", [check_duckdb, check_folder])
def test_a_folder_that_may_not_be_entered_is_refused(unwritable: Path, check: Callable[[Path], None]) -> None:
    """A folder that may not be entered is refused, though whether the place exists is unknown."""
    with pytest.raises(DestinationError):
        check(unwritable / "closed/new")


def test_other_destinations_are_left_to_dlt(begin: Begin) -> None:
    """Places that are not on this machine's disk are not checked as files."""
    begin(Emulator(0, 0))
    check_place(dlt.pipeline("q", destination=dlt.destinations.filesystem("memory://bucket"), dataset_name="d"))


def test_the_preflight_makes_no_file(begin: Begin) -> None:
    """The preflight check makes no file, so that a load that fails at once leaves none."""
    world = begin(Emulator(1, 1))
    check_place(world.pipeline)
    assert not world.place.exists()
    duckdb.connect(str(world.place)).close()
    check_place(world.pipeline)


def test_a_pipeline_without_a_destination_is_refused(begin: Begin) -> None:
    """A pipeline without a destination is refused before any request, and the message says how to make one."""
    world = begin(Emulator(1, 1))
    with pytest.raises(DestinationError) as caught:
        run(dlt.pipeline("nowhere"), **world.settings)
    message = "The pipeline nowhere has no destination: pass one to dlt, or use make_pipeline()."
    assert str(caught.value) == message
    assert world.emulator.hits == []


def test_a_table_of_another_program_is_refused_at_once(begin: Begin) -> None:
    """A table that no load has made is refused before any request, and stays."""
    world = begin(Emulator(9, 3))
    with duckdb.connect(str(world.place)) as connection:
        connection.execute("CREATE SCHEMA letters_data; CREATE TABLE letters_data.contacts (id INTEGER PRIMARY KEY)")
    with pytest.raises(SettingsError) as caught:
        world.load()
    assert str(caught.value) == (
        "the dataset letters_data holds a table contacts that is not from a load; choose another dataset."
    )
    assert world.emulator.hits == []
    with duckdb.connect(str(world.place)) as connection:
        assert connection.sql("SELECT count(*) FROM letters_data.contacts").fetchall() == [(0,)]
