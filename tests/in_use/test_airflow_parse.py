"""Can Airflow read the file at any moment, quickly and without touching anything?"""

import subprocess
import sys
from pathlib import Path

from airflows import DAGS
from closed import reached

FILE = DAGS / "airflow_dag.py"
HEAVY = {"dlt", "duckdb", "pyarrow", "requests", "numpy", "letters_source.load"}


def test_reading_the_file_reaches_for_nothing(tmp_path: Path) -> None:
    """No network, no file, no secret: what the libraries look for themselves is imported before."""
    assert reached(FILE, tmp_path, "airflow.sdk", "croniter") == []


def test_reading_the_file_imports_nothing_heavy(tmp_path: Path) -> None:
    """Airflow reads it every half minute, and before each task."""
    code = f"import runpy, sys, airflow.sdk; runpy.run_path({str(FILE)!r}); print(*sys.modules, sep='\\n')"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    imported = set(ended.stdout.splitlines())
    assert "letters_source.airflow" in imported
    assert not imported & HEAVY
