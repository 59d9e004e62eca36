"""What a load of an empty account writes."""

import duckdb
import pytest
from holdings import COLUMNS, query, typed_columns
from worlds import Begin, World

from letters_source.config.settings import Kind
from letters_source.tables import LOAD_ID, TABLES
from programmable_emulator import Emulator


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_an_empty_account_makes_all_tables_and_later_rows_change_no_type(begin: Begin, kind: Kind) -> None:
    """Only the audit has rows after the first load, which sends one request per listing; the next load adds rows."""
    world = begin(Emulator(0, 0), kind)
    result = world.load()
    assert [hit.path.rpartition("/")[2] for hit in world.emulator.hits] == ["templates", "contacts"]
    assert [(audit["listing"], audit["verdict"], audit["count_last"]) for audit in result.audits] == [
        ("templates", "exact", 0),
        ("contacts", "exact", 0),
    ]
    assert dict(result.tables) == {**dict.fromkeys(COLUMNS, 0), "listing_audit": 2}
    assert {name: len(rows) for name, rows in world.tables().items()} == dict(result.tables)
    assert_columns(world)
    world.emulator.contacts.grow()
    world.emulator.templates.grow()
    world.emulator.contacts.insert({"id": "new", "newField": {"a": 1}, "ContactLabels": [{"id": "1", "title": "x"}]})
    world.load()
    tables = world.tables()
    assert {row["id"]: row["undocumented"] for row in tables["contacts"]} == {"1": None, "new": {"newField": {"a": 1}}}
    assert [row["template_id"] for row in tables["templates__product"]] == ["1"]
    assert_columns(world)


def assert_columns(world: World) -> None:
    """Check the names, types and order of all columns, and in DuckDB their comments."""
    if world.place.is_dir():
        for table in COLUMNS:
            columns = duckdb.sql(f"describe from '{world.place}/letters_data/{table}/*.parquet'").fetchall()
            loaded = [(name, "VARCHAR" if kind == "JSON" else kind) for name, kind in typed_columns(table)]
            assert [row[:2] for row in columns] == loaded
        return
    columns = query(
        world.place,
        "select table_name, column_name, data_type, comment from duckdb_columns() "
        "where schema_name = 'letters_data' and not starts_with(table_name, '_dlt') order by table_name, column_index",
    )
    comments = {(t.name, column.name): column.description for t in TABLES for column in (*t.columns, LOAD_ID)}
    expected = [(table, *column) for table in sorted(COLUMNS) for column in typed_columns(table)]
    assert columns == [(*row, comments[row[:2]]) for row in expected]
