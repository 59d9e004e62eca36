"""Airflow parses the files quickly and without side effects."""

import subprocess
import sys
from pathlib import Path

import pytest
from airflows import DAGS
from closed import reached

FILES = sorted(DAGS.glob("airflow*_dag.py"))
HEAVY = {"dlt", "duckdb", "pyarrow", "requests", "numpy", "letters_source.load"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_reading_a_file_reaches_for_nothing(tmp_path: Path, file: Path) -> None:
    """No network, no file, no secret: what the libraries look for themselves is imported before."""
    assert reached(file, tmp_path, "airflow.sdk", "croniter") == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_reading_a_file_imports_nothing_heavy(tmp_path: Path, file: Path) -> None:
    """Airflow reads it every half minute, and before each task."""
    code = f"import runpy, sys, airflow.sdk; runpy.run_path({str(file)!r}); print(*sys.modules, sep='\\n')"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    imported = set(ended.stdout.splitlines())
    assert "letters_source.airflow" in imported
    assert not imported & HEAVY
