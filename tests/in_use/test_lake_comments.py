"""Files, Delta tables and Iceberg tables describe their columns."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import dlt
import pyarrow.parquet as pq
from deltalake import DeltaTable
from holdings import COLUMNS, DATASET, LISTED
from lakes import newest_metadata
from pyiceberg.table import StaticTable
from worlds import Begin, World

from letters_source import run
from letters_source.tables import TABLES, Table
from programmable_emulator import Emulator

DESCRIBED = [table for table in TABLES if table.name in COLUMNS]
LISTED_TABLES = [table for table in DESCRIBED if table.name in LISTED]
DESCRIPTIONS = {table.name: table.description for table in DESCRIBED}
COMMENTS = {(table.name, column.name): column.description for table in DESCRIBED for column in table.loaded}


def folder_of(world: World, table: Table) -> Path:
    """Where a table lies."""
    return world.place / DATASET / table.name


def delta(world: World, table: Table) -> DeltaTable:
    """A table in a folder of Delta tables."""
    return DeltaTable(str(folder_of(world, table)))


def iceberg(world: World, table: Table) -> StaticTable:
    """A table in a folder of Iceberg tables, as its newest metadata has it."""
    return StaticTable.from_metadata(newest_metadata(folder_of(world, table)))


def delta_comments(world: World) -> dict[tuple[str, str], str | None]:
    """The comment of each column."""
    fields = [(table.name, field) for table in DESCRIBED for field in delta(world, table).schema().fields]
    return {(name, field.name): field.metadata.get("comment") for name, field in fields}


def iceberg_comments(world: World) -> dict[tuple[str, str], str | None]:
    """The documentation of each column."""
    fields = [(table.name, field) for table in DESCRIBED for field in iceberg(world, table).schema().fields]
    return {(name, field.name): field.doc for name, field in fields}


def operations(world: World, table: Table) -> list[Any]:
    """What made each version of a Delta table, oldest first."""
    return [version["operation"] for version in reversed(delta(world, table).history())]


def parquet_comments(world: World) -> dict[tuple[str, str], str]:
    """The description of each column, the same in all files of a table."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for table in DESCRIBED:
        for file in folder_of(world, table).glob("*.parquet"):
            for field in pq.read_schema(file):
                found[table.name, field.name].add((field.metadata or {}).get(b"description", b"").decode())
    return {place: text for place, (text,) in found.items()}


def test_parquet_files_describe_their_columns(begin: Begin) -> None:
    """Parquet files describe their table and every column, also columns without a value."""
    world = begin(Emulator(9, 3), "parquet")
    world.load()
    world.load()
    assert parquet_comments(world) == COMMENTS
    assert COMMENTS["contacts", "zip"] == "Postal code as text, leading zeros kept."
    found = {table.name: pq.read_schema(*folder_of(world, table).glob("*.parquet")).metadata for table in LISTED_TABLES}
    assert found == {table.name: {b"description": table.description.encode()} for table in LISTED_TABLES}


def test_files_of_a_pipeline_of_dlts_own_describe_their_columns(begin: Begin) -> None:
    """Files of a pipeline that dlt made describe their columns as ours do."""
    world = begin(Emulator(9, 3), "parquet")
    own = dlt.pipeline("own", destination=dlt.destinations.filesystem(world.place.as_uri()), dataset_name=DATASET)
    run(own, **world.settings)
    assert parquet_comments(world) == COMMENTS


def test_delta_tables_are_described(begin: Begin) -> None:
    """The first load describes a Delta table and each column in a version each; the next one adds none of these.

    A load describes tables again whose descriptions are another version's or were cut off.
    """
    world = begin(Emulator(9, 3), "delta")
    world.load()
    assert {table.name: delta(world, table).metadata().description for table in DESCRIBED} == DESCRIPTIONS
    assert delta_comments(world) == COMMENTS
    world.load()
    for table in DESCRIBED:
        described = ["UPDATE TABLE METADATA", *["UPDATE FIELD METADATA"] * len(table.loaded)]
        assert operations(world, table) == ["WRITE", *described, "WRITE"]
    assert delta_comments(world) == COMMENTS
    for table in DESCRIBED:
        found = delta(world, table)
        found.alter.set_table_description("old")
        found.alter.set_column_metadata("_dlt_load_id", {"comment": "old"})
    world.load()
    assert {table.name: delta(world, table).metadata().description for table in DESCRIBED} == DESCRIPTIONS
    assert delta_comments(world) == COMMENTS


def test_iceberg_tables_are_described_and_know_their_keys(begin: Begin) -> None:
    """The first load describes an Iceberg table and its key in one version; the next one adds only its rows.

    A load describes tables again whose descriptions or keys are another version's or were cut off.
    """
    world = begin(Emulator(9, 3), "iceberg")
    world.load()
    assert {table.name: iceberg(world, table).properties for table in DESCRIBED} == {
        name: {"comment": text} for name, text in DESCRIPTIONS.items()
    }
    assert iceberg_comments(world) == COMMENTS
    keys = {table.name: set(table.key) for table in DESCRIBED}
    assert {table.name: iceberg(world, table).schema().identifier_field_names() for table in DESCRIBED} == keys
    # made, filled, described
    assert {len(list(folder_of(world, table).glob("metadata/*.metadata.json"))) for table in DESCRIBED} == {3}
    world.load()
    assert {len(list(folder_of(world, table).glob("metadata/*.metadata.json"))) for table in DESCRIBED} == {4}
    assert {len(iceberg(world, table).schemas()) for table in DESCRIBED} == {2}
    assert iceberg_comments(world) == COMMENTS
    client: Any = world.pipeline.destination_client()
    for table in DESCRIBED:
        with client.load_open_table("iceberg", table.name).transaction() as transaction:
            transaction.remove_properties("comment")
            with transaction.update_schema() as update:
                update.update_column("_dlt_load_id", doc="old")
                update.set_identifier_fields()
    world.load()
    assert {table.name: iceberg(world, table).properties.get("comment") for table in DESCRIBED} == DESCRIPTIONS
    assert iceberg_comments(world) == COMMENTS
    assert {table.name: iceberg(world, table).schema().identifier_field_names() for table in DESCRIBED} == keys
