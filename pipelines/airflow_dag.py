"""Airflow 3: load templates and contacts every day, several accounts side by side, and follow up; to copy and edit."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, get_current_context, task, task_group

from letters_source.airflow import ASSETS, CONTACTS, airflow_failures, announce, extra_of, load_task

ARGUMENTS = {"retries": 3, "retry_delay": timedelta(minutes=5)}
DAILY: dict[str, Any] = {"schedule": "@daily", "start_date": datetime(2024, 1, 1, tzinfo=UTC), "catchup": False}


@dag(**DAILY, max_active_runs=1, default_args=ARGUMENTS, params={"to": os.environ.get("LETTERS_FILE", "/data/letters.duckdb")})
def letters() -> None:
    """Load the token's own account; an asset for each group of tables tells of it."""

    @task(outlets=ASSETS)
    def load(params: dict[str, Any], outlet_events: Any) -> None:
        from letters_source import make_pipeline

        announce(load_task(make_pipeline("duckdb", params["to"]), get_current_context()), outlet_events)

    load()


ACCOUNTS: dict[str, Any] = {
    "to": os.environ.get("LETTERS_ACCOUNTS_FILE", "/data/letters_accounts.duckdb"),
    "accounts": ["501", "502"],
}


@dag(**DAILY, max_active_runs=1, default_args=ARGUMENTS, params=ACCOUNTS)
def letters_accounts() -> None:
    """Load accounts side by side, each into a file of its own, and one after the other into the file that unites them."""

    @task
    def accounts(params: dict[str, Any]) -> list[str]:
        return params["accounts"]

    @task(pool="letters_service")
    def load(account: str, params: dict[str, Any]) -> dict[str, Any]:
        from letters_source.unite import own_pipeline

        pipeline = own_pipeline(account=account, **params)
        return extra_of(load_task(pipeline, get_current_context(), account_id=account), "contacts")

    @task(pool="letters_writer")
    def unite(account: str, loaded: dict[str, Any], params: dict[str, Any]) -> None:
        from letters_source.unite import unite_account

        with airflow_failures():
            unite_account(account=account, **params)

    @task_group
    def account(account: str) -> None:
        unite(account, load(account))

    account.expand(account=accounts())


@dag(schedule=[CONTACTS])
def letters_follow() -> None:
    """What may follow a load of contacts: here, tell what it brought."""

    @task
    def tell(triggering_asset_events: Any) -> None:
        for event in triggering_asset_events[CONTACTS]:
            print(event.extra["load_id"], event.extra["verdict"], event.extra["rows"])

    tell()


letters()
letters_accounts()
letters_follow()
