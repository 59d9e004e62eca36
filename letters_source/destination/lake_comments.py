"""Descriptions of Delta and Iceberg tables, and the keys of Iceberg tables: a load writes what is missing."""

from collections.abc import Callable, Iterable
from typing import Any

from letters_source.tables import Table


def describe_lake(client: Any, tables: Iterable[Table]) -> None:
    """Write the descriptions that Delta and Iceberg tables lack, and Iceberg's identifier fields.

    A table that has them gets no new version. Plain Parquet files get theirs from the Arrow schema.

    Args:
        client: dlt's client of the destination.
        tables: those that were loaded.
    """
    for table in tables:
        for form, describe in DESCRIBE.items():
            if client.is_open_table(form, table.name):
                describe(client.load_open_table(form, table.name), table)


def describe_delta(found: Any, table: Table) -> None:
    """Describe a Delta table. Each description takes a commit: deltalake has no call for several."""
    if found.metadata().description != table.description:
        found.alter.set_table_description(table.description)
    comments = {field.name: field.metadata.get("comment") for field in found.schema().fields}
    for column in table.loaded:
        if comments[column.name] != column.description:
            found.alter.set_column_metadata(column.name, {"comment": column.description})


def describe_iceberg(found: Any, table: Table) -> None:
    """Describe an Iceberg table and name its key, all in one commit; pyiceberg commits a changed schema only."""
    with found.transaction() as transaction:
        if found.properties.get("comment") != table.description:
            transaction.set_properties(comment=table.description)
        with transaction.update_schema() as update:
            for column in table.loaded:
                update.update_column(column.name, doc=column.description)
            update.set_identifier_fields(*table.key)


DESCRIBE: dict[Any, Callable[[Any, Table], None]] = {"delta": describe_delta, "iceberg": describe_iceberg}
