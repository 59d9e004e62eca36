"""What a load writes into a DuckDB file."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from holdings import COLUMNS, KEYS, LISTED, PARENTS, held_tables, query, table_names, typed_columns
from worlds import Begin, World, serve_world

from letters_source import Result
from letters_source.tables import LOAD_ID, TABLES
from programmable_emulator import Emulator

DESCRIBED = [table for table in TABLES if table.name in COLUMNS]
COMMENTS = {
    (table.name, column.name): column.description for table in DESCRIBED for column in (*table.columns, LOAD_ID)
}


@dataclass(frozen=True)
class Loaded:
    """A world, the result of its first load, and the calls of the progress callback."""

    world: World
    result: Result
    calls: Counter[Any]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """250 contacts and 40 templates, loaded once for all tests here, which only read."""
    calls = Counter[Any]()
    with serve_world(tmp_path_factory.mktemp("loaded")) as world:
        result = world.load(progress=lambda *seen: calls.update([seen]))
        yield Loaded(world, result, calls)


def test_the_file_holds_our_tables_and_those_of_dlt(loaded: Loaded) -> None:
    """A new file has our tables and those of dlt, and no staging dataset."""
    tables = {*COLUMNS, "_dlt_loads", "_dlt_pipeline_state", "_dlt_version"}
    assert table_names(loaded.world.place) == {("letters_data", name) for name in tables}


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_have_their_documented_types_and_order(loaded: Loaded, table: str) -> None:
    """Each table has exactly the documented columns."""
    found = query(
        loaded.world.place,
        "select column_name, data_type from duckdb_columns() "
        f"where schema_name = 'letters_data' and table_name = '{table}' order by column_index",
    )
    assert found == typed_columns(table)


def test_keys_and_the_load_are_never_null_and_all_else_may_be(loaded: Loaded) -> None:
    """Only keys and the load id are NOT NULL."""
    found = query(
        loaded.world.place,
        "select table_name, column_name from duckdb_columns() "
        "where schema_name = 'letters_data' and not is_nullable and not starts_with(table_name, '_dlt')",
    )
    keys = {(table, column) for table, columns in KEYS.items() for column in columns}
    assert set(found) == keys | {(table, "_dlt_load_id") for table in COLUMNS}


def test_every_table_has_its_comment(loaded: Loaded) -> None:
    """Each table has its description as its comment."""
    found = query(loaded.world.place, "select table_name, comment from duckdb_tables() where comment is not null")
    assert dict(found) == {table.name: table.description for table in DESCRIBED}
    assert len(found) == len(COLUMNS)


def test_every_column_has_its_comment(loaded: Loaded) -> None:
    """Each column has its description as its comment."""
    sql = "select table_name, column_name, comment from duckdb_columns() where comment is not null"
    assert {(table, column): text for table, column, text in query(loaded.world.place, sql)} == COMMENTS


@pytest.mark.parametrize("table", LISTED)
def test_rows_are_those_that_the_service_holds(loaded: Loaded, table: str) -> None:
    """The tables have every value of every row, and no other rows."""
    expected = held_tables(loaded.world.emulator)[table]
    assert loaded.world.tables()[table] == expected
    assert len(expected) > 30


@pytest.mark.parametrize(("table", "key"), KEYS.items())
def test_keys_are_unique(loaded: Loaded, table: str, key: tuple[str, ...]) -> None:
    """No two rows share a key."""
    sql = f"select count(*), count(distinct ({', '.join(key)})) from letters_data.{table}"
    [(rows, keys)] = query(loaded.world.place, sql)
    assert rows == keys == loaded.result.tables[table]


def test_meta_is_json_that_can_be_queried(loaded: Loaded) -> None:
    """DuckDB's operator `->>` reads values within `meta`."""
    sql = "select template_id from letters_data.templates__product where meta->>'duplex' = 'true'"
    duplex = [
        row for row in held_tables(loaded.world.emulator)["templates__product"] if (row["meta"] or {}).get("duplex")
    ]
    assert {row[0] for row in query(loaded.world.place, sql)} == {row["template_id"] for row in duplex}
    assert duplex


@pytest.mark.parametrize("table", [*LISTED, "listing_audit"])
def test_every_row_names_its_load(loaded: Loaded, table: str) -> None:
    """`_dlt_load_id` is the load that dlt lists as finished."""
    assert set(query(loaded.world.place, f"select _dlt_load_id from letters_data.{table}")) == {
        (loaded.result.load_id,)
    }
    assert query(loaded.world.place, "select load_id, status from letters_data._dlt_loads") == [
        (loaded.result.load_id, 0)
    ]


def test_the_dlt_schema_describes_tables_and_columns(loaded: Loaded) -> None:
    """The descriptions of tables.py are in the schema that dlt stores."""
    tables = {name: loaded.world.pipeline.default_schema.tables[name] for name in COLUMNS}
    assert {name: table.get("description") for name, table in tables.items()} == {
        table.name: table.description for table in DESCRIBED
    }
    assert {name for name in loaded.world.pipeline.default_schema.tables if not name.startswith("_dlt")} == set(COLUMNS)
    described = {
        (name, column): hints.get("description")
        for name, table in tables.items()
        for column, hints in table["columns"].items()
    }
    assert described == COMMENTS


