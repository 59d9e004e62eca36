"""Readers of a published file never wait, fail, or see half of a load."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import duckdb
import pytest
from holdings import held_tables, query, read_tables, table_names
from terminals import Letters, open_process
from worlds import Begin, World

from letters_source import DestinationError, LoadFailed, account_pipelines, run_accounts
from letters_source.config.settings import Kind
from letters_source.destination.kinds import place_of
from letters_source.destination.publish import publish_copy
from programmable_emulator import Emulator

State = tuple[int, ...]
NOON = "2024-01-31T12:00:00.000Z"
READER = """
import duckdb, json, select, sys
seen = '''
    with rows as (
        select 1 as contacts, 0 as labels, _dlt_load_id from letters_data.contacts
        union all select 0, 1, _dlt_load_id from letters_data.contacts__contact_labels
        union all select 0, 0, _dlt_load_id from letters_data.templates
    )
    select sum(contacts)::int, sum(labels)::int, count(distinct _dlt_load_id) from rows
'''
while not select.select([sys.stdin], [], [], 0)[0]:
    with duckdb.connect(sys.argv[1], read_only=True) as connection:
        print(json.dumps(connection.execute(seen).fetchone()), flush=True)
"""
"""Reads without pause until its standard input ends."""


@pytest.fixture
def world(begin: Begin) -> World:
    """A few rows, to be loaded into a DuckDB file."""
    return begin(Emulator(30, 5))


@pytest.fixture
def readers(tmp_path: Path) -> Path:
    """The file for readers."""
    return tmp_path / "readers.duckdb"


def refusal(action: Callable[[], object]) -> str:
    """The message of the error that a file is refused with."""
    with pytest.raises(DestinationError) as caught:
        action()
    return str(caught.value)


def comments(file: Path) -> list[tuple[str, ...]]:
    """The comments of the tables and columns."""
    return query(file, "select table_name, column_name, comment from duckdb_columns() where not internal order by all")


def test_the_copy_holds_what_was_loaded(world: World, readers: Path) -> None:
    """The copy holds all tables with their comments, and nothing else is left next to it."""
    world.load(publish=readers)
    assert read_tables(readers) == read_tables(world.place)
    assert held_tables(world.emulator).items() <= read_tables(readers).items()
    assert comments(readers) == comments(world.place)
    assert {path.name for path in readers.parent.glob("*duckdb*")} == {readers.name, world.place.name}


def test_readers_of_the_old_file_keep_reading_it(loaded: World, world: World, readers: Path) -> None:
    """A reader with the old copy open keeps reading it, and the next reader gets the new rows."""
    publish_copy(place_of(loaded.pipeline), readers, 0)
    with duckdb.connect(str(readers), read_only=True) as reader:
        world.emulator.contacts.insert({"id": "new"})
        world.load(publish=readers)
        assert reader.sql("select count(*) from letters_data.contacts").fetchall() == [(30,)]
    assert query(readers, "select count(*) from letters_data.contacts") == [(31,)]


def test_a_reader_in_a_loop_sees_whole_loads_only(world: World, readers: Path) -> None:
    """A reader during two loads meets no error, sees whole loads only, and sees each of them."""
    world.load(publish=readers)
    whole = [state(world)]
    with open_process(sys.executable, "-c", READER, str(readers), stdin=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        seen = (tuple(json.loads(line)) for line in reader.stdout)
        for number in range(2):
            label = {"id": "7", "title": "new"}
            world.emulator.contacts.insert({"id": f"new {number}", "createdAt": NOON, "ContactLabels": [label] * 2})
            world.load(publish=readers)
            whole.append(state(world))
            assert set(read_until(seen, whole[-1])) <= set(whole)
        reader.communicate()
    assert reader.returncode == 0
    assert len(set(whole)) == 3


def read_until(seen: Iterator[State], wanted: State) -> Iterator[State]:
    """Yield what the reader sees, up to the wanted state."""
    for answer in islice(seen, 100_000):
        yield answer
        if answer == wanted:
            return
    pytest.fail(f"The reader never saw {wanted}.")


def state(world: World) -> State:
    """How many contacts and labels there are, and from how many loads the rows may be."""
    held = held_tables(world.emulator)
    return len(held["contacts"]), len(held["contacts__contact_labels"]), 1


def test_history_and_its_views_are_in_the_copy(world: World, readers: Path) -> None:
    """The copy of row history has the views of current rows, which show the copy's own tables."""
    world.load(history=True, publish=readers)
    world.place.unlink()
    assert query(readers, "select count(*) from letters_data.contacts_current") == [(30,)]


def test_accounts_are_published_together(begin: Begin, readers: Path) -> None:
    """Accounts are published in one private copy, with the views that unite them."""
    world = begin(Emulator(4, 2))
    pipelines = account_pipelines("duckdb", world.place, "letters_data", ("A", "B"))
    run_accounts(pipelines, publish=readers, **world.settings)
    assert {schema for schema, _ in table_names(readers)} >= {"letters_data_a", "letters_data_b"}
    assert query(readers, "select count(*) from letters_data_all.listing_audit") == [(4,)]
    assert readers.stat().st_mode & 0o077 == 0


def test_what_a_broken_copy_left_is_replaced(loaded: World, readers: Path) -> None:
    """A copy replaces what an interrupted one has left."""
    left = [readers.with_name(f".{readers.name}.copy{ending}") for ending in ("", ".wal", ".wal.checkpoint")]
    for path in left:
        path.write_bytes(b"half of a file")
    publish_copy(place_of(loaded.pipeline), readers, 0)
    assert read_tables(readers) == read_tables(loaded.place)
    assert not any(path.exists() for path in left)


