"""Airflow 3 DAG: load several accounts in parallel every day, and combine them in one file. Copy and edit."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import dag, task, task_group

from letters_source.airflow import GROUP, UNITED, accounts_of, airflow_failures, extra_of, load_task

ACCOUNTS = {
    "to": os.environ.get("LETTERS_ACCOUNTS_FILE", "/data/letters_accounts.duckdb"),
    "accounts": ["501", "502"],
}


@dag(
    description="Load several accounts in parallel every day, and combine them in one file.",
    tags=[GROUP],
    schedule="@daily",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "letters", "retries": 3, "retry_delay": timedelta(minutes=5)},
    params=ACCOUNTS,
)
def letters_accounts() -> None:
    """Load each account into its own file, in parallel, and copy them one by one into the file that combines them."""

    @task
    def accounts(**context: Any) -> Any:
        return accounts_of(context["params"])

    @task(pool="letters_service")
    def load(account: str, **context: Any) -> dict[str, Any]:
        from letters_source.destination.combine import own_pipeline

        result = load_task(partial(own_pipeline, account=account, **context["params"]), account_id=account)
        return extra_of(result)

    @task(pool="letters_writer", outlets=[UNITED])
    def unite(account: str, extra: Any, **context: Any) -> None:
        from letters_source.destination.combine import unite_account

        with airflow_failures():
            unite_account(account=account, **context["params"])
        context["outlet_events"][UNITED].extra.update(extra, account_id=account)

    # show the account on each mapped task, not its index
    @task_group(default_args={"map_index_template": "{{ task.op_kwargs.account }}"})
    def account(account: str) -> None:
        unite(account=account, extra=load(account=account))

    account.expand(account=accounts())


letters_accounts()
