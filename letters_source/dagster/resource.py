"""The Dagster resource that loads and checks the tables, its settings, and the op that runs the checks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import dagster as dg
import dlt
from pydantic import Field

from letters_source.config.messages import unusable
from letters_source.config.providers import check_names
from letters_source.config.resolve import resolve_settings
from letters_source.config.settings import FILTERS, KINDS_IN_WORDS, SECRETS, Kind, Overrides, Settings
from letters_source.dagster.assets import TABLE_NAME, check_specs, result_of, run_checks, table_of
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import place_of
from letters_source.destination.pipeline import account_pipelines, make_pipeline, schema_of_views
from letters_source.errors import LettersError, LoadFailed
from letters_source.load import run
from letters_source.results import Result
from letters_source.service.listings import SECTION, ContactFilters, TemplateFilters
from letters_source.tables import DATASET, MAILINGS, Table

FILTERS_OF = {"contact_filters": ("contacts", ContactFilters), "template_filters": ("templates", TemplateFilters)}
# a URL and secrets that pass the checks; an empty proxy means none
PLACEHOLDERS = {"base_url": "https://localhost", **dict.fromkeys(SECRETS, "-" * 16), "proxy": ""}
# these may exist only where runs execute
FILES = ("ca_bundle", "client_cert", "client_key")


class LettersResource(dg.ConfigurableResource[Any]):
    """Where to load from and to. Fields that are None, and all other settings, come from dlt's configuration."""

    base_url: str | None = Field(default=None, description="The service's URL, ending in /api/v1.")
    access_token: str | None = Field(default=None, repr=False, description="The bearer token.")
    refresh_token: str | None = Field(default=None, repr=False, description="The refresh token.")
    destination: Kind = Field(default="duckdb", description=f"{KINDS_IN_WORDS}.")
    to: str | None = Field(default=None, description="The DuckDB file; for files the folder, or s3://bucket/folder.")
    dataset: str = Field(default=DATASET, description="The dataset; accounts have their own, <dataset>_<account>.")
    overrides: dict[str, Any] = Field(default={}, description="Further settings, as for run(), but no secrets.")

    def materialize(self, context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        """Load the listings of the selected tables, and report what each table holds.

        A listing is read once for all its tables: those that are not selected are loaded and reported too.
        A `Failure` has the reason in one line, and whether a retry can help.
        """
        account = context.partition_key if context.has_partition_key else None
        selected = context.selected_asset_keys
        accounts = account_keys(context.assets_def.partitions_def, context.instance)
        with dagster_failures():
            pipelines = self.pipelines(accounts)
            result = self.load([table_of(key) for key in selected], account, pipelines)
            place = place_of(pipelines[account or ""])
            where = {"destination": place.name, "place": str(place.address)}
        for key in context.assets_def.specs_by_key:
            if table_of(key).name in result.tables:
                metadata = {**metadata_of(table_of(key), result, place.dataset), **where}
                if key in selected:
                    yield dg.MaterializeResult(asset_key=key, metadata=metadata)
                else:
                    context.log_event(dg.AssetMaterialization(key, metadata=metadata, partition=account))

    def load(self, tables: Collection[Table], account: str | None, pipelines: Mapping[str, dlt.Pipeline]) -> Result:
        """Load the listings of some tables for an account, or for the token's own, and update the accounts' views."""
        result = run(pipelines[account or ""], only=names_of(tables), **self.settings(tables, account))
        if account is not None:
            places = {name: place_of(pipeline) for name, pipeline in pipelines.items()}
            plain_errors(places[account].kind.combine)(places, schema_of_views(self.dataset), 0)
        return result

    def settings(self, tables: Collection[Table], account: str | None) -> Mapping[str, Any]:
        """Return the settings that the resource and the selected tables determine."""
        origins = {table.origin for table in tables}
        own = {name: getattr(self, name) for name in ("base_url", "access_token", "refresh_token")}
        chosen = {"facets": "facet" in origins or None, "mailings": "dates" in origins or None, "account_id": account}
        given = {**own, **to_overrides(self.overrides), **chosen}
        return {name: value for name, value in given.items() if value is not None}

    def pipelines(self, accounts: Sequence[str]) -> Mapping[str, dlt.Pipeline]:
        """Return the pipeline of each account, or one without a name. Override it to load anywhere else."""
        if accounts:
            return account_pipelines(self.destination, self.to, self.dataset, accounts)
        return {"": make_pipeline(self.destination, self.to, self.dataset)}

    def check(
        self, context: dg.AssetCheckExecutionContext, partitions: dg.PartitionsDefinition[str] | None = None
    ) -> Iterator[dg.AssetCheckResult]:
        """Run the selected checks on every loaded account; accounts are the `partitions` of the assets, if any."""
        instance = context.op_execution_context.instance
        accounts = account_keys(partitions, instance)
        pipelines = self.pipelines(accounts) if accounts or not partitions else {}
        keys = sorted(context.op_execution_context.selected_asset_check_keys)
        loaded = {key: instance.get_materialized_partitions(key.asset_key) if partitions else {""} for key in keys}
        found = {
            account: run_checks([key for key in keys if account in loaded[key]], place_of(pipeline))
            for account, pipeline in pipelines.items()
        }
        for key in keys:
            yield result_of(key, {account: findings[key] for account, findings in found.items() if key in findings})


def letters_checks(assets: dg.AssetsDefinition, resource: str = "letters") -> dg.AssetChecksDefinition:
    """Return the checks of assets; they share the assets' pool, because a DuckDB file has one writer.

    `resource` is the key of the `LettersResource`.
    """

    @dg.multi_asset_check(
        name=f"{assets.op.name}_checks",
        specs=check_specs(assets.specs),
        can_subset=True,
        pool=assets.op.pool,
        required_resource_keys={resource},
    )
    def run_selected(context: dg.AssetCheckExecutionContext) -> Iterator[Any]:
        yield from getattr(context.resources, resource).check(context, assets.partitions_def)

    return run_selected


@contextmanager
def dagster_failures() -> Iterator[None]:
    """Raise our errors as Dagster failures, which say whether to retry."""
    try:
        yield
    except LettersError as error:
        # only a failed destination has a cause that adds to the message
        cause = error if isinstance(error, LoadFailed) else None
        raise dg.Failure(str(error), {"error": type(error).__name__}, allow_retries=error.may_pass) from cause


def account_keys(partitions: dg.PartitionsDefinition[str] | None, instance: dg.DagsterInstance) -> Sequence[str]:
    """Return the accounts, which are the partitions; none if the assets are not partitioned."""
    return partitions.get_partition_keys(dynamic_partitions_store=instance) if partitions else ()


def names_of(tables: Collection[Table]) -> list[str]:
    """Return what to load for some tables, as `only` of `run`; none, which is all, for a table of all listings."""
    names = {MAILINGS.name if table.origin == "dates" else table.listing for table in tables}
    return [] if "" in names else sorted(names)


def metadata_of(table: Table, result: Result, dataset: str) -> Mapping[str, Any]:
    """Return the metadata of a loaded table."""
    audits = [audit for audit in result.audits if table.audited in ("", audit["listing"])]
    return {
        TABLE_NAME: f"{dataset}.{table.name}",
        "dagster/row_count": result.tables[table.name],
        "verdict": ", ".join(sorted({audit["verdict"] for audit in audits})),
        "requests": sum(audit["requests"] for audit in audits),
        "seconds": round(sum(audit["seconds"] for audit in audits), 3),
        "load_id": result.load_id,
        "dataset": dataset,
    }


def to_overrides(given: Mapping[str, Any]) -> Overrides:
    """Return settings as arguments for `run`, or raise `SettingsError`; filters are mappings."""
    for name in SECRETS:
        if name in given:
            raise unusable(name, "is a secret, not for definitions")
    return cast("Overrides", {name: to_filters(name, value) for name, value in given.items()})


def to_filters(name: str, value: Any) -> Any:
    """Return the filters of a listing from a mapping; any other setting unchanged."""
    if name not in FILTERS_OF or not isinstance(value, Mapping):
        return value
    listing, kind = FILTERS_OF[name]
    check_names(f"{SECTION}.{listing}", value, [*FILTERS[listing]])
    return kind(**value)


def check_overrides(given: Mapping[str, Any]) -> Settings:
    """Return the settings as if nothing else were configured, or raise `SettingsError`; looks nothing up."""
    known = {**PLACEHOLDERS, **to_overrides(given), **dict.fromkeys(FILES, "")}
    return resolve_settings(cast("Overrides", known), [])
