"""A copy for readers that is killed at any step leaves them the old rows or the new ones."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from holdings import change
from terminals import open_process
from worlds import Begin, World

from letters_source import make_pipeline, own_pipeline, run
from programmable_emulator import Emulator

SCRIPT = Path(__file__).parents[1] / "killed_copies.py"
KILLED = "-9"
OLD, NEW = "old", "new"
OWN = """
    CREATE TABLE {0}.regions (id integer PRIMARY KEY);
    CREATE TABLE {0}.places (region integer REFERENCES {0}.regions);
    INSERT INTO {0}.regions VALUES (1);
    INSERT INTO {0}.places VALUES (1);
    CREATE VIEW {0}.mine AS SELECT city FROM {1}.{0}.contacts;
"""
CHANGE = "UPDATE {0}.contacts SET city = '{1}'; UPDATE {0}.templates SET title = '{1}'"
VERSIONS = "SELECT city FROM {0}.contacts UNION SELECT title FROM {0}.templates UNION SELECT city FROM {0}.mine"


@pytest.fixture
def world(begin: Begin) -> World:
    """A few rows."""
    return begin(Emulator(30, 5))


def version(file: Path, dataset: str) -> str:
    """Return the one version that a reader finds in two tables and a view."""
    with duckdb.connect(str(file), read_only=True) as connection:
        [[found]] = connection.sql(VERSIONS.format(dataset)).fetchall()
        return str(found)


def kill_copies(action: str, file: Path, to: Path, dataset: str, steps: list[tuple[str, str]]) -> None:
    """Kill copies at these steps: readers see the old or the new version, as given; the copy after them is whole."""
    change(file, OWN.format(dataset, file.stem))
    command = (sys.executable, str(SCRIPT), action, str(file), str(to))
    with open_process(*command, stdin=subprocess.PIPE, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (step, expected) in enumerate([("", NEW), *steps, ("", NEW)]):
            old, new = version(to, dataset) if number else "", f"version {number}"
            change(file, CHANGE.format(dataset, new))
            process.stdin.write(f"{step}\n")
            assert process.stdout.readline().strip() == (KILLED if step else "0"), step
            assert version(to, dataset) == {OLD: old, NEW: new}[expected], step
            assert version(file, dataset) == new, step
        process.stdin.close()
    assert {path.name for path in to.parent.glob("*duckdb*")} == {file.name, to.name}


def test_a_killed_publication_leaves_the_old_copy_or_the_new_one(world: World, tmp_path: Path) -> None:
    """A copy for readers is the old one until it is renamed; the next copy removes what is left of a killed one."""
    file = tmp_path / "letters.duckdb"
    run(make_pipeline("duckdb", file), **world.settings)
    steps = [
        ("return insert_rows", OLD),
        ("return copy_tables", OLD),
        ("return write_copy", OLD),
        ("return replace_copy", NEW),
    ]
    kill_copies("publish", file, tmp_path / "readers.duckdb", "letters_data", steps)


def test_a_killed_union_leaves_the_old_rows_or_the_new_ones(world: World, tmp_path: Path) -> None:
    """An account's rows in the combined file are the old ones until all are copied, and then the new ones."""
    to = tmp_path / "letters.duckdb"
    run(own_pipeline(to, "501", ("501",)), account_id="501", **world.settings)
    steps = [
        ("return drop_former", OLD),
        ("return insert_rows", OLD),
        ("return write_comments", OLD),
        ("return copy_dataset", NEW),
        ("return replace_view", NEW),
    ]
    kill_copies("unite", tmp_path / "letters_501.duckdb", to, "letters_data_501", steps)
