"""Dagster definitions to copy and edit: the tables of the tokens' own account, and of more accounts as partitions."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from letters_source.dagster import SERVICE, LettersResource, LettersTranslator, asset_specs, letters_checks

RETRIES = dg.RetryPolicy(max_retries=3, delay=60, backoff=dg.Backoff.EXPONENTIAL)
ACCOUNTS = dg.DynamicPartitionsDefinition(name="letters_accounts")
OWNERS = ["team:letters"]
OWN = asset_specs(LettersTranslator(owners=OWNERS))
OF_ACCOUNTS = asset_specs(
    # each account has a dataset of its own
    LettersTranslator(prefix=["letters_accounts"], group="letters_accounts", dataset=None, owners=OWNERS)
)


@dg.multi_asset(specs=OWN, can_subset=True, pool="letters", retry_policy=RETRIES)
def letters_tables(context: dg.AssetExecutionContext, letters: LettersResource) -> Iterator[Any]:
    """Load both listings completely, or fail."""
    yield from letters.materialize(context)


@dg.multi_asset(specs=OF_ACCOUNTS, can_subset=True, pool="letters", retry_policy=RETRIES, partitions_def=ACCOUNTS)
def account_tables(context: dg.AssetExecutionContext, letters: LettersResource) -> Iterator[Any]:
    """Load both listings of an account completely, or fail."""
    yield from letters.materialize(context)


@dg.schedule(target=[account_tables], cron_schedule="0 6 * * *")
def letters_accounts_daily(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
    """Request a run for each account."""
    accounts = ACCOUNTS.get_partition_keys(dynamic_partitions_store=context.instance)
    return [dg.RunRequest(run_key=account, partition_key=account) for account in accounts]


defs = dg.Definitions(
    assets=[SERVICE, letters_tables, account_tables],
    asset_checks=[letters_checks(letters_tables), letters_checks(account_tables)],
    schedules=[
        dg.ScheduleDefinition("letters_daily", target=[letters_tables], cron_schedule="0 5 * * *"),
        letters_accounts_daily,
    ],
    resources={
        "letters": LettersResource(
            base_url=dg.EnvVar("SOURCES__LETTERS__BASE_URL"),
            access_token=dg.EnvVar("SOURCES__LETTERS__ACCESS_TOKEN"),
            refresh_token=dg.EnvVar("SOURCES__LETTERS__REFRESH_TOKEN"),
            to="letters.duckdb",
        )
    },
)
