"""A published copy holds what else is in the file, with views that work there, and names what it cannot hold."""

import os
from pathlib import Path
from shutil import copy

import duckdb
import pytest
from holdings import change, query, read_tables
from worlds import World

from letters_source.destination.kinds import place_of
from letters_source.destination.pipeline import make_pipeline
from letters_source.destination.publish import publish_copy

ZONES = """
    CREATE TABLE zones (id integer PRIMARY KEY);
    CREATE TABLE areas (zone integer REFERENCES zones, size integer, double integer AS (size * 2));
    INSERT INTO zones VALUES (1), (2);
    INSERT INTO areas VALUES (1, 3), (2, 4);
"""
"""DuckDB lists and copies `areas` first, which references `zones`."""
NAMED_VIEWS = """
    CREATE SCHEMA analytics;
    CREATE VIEW analytics.stg AS SELECT letters.letters_data.contacts.id FROM letters.letters_data.contacts;
    CREATE VIEW analytics."all" ("as", b) AS
    WITH found AS (FROM letters.analytics.stg) SELECT count(*), 'letters' FROM found;
    CREATE VIEW short AS FROM letters.areas;
    CREATE VIEW größe (größe) AS SELECT size FROM letters.areas;
    COMMENT ON VIEW analytics."all" IS 'it''s';
    COMMENT ON COLUMN analytics.stg.id IS 'how many';
"""
"""Views that name the database as dbt's do, one before the one that it queries."""
LEFT_OUT = """
    CREATE TABLE tree (id integer PRIMARY KEY, parent integer REFERENCES tree);
    INSERT INTO tree VALUES (1, NULL);
    CREATE TABLE leaves (id integer REFERENCES tree);
    INSERT INTO leaves VALUES (1);
    CREATE SEQUENCE counted;
    CREATE TABLE numbered (id integer DEFAULT nextval('letters.main.counted'), n integer);
    CREATE VIEW named AS FROM query_table('letters.main.zones');
    CREATE VIEW of_tree AS FROM tree;
"""


@pytest.fixture
def file(loaded: World, tmp_path: Path) -> Path:
    """A copy of a loaded file, for a test that changes it."""
    return Path(copy(loaded.place, tmp_path))


@pytest.fixture
def readers(tmp_path: Path) -> Path:
    """The file for readers."""
    return tmp_path / "readers.duckdb"


def publish(file: Path, readers: Path) -> None:
    """Publish a copy of a loaded file."""
    publish_copy(place_of(make_pipeline("duckdb", file)), readers, 0)


def test_tables_with_foreign_keys_are_copied(file: Path, readers: Path) -> None:
    """Tables that reference others are copied after them, with their keys and generated columns."""
    change(file, ZONES)
    for _ in range(2):
        publish(file, readers)
    assert query(readers, "SELECT zone, double FROM areas ORDER BY 1") == [(1, 6), (2, 8)]
    with pytest.raises(duckdb.ConstraintException):
        change(readers, "INSERT INTO areas VALUES (3, 1)")


def test_views_that_name_the_database_work_in_the_copy(
    file: Path, readers: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Views that name the loaded file's database show the copy's own tables, and keep their comments and columns."""
    change(file, ZONES + NAMED_VIEWS)
    before = read_tables(file)
    publish(file, readers)
    assert read_tables(file) == before
    file.unlink()
    assert query(readers, 'SELECT "as", b FROM analytics."all"') == [(len(before["contacts"]), "letters")]
    assert query(readers, "SELECT count(*) FROM short") == [(2,)]
    assert query(readers, "SELECT größe FROM größe ORDER BY 1") == [(3,), (4,)]
    assert query(readers, "SELECT comment FROM duckdb_views() WHERE view_name = 'all'") == [("it's",)]
    assert query(readers, "SELECT comment FROM duckdb_columns() WHERE table_name = 'stg'") == [("how many",)]
    assert caplog.messages == []


def test_what_cannot_be_copied_is_named_once(file: Path, readers: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Tables and views that DuckDB cannot copy are missing in the copy, and one warning names them."""
    change(file, ZONES + LEFT_OUT)
    publish(file, readers)
    [message] = caplog.messages
    assert message == (
        f"{readers} lacks main.tree, main.leaves, main.numbered, main.named, main.of_tree: DuckDB copies no tables "
        "whose foreign keys lead back to themselves, and no views that need this database's name."
    )
    found = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1"
    assert query(readers, found) == [("areas",), ("zones",)]


def test_the_group_of_the_old_file_is_kept(file: Path, readers: Path) -> None:
    """A new copy has the group, mode and extended attributes of the old one."""
    publish(file, readers)
    # root may give a file to any group, other users only to theirs
    group = os.getgid() + 1 if os.geteuid() == 0 else os.getgroups()[-1]
    os.chown(readers, -1, group)
    readers.chmod(0o640)
    written = readers.stat()
    publish(file, readers)
    copied = readers.stat()
    assert (copied.st_uid, copied.st_gid, copied.st_mode) == (written.st_uid, group, written.st_mode)
    assert copied.st_ino != written.st_ino
    assert copied.st_mtime_ns > written.st_mtime_ns
