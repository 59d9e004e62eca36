"""Kills loads in their own processes, and checks what must be true afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdings import LISTED, held_tables, query, read_tables
from row_changes import amend

from programmable_emulator import Emulator

SCRIPT = Path(__file__).parents[1] / "killed_loads.py"
KILLED = -9
Tables = dict[str, Any]


@dataclass
class Killer:
    """A process that forks loads into a file, and the emulator that they read."""

    process: subprocess.Popen[str]
    emulator: Emulator
    file: Path
    changes: int = 0

    @property
    def working(self) -> Path:
        """dlt's working folder of these loads."""
        [found] = self.file.parent.glob("dlt/letters/*/letters")
        return found

    def load(self, chosen: str = "") -> int:
        """How a load ended that was killed at the chosen step; stdout has the steps of a load that was not killed."""
        return int(self.answers(chosen)[-1])

    def steps(self) -> list[str]:
        """The steps of a load that is not killed."""
        steps: list[str] = json.loads(self.answers("9999999")[0])
        return steps

    def answers(self, chosen: str) -> list[str]:
        """The lines of the answer to a load: the last one says how it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{chosen}\n")
        self.process.stdin.flush()
        lines = [self.process.stdout.readline()]
        while lines[-1].startswith("["):
            lines.append(self.process.stdout.readline())
        return lines

    def kill(self, chosen: str) -> None:
        """Change the rows and kill a load of them: the tables hold the old or the new ones; the next load is exact."""
        old = held_tables(self.emulator)
        self.change()
        new = held_tables(self.emulator)
        assert self.load(chosen) == KILLED, chosen
        self.holds(old, new)
        # the service no longer holds what the killed load had read
        self.change()
        newest = held_tables(self.emulator)
        assert self.load() == 0, chosen
        self.holds(newest, newest)
        self.is_clean()

    def change(self) -> None:
        """Replace a contact and a template, and give a contact another city."""
        self.changes += 1
        for listing in (self.emulator.contacts, self.emulator.templates):
            listing.delete(0)
            listing.grow()
        amend(self.emulator.contacts, self.emulator.contacts.ids()[3], city=f"Newtown {self.changes}")

    def holds(self, old: Tables, new: Tables) -> None:
        """Assert that all tables are exactly the old ones, or all the new ones."""
        tables = read_tables(self.file)
        is_old, is_new = ({name: tables[name] == then[name] for name in LISTED} for then in (old, new))
        assert all(is_old.values()) or all(is_new.values()), (is_old, is_new)

    def is_clean(self) -> None:
        """Assert that each finished load is listed once, and no rows are left in the working folder."""
        [(loads, distinct)] = query(self.file, "select count(*), count(distinct load_id) from letters_data._dlt_loads")
        assert loads == distinct
        for table in ("listing_audit", "rejected_rows"):
            unlisted = "_dlt_load_id not in (select load_id from letters_data._dlt_loads)"
            assert query(self.file, f"select * from letters_data.{table} where {unlisted}") == []
        left = [path for path in self.working.rglob("*") if path.suffix in (".parquet", ".jsonl", ".sql", ".arrow")]
        assert left == []
        assert [path for path in self.working.glob("normalize/*") if path.is_dir() and path.name != "extracted"] == []
        assert list(self.working.glob("normalize/extracted/*")) == []
        assert list(self.working.glob("load/normalized/*")) == []


@contextmanager
def killing(folder: Path, emulator: Emulator, **settings: Any) -> Iterator[Killer]:
    """Loads with these settings into a file in the folder, which holds what the emulator holds."""
    off = ("RUNTIME__DLTHUB_TELEMETRY", "PROVIDERS__ENABLE_AIRFLOW_SECRETS")
    environment = {
        **os.environ,
        **dict.fromkeys(off, "false"),
        "DLT_DATA_DIR": str(folder / "dlt"),
        "RUNTIME__LOG_LEVEL": "CRITICAL",
    }
    file = folder / "letters.duckdb"
    with emulator.serve() as base_url:
        tokens = {"access_token": emulator.access_token, "refresh_token": emulator.refresh_token}
        given = json.dumps({"base_url": base_url, **tokens, **settings})
        command = [sys.executable, str(SCRIPT), given, str(file)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        ) as process:
            killer = Killer(process, emulator, file)
            assert killer.load() == 0
            yield killer
            assert process.stdin is not None
            process.stdin.close()
