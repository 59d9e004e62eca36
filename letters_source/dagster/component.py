"""The Dagster component: a `defs.yaml` instead of definitions in Python."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from letters_source.config.settings import KINDS_IN_WORDS, Kind
from letters_source.dagster.assets import SERVICE, LettersTranslator, asset_specs
from letters_source.dagster.resource import LettersResource, account_keys, check_overrides, letters_checks
from letters_source.tables import DATASET

RETRIES = dg.RetryPolicy(max_retries=3, delay=60, backoff=dg.Backoff.EXPONENTIAL)
# a run decides by which tables it selects
BY_SELECTION = ("facets", "mailings")


def about(meaning: str) -> dg.Resolver:
    """Return what an attribute means; Dagster does not read descriptions of pydantic's fields."""
    resolver: dg.Resolver = dg.Resolver.default(description=meaning)
    return resolver


class LettersComponent(dg.Component, dg.Resolvable, dg.Model):
    """Loads templates and contacts of the letter mailing service: an asset for each table, checks and a schedule.

    Tokens, and all settings that are not given, come from dlt's configuration.
    """

    destination: Annotated[Kind, about(f"{KINDS_IN_WORDS}.")] = "duckdb"
    to: Annotated[str | None, about("The DuckDB file; for files the folder, or s3://bucket/folder.")] = None
    dataset: Annotated[str, about("The dataset; accounts have their own, <dataset>_<account>.")] = DATASET
    settings: Annotated[
        dict[str, Any], about("Settings as for run(), without secrets; facets and mailings also add their assets.")
    ] = Field(default_factory=dict)
    accounts: Annotated[str | None, about("Dynamic partitions whose keys are the accounts to load.")] = None
    group: Annotated[str | None, about("The assets' group, by default letters or the value of accounts.")] = None
    schedule: Annotated[str | None, about("When to load, as a cron expression; null for never.")] = "0 5 * * *"

    @property
    def name(self) -> str:
        """The group, the resource's key, and the prefix of the names of steps and of the schedule."""
        return self.group or self.accounts or "letters"

    @property
    def service(self) -> dg.AssetKey:
        """The asset that the tables come from; two components cannot share one, because Dagster notes its origin."""
        return dg.AssetKey(f"{self.name}_service")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 -- Dagster's signature
        """Return the assets, their checks, the resource that loads them, and the schedule."""
        tables = self.tables()
        return dg.Definitions(
            assets=[SERVICE.replace_attributes(key=self.service), tables],
            asset_checks=[letters_checks(tables, self.name)],
            schedules=[scheduled(tables, self.name, self.schedule)] if self.schedule else [],
            resources={self.name: self.resource()},
        )

    def resource(self) -> LettersResource:
        """Return the resource that loads and checks. Override it to load anywhere else."""
        overrides = {name: value for name, value in self.settings.items() if name not in BY_SELECTION}
        return LettersResource(destination=self.destination, to=self.to, dataset=self.dataset, overrides=overrides)

    def specs(self) -> Sequence[dg.AssetSpec]:
        """Return the assets of the tables. Override it to change keys, tags and the like."""
        settings = check_overrides(self.settings)
        prefix, dataset = (self.accounts, None) if self.accounts else (self.dataset, self.dataset)
        translator = LettersTranslator([prefix], self.name, self.destination, dataset, service=self.service)
        return asset_specs(translator, facets=settings.facets, mailings=settings.mailings)

    def tables(self) -> dg.AssetsDefinition:
        """Return the assets with the step that loads them, all in one pool, because a DuckDB file has one writer."""

        @dg.multi_asset(
            name=f"{self.name}_tables",
            specs=self.specs(),
            can_subset=True,
            pool="letters",
            retry_policy=RETRIES,
            partitions_def=dg.DynamicPartitionsDefinition(name=self.accounts) if self.accounts else None,
            required_resource_keys={self.name},
        )
        def load(context: dg.AssetExecutionContext) -> Iterator[Any]:
            yield from getattr(context.resources, self.name).materialize(context)

        return load


def scheduled(tables: dg.AssetsDefinition, name: str, cron: str) -> dg.ScheduleDefinition:
    """Return a schedule that requests a run, or one for each account."""
    name = f"{name}_schedule"
    if tables.partitions_def is None:
        return dg.ScheduleDefinition(name, target=[tables], cron_schedule=cron)

    @dg.schedule(name=name, target=[tables], cron_schedule=cron)
    def runs(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        accounts = account_keys(tables.partitions_def, context.instance)
        return [dg.RunRequest(run_key=account, partition_key=account) for account in accounts]

    return runs
