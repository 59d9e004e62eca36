"""An Airflow 3 DAG to copy and edit: load several accounts in parallel every day, and copy them into one file."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import dag, task, task_group

from letters_source.airflow import GROUP, UNITED, accounts_of, airflow_failures, compare_accounts, extra_of, load_task

ACCOUNTS = {
    "to": os.environ.get("LETTERS_ACCOUNTS_FILE", "/data/letters_accounts.duckdb"),
    "accounts": ["501", "502"],
}


@dag(
    description="Load several accounts in parallel every day, and copy them into one file.",
    tags=[GROUP],
    schedule="@daily",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "letters", "retries": 3, "retry_delay": timedelta(minutes=5)},
    params=ACCOUNTS,
)
def letters_accounts() -> None:
    """Load accounts in parallel, each into its own file, and copy them one by one into the shared file."""

    @task
    def accounts(**context: Any) -> Any:
        found = accounts_of(context["params"])
        compare_accounts(found)
        return found

    @task(pool="letters_service")
    def load(account: str, **context: Any) -> dict[str, Any]:
        from letters_source import own_pipeline

        result = load_task(partial(own_pipeline, account=account, **context["params"]), account_id=account)
        return extra_of(result)

    @task(pool="letters_writer", outlets=[UNITED])
    def unite(account: str, extra: Any, **context: Any) -> None:
        from letters_source import unite_account

        with airflow_failures():
            unite_account(account=account, **context["params"])
        context["outlet_events"][UNITED].extra.update(extra, account_id=account)

    # show the account instead of 0, 1, ...
    @task_group(default_args={"map_index_template": "{{ task.op_kwargs.account }}"})
    def account(account: str) -> None:
        unite(account=account, extra=load(account=account))

    account.expand(account=accounts())


letters_accounts()
