"""Airflow 3: load templates and contacts every day, several accounts side by side, and follow up; to copy and edit."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import dag, task, task_group

from letters_source.airflow import ASSETS, CONTACTS, UNITED, airflow_failures, announce, extra_of, load_task

FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
ONE_BY_ONE: dict[str, Any] = {
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {"retries": 3, "retry_delay": timedelta(minutes=5)},
}
FILE = {"to": os.environ.get("LETTERS_FILE", "/data/letters.duckdb")}
ACCOUNTS = {
    "to": os.environ.get("LETTERS_ACCOUNTS_FILE", "/data/letters_accounts.duckdb"),
    "accounts": ["501", "502"],
}


@dag(schedule="@daily", start_date=FIRST_DAY, params=FILE, **ONE_BY_ONE)
def letters() -> None:
    """Load the token's own account; an asset for each group of tables tells of it."""

    @task(outlets=ASSETS)
    def load(**context: Any) -> None:
        from letters_source import make_pipeline

        result = load_task(partial(make_pipeline, "duckdb", context["params"]["to"]))
        announce(result, context["outlet_events"])

    load()


@dag(schedule="@daily", start_date=FIRST_DAY, params=ACCOUNTS, **ONE_BY_ONE)
def letters_accounts() -> None:
    """Load accounts side by side, each into its own file, and bring them one by one into the file that unites them."""

    @task
    def accounts(**context: Any) -> Any:
        return context["params"]["accounts"]

    @task(pool="letters_service")
    def load(account: str, **context: Any) -> dict[str, Any]:
        from letters_source.unite import own_pipeline

        result = load_task(partial(own_pipeline, account=account, **context["params"]), account_id=account)
        return extra_of(result)

    @task(pool="letters_writer", outlets=[UNITED])
    def unite(account: str, extra: Any, **context: Any) -> None:
        from letters_source.unite import unite_account

        with airflow_failures():
            unite_account(account=account, **context["params"])
        context["outlet_events"][UNITED].extra.update(extra, account_id=account)

    @task_group
    def account(account: str) -> None:
        unite(account, load(account))

    account.expand(account=accounts())


@dag(schedule=[CONTACTS])
def letters_follow() -> None:
    """What may follow a load of contacts: here, tell what it brought."""

    @task
    def tell(**context: Any) -> None:
        for event in context["triggering_asset_events"][CONTACTS]:
            print(event.extra["load_id"], event.extra["verdict"], event.extra["rows"])

    tell()


letters()
letters_accounts()
letters_follow()
