"""All tables can be read, whatever was loaded, and none can be written."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from letters_source import SettingsError, UnusableFile
from letters_source.report.dataset import FINISHED, UNREADABLE, open_tables
from letters_source.tables import TABLES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that an early release may have loaded: few tables, few columns."""
    file = tmp_path / "it's.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA letters_data")
        connection.execute("CREATE TABLE letters_data.contacts AS SELECT '1' AS id, 'Maine' AS state, true AS vip")
    return file


def test_every_table_and_column_is_there(file: Path) -> None:
    """On request, tables that were not loaded are empty; columns that were not are null, with their declared types."""
    with open_tables(file, every_table=True) as connection:
        counts = {each.name: connection.sql(f"FROM {each.name}").shape[0] for each in TABLES}
        assert counts == {each.name: int(each.name == "contacts") for each in TABLES}
        rows = connection.sql("SELECT id, state, vip, created_at, _dlt_load_id FROM contacts")
        assert rows.fetchall() == [("1", "Maine", True, None, None)]
        assert str(rows.types[3]) == "TIMESTAMP WITH TIME ZONE"


def test_a_table_that_was_not_loaded_does_not_exist(file: Path) -> None:
    """Only stored tables have views, so that no query takes a table that was not loaded for an empty one."""
    with open_tables(file) as connection:
        views = connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall()
    assert views == [("contacts",), (FINISHED,), (UNREADABLE,)]


def test_tables_that_cannot_be_read_are_named_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A view over a dropped schema does not keep other tables from being read; one warning names all such views."""
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA gone")
        for name in ("mailings", "templates"):
            connection.execute(f"CREATE TABLE gone.{name} (id VARCHAR)")
            connection.execute(f"CREATE VIEW letters_data.{name} AS FROM gone.{name}")
        connection.execute("DROP SCHEMA gone CASCADE")
    why = 'Table with name "gone.{}" does not exist because schema "gone" does not exist'
    with open_tables(file) as connection:
        assert connection.sql("SELECT id FROM contacts").fetchall() == [("1",)]
        unreadable = connection.sql(f"FROM {UNREADABLE} ORDER BY name").fetchall()
    assert unreadable == [(name, why.format(name)) for name in ("mailings", "templates")]
    words = f"{file}, dataset letters_data: mailings, templates cannot be read: {why.format('mailings')}"
    assert caplog.messages == [words]


def test_a_dataset_of_which_nothing_can_be_read_is_an_error(file: Path) -> None:
    """If no table can be read, the error names them."""
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA views")
        connection.execute("CREATE VIEW views.contacts AS FROM letters_data.contacts")
        connection.execute("DROP SCHEMA letters_data CASCADE")
    with pytest.raises(UnusableFile, match=r"contacts cannot be read: .*letters_data.*; name another path, or load"):
        open_tables(file, "views")


def test_nothing_can_be_written(file: Path) -> None:
    """Statements that write into the opened file are refused."""
    with open_tables(file) as connection:
        for statement in ("DELETE FROM stored.letters_data.contacts", "CREATE TABLE stored.letters_data.mine (id INT)"):
            with pytest.raises(duckdb.InvalidInputException, match="read-only"):
                connection.execute(statement)


def test_previous_versions_are_left_out(file: Path) -> None:
    """A table with history shows only the current versions of its rows."""
    with duckdb.connect(str(file)) as connection:
        connection.execute("ALTER TABLE letters_data.contacts ADD COLUMN _dlt_valid_to TIMESTAMPTZ")
        connection.execute("INSERT INTO letters_data.contacts SELECT '1', 'Guam', false, now()")
    with open_tables(file) as connection:
        assert connection.sql("SELECT state FROM contacts").fetchall() == [("Maine",)]


def test_staging_is_no_dataset_to_choose(file: Path) -> None:
    """The staging schema is not offered as a dataset."""
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA letters_data_staging")
        connection.execute("CREATE TABLE letters_data_staging.contacts (id VARCHAR)")
    with pytest.raises(SettingsError, match=r"found: letters_data\)"):
        open_tables(file, "spring")


def test_a_damaged_file_is_named(file: Path) -> None:
    """The error for a file that DuckDB cannot read has its path."""
    file.write_bytes(b"no database")
    with pytest.raises(UnusableFile, match="cannot be read: ") as caught:
        open_tables(file)
    assert (caught.value.file, caught.value.key) == (str(file), None)


def test_an_empty_folder_holds_no_dataset(tmp_path: Path) -> None:
    """The error for an empty folder says that no dataset was found."""
    with pytest.raises(SettingsError) as caught:
        open_tables(tmp_path)
    message = f"{tmp_path} holds no dataset letters_data (found: none); name another dataset."
    assert str(caught.value) == message


def test_reading_tables_imports_no_dlt() -> None:
    """Importing the part of the report that reads tables does not import dlt."""
    code = "import sys, letters_source.report.dataset; print('dlt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"