def test_the_dlt_schema_knows_keys_and_references(loaded: Loaded) -> None:
    """The dlt schema has primary keys, and references from children to parents."""
    tables = loaded.world.pipeline.default_schema.tables
    keys = {
        name: tuple(column for column, hints in tables[name]["columns"].items() if hints.get("primary_key"))
        for name in COLUMNS
    }
    references = {name: tables[name]["references"] for name in COLUMNS if "references" in tables[name]}
    assert keys == {**KEYS, "rejected_rows": (), "listing_audit": ()}
    assert references == {
        child: [{"referenced_table": parent, "columns": [KEYS[child][0]], "referenced_columns": ["id"]}]
        for child, parent in PARENTS.items()
    }


def test_each_listing_has_its_row_of_the_audit(loaded: Loaded) -> None:
    """The audit has one row per listing with exact values, apart from times."""
    audits = [dict(row) for row in loaded.world.tables()["listing_audit"]]
    times = [(row.pop("started_at"), row.pop("seconds")) for row in audits]
    same = {
        "filters": None, "account_id": None, "environment": None, "mode": "replace", "pii": None, "rows_rejected": 0,
        "adds_up": None, "misfit_values": 0, "undocumented_fields": None, "walks": 1, "page_size_asked": 100,
        "retries": 0, "throttled": 0, "count_changes": 0, "links_mended": None, "overlap": None,
        "converted_fields": None,
        "service": loaded.world.settings["base_url"], "shared_ids": None,
    }  # fmt: skip
    templates = {
        "listing": "templates", "verdict": "exact", "count_first": 40, "count_last": 40, "rows_received": 40,
        "rows_yielded": 40, "duplicates_dropped": 0, "pages": 1, "page_size_given": None, "requests": 1,
    }  # fmt: skip
    contacts = {
        "listing": "contacts", "verdict": "stable", "count_first": 250, "count_last": 250, "rows_received": 400,
        "rows_yielded": 250, "duplicates_dropped": 150, "pages": 3, "page_size_given": 100, "requests": 5,
    }  # fmt: skip
    assert audits == [{**same, **templates}, {**same, **contacts}]
    assert all(started.utcoffset().total_seconds() == 0 and seconds > 0 for started, seconds in times)


def test_the_result_has_the_load_its_tables_and_its_audits(loaded: Loaded) -> None:
    """The result has the row counts and audits that the file has."""
    tables = loaded.world.tables()
    assert dict(loaded.result.tables) == {name: len(rows) for name, rows in tables.items()}
    assert [{**audit} for audit in loaded.result.audits] == [
        {**row, "_dlt_load_id": loaded.result.load_id} for row in tables["listing_audit"]
    ]
    assert loaded.result.seconds >= sum(audit["seconds"] for audit in loaded.result.audits)


def test_the_progress_callback_gets_each_response(loaded: Loaded) -> None:
    """The callback gets each response's rows and the service's count, including pages that are read again."""
    assert loaded.calls == {
        ("templates", 1, 40, 40): 1,
        ("contacts", 1, 100, 250): 3,
        ("contacts", 1, 50, 250): 2,
    }


def test_each_page_is_requested_once_and_for_the_recheck(loaded: Loaded) -> None:
    """The first two requests are for the first and the last page, which are read again at the end."""
    emulator: Emulator = loaded.world.emulator
    assert [(hit.path.rpartition("/")[2], hit.query, hit.status) for hit in emulator.hits][:3] == [
        ("templates", "page=0&pageSize=100", 200),
        ("contacts", "page=0&pageSize=100", 200),
        ("contacts", "page=2&pageSize=100", 200),
    ]
    assert Counter(hit.query[5] for hit in emulator.hits[1:]) == {"0": 2, "1": 1, "2": 2}


def storage_version(world: World) -> str:
    """The storage version of the file that a world loads into."""
    [(version,)] = query(world.place, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE NOT internal")
    return str(version)


@pytest.mark.parametrize("version", ["v1.0.0", "latest"])
def test_files_of_any_storage_version_are_loaded(begin: Begin, version: str) -> None:
    """Files made by any version of DuckDB accept two loads and a published copy."""
    world = begin(Emulator(30, 7))
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{world.place}' AS made (STORAGE_VERSION '{version}'); DETACH made")
    made = storage_version(world)
    for _ in range(2):
        world.load(publish=world.place.with_name("readers.duckdb"))
        assert world.is_exact()
    assert storage_version(world) == made


def test_no_table_sets_a_compression(loaded: Loaded) -> None:
    """No table sets a compression, because newer storage versions no longer support some of them."""
    [(hints,)] = query(loaded.world.place, "SELECT count(*) FROM duckdb_tables() WHERE sql ILIKE '%compression%'")
    assert hints == 0
