"""An Airflow 3 DAG to copy and edit: read one large listing in parts, in mapped tasks, and load it in one."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import dag, task

from letters_source.airflow import CONTACTS, GROUP, extra_of, load_task, plan_task, read_task

PARTS = {
    # a folder or a bucket that all workers reach
    "parts": os.environ.get("LETTERS_PARTS", "/data/letters_parts"),
    "number": 8,
    "to": os.environ.get("LETTERS_FILE", "/data/letters.duckdb"),
}


@dag(
    description="Read contacts in parts by parallel tasks every day, and load them in one.",
    tags=[GROUP],
    schedule="@daily",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "letters", "retries": 3, "retry_delay": timedelta(minutes=5)},
    params=PARTS,
)
def letters_parts() -> None:
    """Plan the parts, read each in a task of its own, and load them if they prove that no row was missed."""

    @task
    def plan(**context: Any) -> Any:
        return plan_task("contacts", context["params"]["number"], parts=context["params"]["parts"])

    # each task has its own limit on requests: the service sees at most that limit times the pool's slots
    @task(pool="letters_service")
    def read(place: int, **context: Any) -> int:
        return read_task("contacts", place, parts=context["params"]["parts"])

    @task(outlets=[CONTACTS])
    def load(read: Any, **context: Any) -> None:  # noqa: ARG001 -- waits for all parts
        from letters_source import make_pipeline

        make = partial(make_pipeline, to=context["params"]["to"])
        result = load_task(make, only=("contacts",), parts=context["params"]["parts"])
        context["outlet_events"][CONTACTS].extra.update(extra_of(result))

    places: Any = plan()
    load(read.expand(place=places))


letters_parts()
