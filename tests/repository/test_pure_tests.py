"""Tests of pure rooms import neither dlt nor the emulator."""

import subprocess
import sys

from document import ROOT

SCRIPT = """
import sys
import pytest

status = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "--assert=plain", *sys.argv[1:]])
print([name for name in ("dlt", "duckdb", "requests", "letters_source.emulator") if name in sys.modules])
sys.exit(status)
"""


def test_tests_of_pure_rooms_import_neither_dlt_nor_the_emulator() -> None:
    """Collecting the tests of pure rooms imports neither dlt, DuckDB, requests nor the emulator."""
    rooms = ("decode", "extract", "pagination", "transform")
    command = [sys.executable, "-c", SCRIPT, *(f"tests/{room}" for room in rooms)]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (collected.returncode, collected.stdout.splitlines()[-1]) == (0, "[]"), collected.stdout
