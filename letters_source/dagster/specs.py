"""Asset specs: one for each table, and one for the service that they come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from letters_source.destination.pipeline import Kind
from letters_source.source import is_wanted
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
class LettersTranslator:
    """How a table becomes an asset. Subclass it to change tags and the like."""

    prefix: Sequence[str] = (DATASET,)  # the asset key before its last part, which must stay the table's name
    group: str = "letters"
    destination: Kind = "duckdb"  # shown on the assets
    dataset: str | None = DATASET  # that the resource loads into; None for partitions, which have a dataset each
    owners: Sequence[str] = ()  # email addresses, or teams as `team:name`
    service: dg.AssetKey = SERVICE.key

    def get_asset_spec(self, table: Table) -> dg.AssetSpec:
        """Return a table's asset; child tables depend on their listing's table, all others on the service."""
        # with the dataset: Dagster links assets that have the same table name
        name = {TABLE_NAME: f"{self.dataset}.{table.name}"} if self.dataset else {}
        return dg.AssetSpec(
            self.key_of(table),
            deps=[self.key_of(tables_of(table.listing)[0]) if table.is_child else self.service],
            description=table.description,
            group_name=self.group,
            kinds={"dlt", self.destination},
            owners=self.owners,
            metadata={**name, "dagster/column_schema": column_schema(table)},
        )

    def key_of(self, table: Table) -> dg.AssetKey:
        """Return the key of a table's asset."""
        return dg.AssetKey([*self.prefix, table.name])


def asset_specs(
    translator: LettersTranslator | None = None, *, facets: bool = False, mailings: bool = False
) -> list[dg.AssetSpec]:
    """Return the assets of all tables, parents first; facets and mailings only if wanted."""
    translator = translator or LettersTranslator()
    tables = (table for table in TABLES if is_wanted(table, facets=facets, mailings=mailings))
    return [translator.get_asset_spec(table) for table in tables]


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
