"""Asset specs: one for each table, and one for the service that they come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
import dlt
from dagster_dlt import DagsterDltTranslator
from dagster_dlt.translator import DltResourceTranslatorData

from letters_source.destination.pipeline import Kind
from letters_source.source import hints, is_wanted
from letters_source.tables import DATASET, TABLES, Column, Table, tables_of

TABLE_NAME = "dagster/table_name"
BY_NAME = {table.name: table for table in TABLES}
SERVICE = dg.AssetSpec(
    "letters_service",
    description="The letter mailing service: its listings of templates and contacts.",
    group_name="letters_service",
    kinds={"api"},
)


@dataclass
class LettersTranslator(DagsterDltTranslator):
    """A dagster-dlt translator that knows our tables. Subclass it to change tags and the like."""

    prefix: Sequence[str] = (DATASET,)  # the asset key before its last part, which must stay the table's name
    group: str = "letters"
    destination: Kind = "duckdb"  # shown on the assets
    dataset: str | None = DATASET  # that the resource loads into; None for partitions, which have a dataset each
    owners: Sequence[str] = ()  # email addresses, or teams as `team:name`

    def get_asset_spec(self, data: DltResourceTranslatorData) -> dg.AssetSpec:
        """Return a table's asset; child tables depend on their listing's table, all others on the service."""
        table = BY_NAME[data.resource.name]
        spec = super().get_asset_spec(data)
        # dlt's table name lacks the dataset, so Dagster would link tables of the same name in different datasets
        metadata = {name: value for name, value in spec.metadata.items() if name != TABLE_NAME}
        if self.dataset:
            metadata[TABLE_NAME] = f"{self.dataset}.{table.name}"
        return spec.replace_attributes(
            key=self.key_of(table),
            deps=[self.key_of(tables_of(table.listing)[0]) if table.is_child else SERVICE.key],
            description=table.description,
            group_name=self.group,
            kinds={"dlt", self.destination},
            owners=self.owners,
            metadata={**metadata, "dagster/column_schema": column_schema(table)},
        )

    def key_of(self, table: Table) -> dg.AssetKey:
        """Return the key of a table's asset."""
        return dg.AssetKey([*self.prefix, table.name])


def asset_specs(
    translator: DagsterDltTranslator | None = None, *, facets: bool = False, mailings: bool = False
) -> list[dg.AssetSpec]:
    """Return the assets of all tables, parents first; facets and mailings only if wanted."""
    # `@dlt_assets` needs a dlt source and pipeline, which read secrets and make folders on import
    translator = translator or LettersTranslator()
    tables = (table for table in TABLES if is_wanted(table, facets=facets, mailings=mailings))
    resources = (dlt.resource([], **hints(table)) for table in tables)
    return [translator.get_asset_spec(DltResourceTranslatorData(resource=each, pipeline=None)) for each in resources]


def table_of(key: dg.AssetKey) -> Table:
    """Return the table of an asset."""
    return BY_NAME[key.path[-1]]


def audited_as(table: Table) -> str:
    """Return the name of a table's reading in `listing_audit`; empty for tables that all listings share."""
    return table.name if table.part in ("facet", "window") else table.listing


def column_schema(table: Table) -> dg.TableSchema:
    """Return a table's columns and primary key as Dagster metadata."""
    key = [f"primary key ({', '.join(table.key)})"] if table.key else []
    columns = [column_spec(column, table) for column in table.loaded]
    return dg.TableSchema(columns, constraints=dg.TableConstraints(other=key))


def column_spec(column: Column, table: Table) -> dg.TableColumn:
    """Return a column as Dagster metadata."""
    constraints = dg.TableColumnConstraints(nullable=column.nullable, unique=table.key == (column.name,))
    return dg.TableColumn(column.name, column.kind, column.description, constraints)
