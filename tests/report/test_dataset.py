"""All tables can be read, whatever was loaded, and none can be written."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from letters_source import SettingsError, UnusableFile
from letters_source.report.dataset import open_tables
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
    """Tables and columns that were not loaded are empty, with their declared types."""
    with open_tables(file) as connection:
        counts = {each.name: connection.sql(f"FROM {each.name}").shape[0] for each in TABLES}
        assert counts == {each.name: int(each.name == "contacts") for each in TABLES}
        rows = connection.sql("SELECT id, state, vip, created_at, _dlt_load_id FROM contacts")
        assert rows.fetchall() == [("1", "Maine", True, None, None)]
        assert str(rows.types[3]) == "TIMESTAMP WITH TIME ZONE"


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
