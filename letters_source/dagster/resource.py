"""How does Dagster load and check our tables? A resource that knows from where and where to."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
import dlt
from pydantic import Field

from letters_source.dagster.checks import collect_findings, result_of
from letters_source.dagster.specs import TABLE_NAME, audited_as, table_of
from letters_source.destination.combine import create_account_views
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import kind_of, shown_place
from letters_source.destination.pipeline import Kind, account_pipelines, make_pipeline, schema_of_views
from letters_source.errors import LettersError, LoadFailed
from letters_source.load import Result, run
from letters_source.tables import DATASET, MAILINGS, Table


class LettersResource(dg.ConfigurableResource[Any]):
    """Where to load from and where to. What is None, and every other setting, comes from dlt's configuration."""

    base_url: str | None = Field(default=None, description="Where the service is, ending in /api/v1.")
    access_token: str | None = Field(default=None, repr=False, description="The bearer token.")
    refresh_token: str | None = Field(default=None, repr=False, description="The refresh token.")
    destination: Kind = Field(default="duckdb", description="duckdb, parquet, delta, iceberg or postgres.")
    to: str | None = Field(default=None, description="The DuckDB file; for files the folder, or s3://bucket/folder.")
    dataset: str = Field(default=DATASET, description="The dataset; accounts have their own, <dataset>_<account>.")

    def materialize(self, context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        """Load the listings of the selected tables, complete or not at all, and report what each table holds.

        A listing is read once for all its tables, so those that were not selected are loaded with it, and told of.

        Raises:
            Failure: with the reason in one line; it tells whether another try may help.
        """
        account = context.partition_key if context.has_partition_key else None
        selected = context.selected_asset_keys
        accounts = keys_of(context.assets_def.partitions_def, context.instance)
        with dagster_failures():
            pipelines = self.pipelines(accounts)
            result = self.load([table_of(key) for key in selected], account, pipelines)
            place = place_of(pipelines[account or ""])
        for key in context.assets_def.specs_by_key:
            if table_of(key).name in result.tables:
                facts = metadata_of(table_of(key), result, place)
                if key in selected:
                    yield dg.MaterializeResult(asset_key=key, metadata=facts)
                else:
                    context.log_event(dg.AssetMaterialization(key, metadata=facts, partition=account))

    def load(self, tables: Collection[Table], account: str | None, pipelines: Mapping[str, dlt.Pipeline]) -> Result:
        """Load the listings of some tables, and unite accounts that are loaded by views.

        Args:
            tables: what shall be loaded; what a listing brings besides comes, too.
            account: the account; None for the token's own, or the one that is configured.
            pipelines: as `pipelines` gives them.

        Raises:
            LettersError: as `run` does.
        """
        result = run(pipelines[account or ""], only=parts_of(tables), **self.settings(tables, account))
        if account is not None:
            plain_errors(create_account_views)(pipelines, schema_of_views(self.dataset))
        return result

    def settings(self, tables: Collection[Table], account: str | None) -> Mapping[str, Any]:
        """The settings that are known here."""
        given = {name: getattr(self, name) for name in ("base_url", "access_token", "refresh_token")}
        parts = {table.part for table in tables}
        asked = {"facets": "facet" in parts or None, "mailings": "window" in parts or None, "account_id": account}
        return {name: value for name, value in {**given, **asked}.items() if value is not None}

    def pipelines(self, accounts: Sequence[str]) -> Mapping[str, dlt.Pipeline]:
        """The pipeline of each account, or the only one, without a name. Override it to load anywhere else.

        Raises:
            DestinationError: the place cannot be, or two accounts would share a dataset.
        """
        if accounts:
            return account_pipelines(self.destination, self.to, self.dataset, accounts)
        return {"": make_pipeline(self.destination, self.to, self.dataset)}

    def check(
        self, context: dg.AssetCheckExecutionContext, partitions: dg.PartitionsDefinition[str] | None = None
    ) -> Iterator[dg.AssetCheckResult]:
        """Look at what the destination holds, of all accounts that were loaded.

        Args:
            context: Dagster's.
            partitions: the accounts, where assets are partitioned.
        """
        instance = context.op_execution_context.instance
        known = keys_of(partitions, instance)
        pipelines = self.pipelines(known) if known or not partitions else {}
        keys = sorted(context.op_execution_context.selected_asset_check_keys)
        loaded = {key: instance.get_materialized_partitions(key.asset_key) if partitions else {""} for key in keys}
        found = {
            account: collect_findings([key for key in keys if account in loaded[key]], pipeline)
            for account, pipeline in pipelines.items()
        }
        for key in keys:
            yield result_of(key, {account: problems[key] for account, problems in found.items() if key in problems})


@contextmanager
def dagster_failures() -> Iterator[None]:
    """Turn our errors into Dagster's, which tell whether to try again.

    Raises:
        Failure: with the reason in one line.
    """
    try:
        yield
    except LettersError as error:
        # the line says it all, but for what befell the destination
        cause = error if isinstance(error, LoadFailed) else None
        raise dg.Failure(str(error), {"error": type(error).__name__}, allow_retries=error.may_pass) from cause


def keys_of(partitions: dg.PartitionsDefinition[str] | None, instance: dg.DagsterInstance) -> Sequence[str]:
    """All accounts that are partitions; none where assets are not partitioned."""
    return partitions.get_partition_keys(dynamic_partitions_store=instance) if partitions else ()


def parts_of(tables: Collection[Table]) -> list[str]:
    """The parts that bring some tables, as `run` names them; none, which is all, where a table is of every part."""
    parts = {MAILINGS.name if table.part == "window" else table.listing for table in tables}
    return [] if "" in parts else sorted(parts)


def metadata_of(table: Table, result: Result, place: Mapping[str, str]) -> Mapping[str, Any]:
    """The metadata of a loaded table."""
    audits = [audit for audit in result.audits if audited_as(table) in ("", audit["listing"])]
    return {
        TABLE_NAME: f"{place['dataset']}.{table.name}",
        "dagster/row_count": result.tables[table.name],
        "verdict": ", ".join(sorted({audit["verdict"] for audit in audits})),
        "requests": sum(audit["requests"] for audit in audits),
        "seconds": round(sum(audit["seconds"] for audit in audits), 3),
        "load_id": result.load_id,
        **place,
    }


def place_of(pipeline: dlt.Pipeline) -> Mapping[str, str]:
    """Dataset, destination and place of a load, without secrets."""
    return {"dataset": pipeline.dataset_name, "destination": kind_of(pipeline), "place": shown_place(pipeline)}
