"""Finds tables and columns that someone dropped, or gave another type, since dlt recorded what it made."""

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple, cast

from dlt.common.destination.exceptions import DestinationException
from dlt.common.schema import Schema
from dlt.common.schema.typing import TTableSchemaColumns
from dlt.common.schema.utils import has_table_seen_data, is_complete_column
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset

from letters_source.destination.place import Place
from letters_source.errors import DestinationError


class LoadedColumns(NamedTuple):
    """A table that was loaded, and its columns: by dlt's record, and as they are; none if the table was dropped."""

    table: str
    made: TTableSchemaColumns
    held: TTableSchemaColumns


def check_whole(place: Place, schema: Schema, tables: Collection[str]) -> None:
    """Raise `DestinationError` if a dataset lacks tables that were loaded, or columns of them, of a source's schema.

    dlt makes them again when it changes the dataset, but rows that did not change would not be written again.
    """
    if place.kind.obstacles and (lost := dropped(loaded_columns(place, schema, tables))):
        raise lacking(place, lost)


def lacking(place: Place, lost: Collection[str], step: str = "") -> DestinationError:
    """Return the error that names tables and columns that someone dropped."""
    return DestinationError(
        f"{step}the dataset {place.dataset} lacks {', '.join(lost)}, which earlier loads made",
        # the tables of one load, as its child rows are not read again
        advice="restore all its tables from one copy, or choose another $dataset.",
    )


def loaded_columns(place: Place, schema: Schema, tables: Collection[str]) -> list[LoadedColumns]:
    """Return the columns of tables that were loaded; of those in dlt's record, the ones that a schema still has."""
    found: list[LoadedColumns] = []
    client = cast("SqlJobClientWithStagingDataset", place.pipeline.destination_client())
    with suppress(DestinationException), client:
        if stored := client.get_stored_schema(schema.name):
            recorded = json.loads(stored.schema)["tables"]
            # others may only have been declared
            loaded = [name for name in tables if name in recorded and has_table_seen_data(recorded[name])]
            for name, held in client.get_storage_tables([*loaded, schema.loads_table_name]):
                wanted = schema.tables.get(name, {}).get("columns", {})
                complete = filter(is_complete_column, recorded[name]["columns"].values())
                made = {column["name"]: column for column in complete if column["name"] in wanted}
                found.append(LoadedColumns(name, made, held))
    return found


def dropped(found: Iterable[LoadedColumns]) -> list[str]:
    """Return the tables and columns that are no longer there."""
    return sorted(
        {f"{name}.{column}" if held else name for name, made, held in found for column in made.keys() - folded(held)}
    )


def retyped(found: Iterable[LoadedColumns]) -> list[str]:
    """Return the columns that have another of dlt's types."""
    return sorted(
        f"{name}.{column} as {now}, not {made[column]['data_type']}"
        for name, made, held in found
        for column, each in folded(held).items()
        if column in made and (now := each["data_type"]) != made[column]["data_type"]
    )


def folded(columns: TTableSchemaColumns) -> TTableSchemaColumns:
    """Return columns by the names that dlt compares."""
    return {name.casefold(): column for name, column in columns.items()}
