"""Runs a real Airflow in one process: its scheduler decides what runs, and tasks run there, one after the other.

Airflow sets up logging, warnings and a database when it is imported, so the tests keep it out of their own process.
A line of JSON requests a run, which a fork makes, as Airflow does for its own tasks, with its own environment.
"""

import asyncio
import atexit
import gc
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from airflow import models
from airflow.api_fastapi.execution_api.app import InProcessExecutionAPI
from airflow.configuration import conf
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job, run_job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models import variable
from airflow.models.dag import DagModel
from airflow.sdk.api.client import Client
from airflow.sdk.execution_time.supervisor import in_process_api_server, run_task_in_process
from airflow.settings import configure_orm, dispose_orm
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from httpx import AsyncClient

DATABASE = Path(os.environ["AIRFLOW_HOME"]) / "airflow.db"
BLANK = DATABASE.with_name("blank.db")
INTERFACE: InProcessExecutionAPI = in_process_api_server()
"""The one that `dag.test()` takes, too."""
IMPORTED = ("letters_source.load", "letters_source.service.client", "dlt.destinations.impl.duckdb.duck", "a2wsgi")
"""What tasks import, and each fork would otherwise import again."""
IDLE_LOOPS = 6
"""Between a task and what it wakes lie some rounds in which no task begins or ends."""
MOST_ROUNDS = 10
"""How often the scheduler is started again while a run waits, on a machine where idle rounds pass more quickly."""


class InlineExecutor(BaseExecutor):
    """Runs each task at once, in this process, with an interface to Airflow that exists already."""

    def __init__(self, interface: InProcessExecutionAPI) -> None:
        super().__init__()
        self.client = Client(base_url=None, token="", dry_run=True, transport=interface.transport)
        self.client.base_url = "http://in-process.invalid./"

    def _process_workloads(self, workload_items: Sequence[Any]) -> None:
        for workload in workload_items:
            dag = read_dags().dags[workload.ti.dag_id]
            self.running.add(workload.key)
            self.queued_tasks.pop(workload.key, None)
            run_task_in_process(ti=workload.ti, task=dag.task_dict[workload.ti.task_id], client=self.client)
            self.change_state(workload.key, workload.success_state)

    def sync(self) -> None:
        """Do nothing: no task is running between two rounds."""

    def end(self) -> None:
        """Do nothing: no task is running at the end."""


def read_dags() -> BundleDagBag:
    """The DAGs of the folder, as this process's environment makes them."""
    folder = Path(conf.get("core", "dags_folder"))
    return BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")


def prepare() -> dict[str, str]:
    """Create the database with the DAGs, paused, and keep a copy of it."""
    initdb()
    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    dags = read_dags()
    sync_bag_to_db(dags, "dags-folder", None)
    for module in IMPORTED:
        import_module(module)
    dispose_orm()
    shutil.copy(DATABASE, BLANK)
    return {str(file): error for file, error in dags.import_errors.items()}


async def warm_up() -> None:
    """Send Airflow's interface one request: making routes at the first takes three of a fork's four seconds."""
    async with AsyncClient(transport=INTERFACE.atransport, base_url="http://in-process.invalid") as client:
        (await client.get("/health")).raise_for_status()


def restore() -> None:
    """Restore the database from before any run, and the files that SQLite keeps next to it."""
    for leftover in DATABASE.parent.glob(f"{DATABASE.name}-*"):
        leftover.unlink()
    shutil.copy(BLANK, DATABASE)


def schedule(dag_ids: Sequence[str], pools: Mapping[str, int]) -> None:
    """Let the scheduler run the DAGs, and what follows them, until nothing is left to do."""
    for pool, slots in pools.items():
        models.Pool.create_or_update_pool(pool, slots, description="", include_deferred=False)
    with create_session() as session:
        for model in session.query(DagModel).filter(DagModel.dag_id.in_(dag_ids)):
            model.is_paused = False
    for _ in range(MOST_ROUNDS):
        executor = InlineExecutor(INTERFACE)
        runner = SchedulerJobRunner(job=Job(), num_runs=IDLE_LOOPS, only_idle=True, executors=[executor])
        run_job(job=runner.job, execute_callable=runner._execute)
        # what an asset has triggered may be seen only when the loop has been idle for long enough
        if not is_queued():
            return


def is_queued() -> bool:
    """Whether a run waits to start."""
    with create_session() as session:
        return session.query(models.DagRun).filter(models.DagRun.state == "queued").count() > 0


def test(dag_id: str, logical_date: str, params: Mapping[str, Any]) -> None:
    """Run a DAG as `dag.test()` does."""
    read_dags().dags[dag_id].test(logical_date=datetime.fromisoformat(logical_date), run_conf=dict(params))


def print_settings() -> None:
    """Print the settings that loads take from the connection."""
    from letters_source.airflow import connection_settings

    print(json.dumps(connection_settings()), flush=True)


def answer(request: dict[str, Any]) -> None:
    """Run the requested function with its variables in the environment and its output in a file."""
    os.environ.update(request["environment"])
    output = os.open(request["log"], os.O_CREAT | os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    configure_orm()
    for name, value in request["variables"].items():
        variable.Variable.set(name, value)
    FUNCTIONS[request["function"]](*request["arguments"])


FUNCTIONS: dict[str, Callable[..., None]] = {"schedule": schedule, "test": test, "print_settings": print_settings}


def main(answers_to: str) -> None:
    """Answer until there are no more requests, through a pipe that nothing else writes to."""
    answers = os.fdopen(int(answers_to), "w")
    errors = prepare()
    asyncio.run(warm_up())
    # garbage collection in a fork would scan all that is made here
    gc.freeze()
    gc.enable()
    print(json.dumps(errors), file=answers, flush=True)
    for line in sys.stdin:
        restore()
        child = get_context("fork").Process(target=answer, args=(json.loads(line),))
        child.start()
        child.join()
        print("{}", file=answers, flush=True)
    # without the two seconds that the threads of Airflow's interface take to end
    atexit._run_exitfuncs()
    os._exit(0)
