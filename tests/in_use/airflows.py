"""Runs DAGs in a real Airflow, and returns the results."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

HERE = Path(__file__).parent
DAGS = HERE.parents[1] / "pipelines"
START = "import gc, sys; gc.disable(); import airflow_runs; airflow_runs.main(sys.argv[1])"
"""Until it is ready, garbage collections would take a third of the time."""
SETTINGS = {
    "CORE__DAGS_FOLDER": str(DAGS),
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.01",
    # the previous names of Airflow's metrics are in a file that each run would read
    "METRICS__LEGACY_NAMES_ON": "False",
    # only workers and servers in other processes would need to agree on it
    "API_AUTH__JWT_SECRET": "of tests alone, which no server and no worker ever has to show to another",
}

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Ran:
    """The contents of Airflow's database and log after a run."""

    tasks: set[Row]
    runs: set[Row]
    events: list[Row]
    labels: set[Row]
    log: str

    def extras(self, asset: str) -> list[dict[str, Any]]:
        """The extra of each event of an asset."""
        return [json.loads(extra) for name, extra in self.events if name == asset]


@dataclass(frozen=True)
class Airflow:
    """An Airflow in its own process; each run starts with a database without runs."""

    home: Path
    process: subprocess.Popen[str]
    answers: TextIO
    import_errors: dict[str, str]
    logs: list[Path] = field(default_factory=list)

    def schedule(self, *dags: str, pools: Mapping[str, int] | None = None, **rest: Any) -> Ran:
        """Let the scheduler run these DAGs until nothing is left to do."""
        return self.ask("schedule", [dags, pools or {}], **rest)

    def test(self, dag: str, logical_date: str, params: Mapping[str, Any] | None = None, **rest: Any) -> Ran:
        """Run a DAG by its own `test()`."""
        return self.ask("test", [dag, logical_date, params or {}], **rest)

    def known(self, query: str) -> set[Row]:
        """Return the contents of Airflow's database."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as connection:
            return set(connection.execute(query))

    def ask(
        self,
        what: str,
        arguments: Sequence[Any],
        environment: Mapping[str, object],
        variables: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a function with these environment variables, and Airflow's own variables."""
        log = self.home / f"{len(self.logs)}.log"
        self.logs.append(log)
        environment = {name: str(value) for name, value in environment.items()}
        request = {"function": what, "arguments": arguments, "environment": environment, "variables": variables or {}}
        assert self.process.stdin
        print(json.dumps({**request, "log": str(log)}), file=self.process.stdin, flush=True)
        assert self.answers.readline() == "{}\n"
        return read_run(self.home / "airflow.db", log.read_text())


def read_run(database: Path, log: str) -> Ran:
    """Read the run from Airflow's database."""
    with closing(sqlite3.connect(database)) as connection:
        tasks = connection.execute("SELECT dag_id, task_id, map_index, state, try_number, pool FROM task_instance")
        runs = connection.execute("SELECT dag_id, run_type, state FROM dag_run")
        events = connection.execute(
            "SELECT name, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_id ORDER BY asset_event.id"
        )
        labels = connection.execute(
            "SELECT task_id, map_index, rendered_map_index FROM task_instance WHERE map_index >= 0"
        )
        return Ran(set(tasks), set(runs), list(events), set(labels), log)


@contextmanager
def started_airflow(home: Path) -> Iterator[Airflow]:
    """An Airflow whose files lie in a folder."""
    own = {f"AIRFLOW__{name}": value for name, value in SETTINGS.items()}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SOURCES__", "PROVIDERS__"))}
    environment = {
        **inherited,
        **own,
        "AIRFLOW_HOME": str(home),
        "HOME": str(home),
        "DLT_DATA_DIR": str(home),
        "PYTHONPATH": str(HERE),
    }
    reading, writing = os.pipe()
    with (home / "airflow.log").open("w") as log, os.fdopen(reading) as answers:
        process = subprocess.Popen(
            [sys.executable, "-c", START, str(writing)],
            env=environment,
            cwd=home,
            text=True,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[writing],
        )
        os.close(writing)
        with process:
            yield Airflow(home, process, answers, json.loads(answers.readline()))
