"""Airflow 3 DAGs to copy and edit: load templates and contacts every day, and run another DAG after each load."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import dag, task

from letters_source.airflow import ASSETS, CONTACTS, GROUP, announce, load_task

OWNER = "letters"
FILE = {"to": os.environ.get("LETTERS_FILE", "/data/letters.duckdb")}


@dag(
    description="Load templates and contacts every day, complete or not at all.",
    tags=[GROUP],
    schedule="@daily",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": OWNER, "retries": 3, "retry_delay": timedelta(minutes=5)},
    params=FILE,
)
def letters() -> None:
    """Load the token's own account, and update an asset for each group of tables."""

    @task(outlets=ASSETS)
    def load(**context: Any) -> None:
        from letters_source import make_pipeline

        result = load_task(partial(make_pipeline, "duckdb", context["params"]["to"]))
        announce(result, context["outlet_events"])

    load()


@dag(
    description="Print what each load of contacts brought.",
    tags=[GROUP],
    schedule=[CONTACTS],
    default_args={"owner": OWNER},
)
def letters_follow() -> None:
    """An example of a downstream DAG: print what each load of contacts brought."""

    @task
    def show(**context: Any) -> None:
        for event in context["triggering_asset_events"][CONTACTS]:
            print(event.extra["load_id"], event.extra["verdict"], event.extra["rows"])

    show()


letters()
letters_follow()
