"""Which assets are there? One for each table, and one for the service before them."""

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
    """dagster-dlt's translator with what is known of our tables. Inherit from it to change tags and the like.

    Args:
        prefix: what stands before the table's name in the asset's key; that name must stay the key's last part.
        group: the group of the assets.
        destination: where the tables go, which is shown as their kind.
        dataset: the dataset that the resource loads into; None for partitions, whose datasets differ, so that no name
            holds for all: each materialization tells its own.
        owners: who owns the assets: email addresses, or teams as `team:name`.
    """

    prefix: Sequence[str] = (DATASET,)
    group: str = "letters"
    destination: Kind = "duckdb"
    dataset: str | None = DATASET
    owners: Sequence[str] = ()

    def get_asset_spec(self, data: DltResourceTranslatorData) -> dg.AssetSpec:
        """The asset of a table: children come after the listing's own table, all others after the service."""
        table = BY_NAME[data.resource.name]
        spec = super().get_asset_spec(data)
        # dlt's name of the table, without its dataset: Dagster would take all tables of that name for one
        bare = {name: value for name, value in spec.metadata.items() if name != TABLE_NAME}
        name = {TABLE_NAME: f"{self.dataset}.{table.name}"} if self.dataset else {}
        return spec.replace_attributes(
            key=self.key_of(table),
            deps=[self.key_of(tables_of(table.listing)[0]) if table.is_child else SERVICE.key],
            description=table.description,
            group_name=self.group,
            kinds={"dlt", self.destination},
            owners=self.owners,
            metadata={**bare, **name, "dagster/column_schema": column_schema(table)},
        )

    def key_of(self, table: Table) -> dg.AssetKey:
        """The key of a table's asset."""
        return dg.AssetKey([*self.prefix, table.name])


def asset_specs(
    translator: DagsterDltTranslator | None = None, *, facets: bool = False, mailings: bool = False
) -> list[dg.AssetSpec]:
    """The assets of all tables, parents first.

    They are made of each table's structure alone: dlt's own sources and pipelines, which `@dlt_assets` asks for, read
    dlt's configuration, secrets among it, and make folders as soon as they are built.

    Args:
        translator: makes an asset of a table; `LettersTranslator()` when None.
        facets: whether the facets are loaded, too.
        mailings: whether the mailings are.
    """
    translator = translator or LettersTranslator()
    tables = (table for table in TABLES if is_wanted(table, facets=facets, mailings=mailings))
    resources = [dlt.resource([], **hints(table)) for table in tables]
    return [
        translator.get_asset_spec(DltResourceTranslatorData(resource=resource, pipeline=None)) for resource in resources
    ]


def table_of(key: dg.AssetKey) -> Table:
    """The table of an asset."""
    return BY_NAME[key.path[-1]]


def audited_as(table: Table) -> str:
    """Under which name the audit tells how a table was read; empty for the tables that all listings share."""
    return table.name if table.part in ("facet", "window") else table.listing


def column_schema(table: Table) -> dg.TableSchema:
    """A table's columns as Dagster shows them."""
    key = [f"primary key ({', '.join(table.key)})"] if table.key else []
    columns = [described_column(column, table) for column in table.loaded]
    return dg.TableSchema(columns, constraints=dg.TableConstraints(other=key))


def described_column(column: Column, table: Table) -> dg.TableColumn:
    """A column as Dagster shows it."""
    constraints = dg.TableColumnConstraints(nullable=column.nullable, unique=table.key == (column.name,))
    return dg.TableColumn(column.name, column.kind, column.description, constraints)