WRITE_AND_DIE = """
import duckdb, os, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("create table mine as select 1 as n")
os._exit(0)
"""


def test_what_a_writer_left_next_to_the_old_copy_is_not_in_the_new_one(loaded: World, readers: Path) -> None:
    """A copy removes the log that a killed writer left next to the old one, and DuckDB would apply to the new one."""
    publish_copy(place_of(loaded.pipeline), readers, 0)
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(readers)], check=True)
    logs = [readers.with_name(f"{readers.name}{ending}") for ending in (".wal", ".wal.checkpoint")]
    assert logs[0].exists()
    logs[1].touch()
    publish_copy(place_of(loaded.pipeline), readers, 0)
    assert read_tables(readers) == read_tables(loaded.place)
    assert not any(log.exists() for log in logs)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_is_followed(loaded: World, world: World, readers: Path, *, is_there: bool) -> None:
    """A copy replaces the file that a link leads to, or makes it, and leaves the link."""
    link = readers.with_name("link.duckdb")
    link.symlink_to(readers)
    if is_there:
        publish_copy(place_of(loaded.pipeline), readers, 0)
    world.load(publish=link)
    assert read_tables(readers) == read_tables(world.place)
    assert link.is_symlink()


def test_the_mode_of_the_old_file_is_kept(loaded: World, readers: Path) -> None:
    """A new copy has the mode of the old one."""
    publish_copy(place_of(loaded.pipeline), readers, 0)
    readers.chmod(0o640)
    publish_copy(place_of(loaded.pipeline), readers, 0)
    assert readers.stat().st_mode & 0o777 == 0o640


def test_a_copy_that_fails_leaves_the_old_file(loaded: World, world: World, readers: Path) -> None:
    """A copy that fails leaves the old file as it was, and the error says that the load is verified, which is there."""
    publish_copy(place_of(loaded.pipeline), readers, 0)
    before = readers.read_bytes()
    readers.with_name(f".{readers.name}.copy").mkdir()
    world.emulator.contacts.insert({"id": "new"})
    with pytest.raises(LoadFailed, match=r"readers.duckdb was not published, but the load is verified: "):
        world.load(publish=readers)
    assert readers.read_bytes() == before
    assert len(read_tables(world.place)["contacts"]) == 31


def test_a_copy_that_fails_is_removed(loaded: World, readers: Path) -> None:
    """A copy that fails at its end is removed, because it takes as much room as the file."""
    readers.with_name(f"{readers.name}.wal").mkdir()
    with pytest.raises(LoadFailed, match="but the load is verified"):
        publish_copy(place_of(loaded.pipeline), readers, 0)
    assert [path for path in readers.parent.iterdir() if path.name.startswith(f".{readers.name}")] == []


def test_a_first_load_stays_when_its_copy_fails(world: World, readers: Path) -> None:
    """A first load whose copy fails is verified, and its file is kept."""
    readers.with_name(f".{readers.name}.copy").mkdir()
    with pytest.raises(LoadFailed, match="but the load is verified"):
        world.load(publish=readers)
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("letters.duckdb", "publish must differ from the database being loaded: "),
        ("letters_data.duckdb", "DuckDB cannot tell letters_data.duckdb from a dataset of that name"),
        ("letters_data_staging.v2.duckdb", "DuckDB cannot tell"),
        (
            "missing/readers.duckdb",
            "missing does not exist or is not accessible; create it, or choose another file for readers.",
        ),
        (".", "is a folder; choose another file for readers."),
        ("readers.csv", "readers.csv would be a DuckDB file; choose another file for readers, such as readers.duckdb."),
    ],
)
def test_a_file_that_cannot_be_published_is_refused_at_once(world: World, place: str, reason: str) -> None:
    """A file that cannot be published is refused before the first request to the service, also for several accounts."""
    assert reason in refusal(lambda: world.load(publish=place))
    pipelines = {"A": world.pipeline}
    assert reason in refusal(lambda: run_accounts(pipelines, publish=place, **world.settings))
    assert world.emulator.hits == []
    assert not os.path.exists(world.place)


def test_a_file_that_is_no_database_is_not_replaced(world: World, readers: Path) -> None:
    """A file that is no DuckDB file is not overwritten."""
    readers.write_text("something important")
    assert "is not a DuckDB file and would be overwritten" in refusal(lambda: world.load(publish=readers))
    assert readers.read_text() == "something important"
    assert world.emulator.hits == []


def test_a_pipe_is_not_replaced(world: World, readers: Path) -> None:
    """A pipe is refused without being read, which would wait forever."""
    os.mkfifo(readers)
    assert "is not a DuckDB file and would be overwritten" in refusal(lambda: world.load(publish=readers))


def test_parquet_is_not_published(begin: Begin, readers: Path) -> None:
    """A load into Parquet cannot be published."""
    kind: Kind = "parquet"
    world = begin(Emulator(1, 1), kind)
    assert "publish works only with DuckDB files" in refusal(lambda: world.load(publish=readers))
    assert world.emulator.hits == []


def test_the_command_prints_where_the_copy_is(
    world: World, letters: Letters, readers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command prints the path of the copy; a relative one is resolved from the working directory."""
    world.configure(monkeypatch)
    outcome = letters("load", "--publish", readers.name)
    assert (outcome.code, f"Published for readers: {readers}\n" in outcome.out) == (0, True)
    assert read_tables(readers) == read_tables(world.place)
