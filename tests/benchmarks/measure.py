"""Runs a contestant as a process of its own, and measures it.

Standard library only, and little of it: Linux includes a parent's memory at the start of a child in the child's peak.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from service import Service

PII_KEY = "a key for the benchmark"
CONTESTANTS = Path(__file__).with_name("contestants")
COMMANDS: dict[str, tuple[str, ...]] = {
    "ours": (
        str(Path(sys.executable).with_name("letters")),
        *("load", "--quiet", "--to", "{file}", "--page-size", "{page_size}"),
    ),
    "rest_api": (sys.executable, str(CONTESTANTS / "rest_api.py"), "{file}", "{page_size}"),
    "rest_api parquet": (sys.executable, str(CONTESTANTS / "rest_api.py"), "{file}", "{page_size}", "parquet"),
    "hand-tuned": (sys.executable, str(CONTESTANTS / "hand_tuned.py"), "{file}", "{page_size}"),
    "floor": (sys.executable, str(CONTESTANTS / "floor.py"), "{file}", "{page_size}"),
}
# a process of its own, so that DuckDB's memory is not the parent's
COUNT_ROWS = """
import json, sys, duckdb
tables = {"contacts": "contacts", "labels": "contacts__contact_labels", "templates": "templates"}
with duckdb.connect(sys.argv[1], read_only=True) as database:
    count = lambda table: database.execute(f"select count(*) from letters_data.{table}").fetchone()[0]
    print(json.dumps({name: count(table) for name, table in tables.items()}))
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a scenario's table.

    Args:
        contestant: which one, as `COMMANDS` names it.
        label: the name of the line, unless it is that of its contestant.
        runs: the most runs worth their time; as many as requested when None.
        warm_up: whether a run that does not count comes first.
        options: further options of our command.
        again: whether the load is measured into a file that an equal load has filled.
    """

    contestant: str
    label: str = ""
    page_size: int = 1000
    behavior: Mapping[str, Any] = field(default_factory=dict, hash=False)
    runs: int | None = None
    warm_up: bool = True
    options: tuple[str, ...] = ()
    again: bool = False

    @property
    def name(self) -> str:
        """The name of the line."""
        return self.label or self.contestant


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a contestant: its time and memory, what it left in its tables, and its requests.

    Args:
        wall: seconds from start to end of the process.
        cpu: seconds of all its threads and processes, user and system.
        peak: the largest resident size of any one of its processes, in MB.
        trouble: why the load is incomplete; empty if it is complete.
        traffic: requests made, in all, by listing and by status.
    """

    wall: float
    cpu: float
    peak: float
    trouble: str
    traffic: Mapping[str, int]


def child_environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: no settings of dlt from outside, byte code kept, no telemetry, its own folders."""
    kept = {key: value for key, value in os.environ.items() if "__" not in key and key != "PYTHONDONTWRITEBYTECODE"}
    given = {f"SOURCES__LETTERS__{key}".upper(): value for key, value in {**settings, "pii_key": PII_KEY}.items()}
    return {**kept, **given, "DLT_DATA_DIR": str(folder / "dlt"), "RUNTIME__DLTHUB_TELEMETRY": "false"}


def measure(entry: Entry, service: Service) -> Run:
    """Run a contestant once, in a fresh folder, and see whether it loaded all rows."""
    with tempfile.TemporaryDirectory(prefix="letters-benchmark-") as name:
        folder = Path(name)
        file, output = folder / "loaded.duckdb", folder / "output.txt"
        command = [part.format(file=file, page_size=entry.page_size) for part in COMMANDS[entry.contestant]]
        command += entry.options
        environment = child_environment(folder, service.settings)
        if entry.again:
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        service.behave(**entry.behavior)
        with output.open("w") as sink:
            start = perf_counter()
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=sink, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            wall = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        trouble = find_trouble(process.returncode, output, file, service.rows)
        return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, trouble, service.behave())


def find_trouble(code: int, output: Path, file: Path, rows: Mapping[str, int]) -> str:
    """Why a run's load is incomplete; empty if it is complete."""
    if code:
        lines = output.read_text().strip().splitlines() or [""]
        return f"exit {code}: {lines[-1][:200]}"
    found = count_rows(file)
    return "; ".join(f"{found[name]:,} of {wanted:,} {name}" for name, wanted in rows.items() if found[name] != wanted)


def count_rows(file: Path) -> dict[str, int]:
    """How many contacts, labels and templates a DuckDB file holds."""
    command = [sys.executable, "-c", COUNT_ROWS, str(file)]
    counted = subprocess.run(command, check=True, capture_output=True)
    found: dict[str, int] = json.loads(counted.stdout)
    return found
