"""Airflow parses the files quickly and without side effects."""

import subprocess
import sys
from pathlib import Path

from airflows import DAGS
from closed import reached

FILES = sorted(DAGS.glob("airflow*_dag.py"))
HEAVY = {"dlt", "duckdb", "pyarrow", "requests", "numpy", "letters_source.load"}


def test_reading_the_files_reaches_for_nothing(tmp_path: Path) -> None:
    """Reading the files of DAGs opens no network, file or secret, apart from what the libraries open."""
    assert len(FILES) == 3
    assert reached(FILES, tmp_path, "airflow.sdk", "croniter") == []


def test_reading_the_files_imports_nothing_heavy(tmp_path: Path) -> None:
    """Reading the files of DAGs, which Airflow does every half minute, imports neither dlt nor the loader."""
    paths = [str(file) for file in FILES]
    code = f"import runpy, sys, airflow.sdk; [*map(runpy.run_path, {paths})]; print(*sys.modules, sep='\\n')"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    imported = set(ended.stdout.splitlines())
    assert imported & {"letters_source.airflow", *HEAVY} == {"letters_source.airflow"}
