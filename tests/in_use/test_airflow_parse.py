"""Airflow parses the files quickly and without side effects."""

import pytest
from airflows import DAGS
from closed import Imported, import_closed

FILES = sorted(DAGS.glob("airflow*_dag.py"))
HEAVY = {"dlt", "duckdb", "pyarrow", "requests", "numpy", "letters_source.load"}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """What reading the files of DAGs does, apart from what the libraries do."""
    return import_closed(FILES, tmp_path_factory.mktemp("parse"), "airflow.sdk", "croniter")


def test_reading_the_files_opens_nothing(imported: Imported) -> None:
    """Reading the files of DAGs opens no network, file or secret."""
    assert len(FILES) == 3
    assert imported.reached == []


def test_reading_the_files_imports_nothing_heavy(imported: Imported) -> None:
    """Reading the files of DAGs, which Airflow does every half minute, imports neither dlt nor the loader."""
    assert {"letters_source.airflow", *HEAVY}.intersection(imported.modules) == {"letters_source.airflow"}
