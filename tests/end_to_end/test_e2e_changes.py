"""In sync and history, rows that the destination holds are recognized by their bytes, and not staged."""

import json
from dataclasses import replace
from typing import Any

import pytest
from holdings import DATASET, LISTED, change, held_tables, query
from row_changes import amend, set_traits
from test_e2e_history import current_rows
from worlds import Begin, World

import letters_source
from letters_source.service.listings import ContactFilters
from programmable_emulator import Emulator

NOTES, GREEN = {"id": "1", "title": "notes"}, {"id": "2", "title": "green"}
KEY = "a key of more than sixteen bytes"
in_both = pytest.mark.parametrize("mode", ["sync", "history"])


@pytest.fixture
def world(begin: Begin) -> World:
    """Seven contacts, each with a label, and three templates."""
    world = begin(Emulator(7, 3))
    for row_id in world.emulator.contacts.ids():
        amend(world.emulator.contacts, row_id, ContactLabels=[NOTES])
    return world


def staged(world: World, **settings: Any) -> dict[str, int]:
    """How many rows of each table of a listing a load stages, markers included."""
    world.load(**settings)
    trace = world.pipeline.last_trace
    assert trace
    assert trace.last_normalize_info
    return {name: rows for name, rows in trace.last_normalize_info.row_counts.items() if rows and name in LISTED}


def respell(world: World) -> None:
    """The service writes all contacts in another order of fields, with spaces."""
    contacts = world.emulator.contacts
    for place, row in enumerate(contacts.rows()):
        text = json.dumps(dict(reversed(row.document.items())), indent=1)
        contacts.delete(place)
        contacts.insert(replace(row, wire=text.encode()), place)


def versions(world: World) -> set[tuple[Any, ...]]:
    """The number of rows in each table of a listing."""
    return {(name, *query(world.place, f"select count(*) from {DATASET}.{name}")[0]) for name in LISTED}


def held_hashes(world: World) -> list[Any]:
    """The ids of contacts, and the hash of each."""
    return query(world.place, f"select id, row_hash from {DATASET}.contacts order by all")


def hashes_of_values(world: World, **settings: Any) -> list[Any]:
    """The ids of contacts, and the hash of each by its values: with the source alone, rows have no digests."""
    tables = letters_source.letters(**world.settings, **settings).resources["contacts"]
    return sorted((row["id"], row["row_hash"]) for table in tables for row in table.to_pylist())


@in_both
def test_only_changes_are_staged(world: World, mode: str) -> None:
    """Staging gets new and changed rows, and a marker in each table that may have rows of what is changed or gone."""
    contacts = world.emulator.contacts
    assert staged(world, **{mode: True})["contacts"] == 7
    assert staged(world, **{mode: True}) == {}
    amend(contacts, "1", city="Elsewhere")
    contacts.delete("2")
    contacts.insert({"id": "8", "ContactLabels": []})
    # rows 1 and 8 and a marker for 2; a label of 1, and markers for 1 and 2
    assert staged(world, **{mode: True}) == {"contacts": 3, "contacts__contact_labels": 3}
    assert (
        [row["id"] for row in current_rows(world.place, "contacts")] == ["1", "3", "4", "5", "6", "7", "8"]
        if (mode == "history")
        else query(world.place, f"select count(*) from {DATASET}.contacts") == [(7,)]
    )


@in_both
def test_child_rows_follow_contacts_that_someone_deleted(world: World, mode: str) -> None:
    """Child rows go with their contact, also if someone deleted it before the service removed it, or its labels."""
    contacts = world.emulator.contacts
    world.load(**{mode: True})
    current = " where _dlt_valid_to is null" if mode == "history" else ""
    labels = f"select distinct contact_id from {DATASET}.contacts__contact_labels{current} order by all"
    gone, bare, *others = (contact for (contact,) in query(world.place, labels))
    change(world.place, f"delete from {DATASET}.contacts where id in ('{gone}', '{bare}')")
    contacts.delete(gone)
    amend(contacts, bare, ContactLabels=[])
    world.load(**{mode: True})
    assert query(world.place, labels) == [(contact,) for contact in others]
    assert query(world.place, f"select count(*) from {DATASET}.contacts{current}") == [(6,)]
    assert staged(world, **{mode: True}) == {}


@in_both
def test_equal_rows_that_are_written_otherwise_stay(world: World, mode: str) -> None:
    """Another order of fields, or spaces, change neither the rows' load ids nor their versions, and are read once."""
    world.load(**{mode: True})
    before = query(world.place, f"select id, _dlt_load_id from {DATASET}.contacts order by all")
    respell(world)
    assert staged(world, **{mode: True})["contacts"] == 7
    assert query(world.place, f"select id, _dlt_load_id from {DATASET}.contacts order by all") == before
    assert staged(world, **{mode: True}) == {}


def test_columns_of_users_keep_their_values(world: World) -> None:
    """A sync keeps what users wrote into their own columns, also of rows that changed or are written otherwise."""
    contacts = world.emulator.contacts
    world.load(sync=True)
    change(
        world.place,
        f"ALTER TABLE {DATASET}.contacts ADD COLUMN note TEXT; UPDATE {DATASET}.contacts SET note = 'note of ' || id; "
        f"ALTER TABLE {DATASET}.contacts__contact_labels ADD COLUMN note TEXT; "
        f"UPDATE {DATASET}.contacts__contact_labels SET note = 'label of ' || contact_id",
    )
    respell(world)
    amend(contacts, "1", city="Elsewhere", ContactLabels=[NOTES | {"title": "another"}])
    world.load(sync=True)
    found = query(world.place, f"select id, note from {DATASET}.contacts order by id")
    assert found == [(row_id, f"note of {row_id}") for row_id in "1234567"]
    labels = f"select title, note from {DATASET}.contacts__contact_labels where contact_id = '1'"
    assert query(world.place, labels) == [("another", "label of 1")]


@in_both
@pytest.mark.parametrize("column", ["note", "RowId", "replaced_row"])
def test_columns_of_users_stay_where_rows_are_written_otherwise(world: World, mode: str, column: str) -> None:
    """Rows with the same values keep what users wrote into their own columns, even into one named as DuckDB's own."""
    world.load(**{mode: True})
    # the same value in every row: a delete by this column instead of DuckDB's rowid would delete them all
    table = f"{DATASET}.contacts"
    change(world.place, f"ALTER TABLE {table} ADD COLUMN {column} TEXT; UPDATE {table} SET {column} = 'read'")
    respell(world)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    assert staged(world, **{mode: True})["contacts"] == 7
    kept = f"select count(*), count(distinct id) from {table} where {column} = 'read'"
    assert query(world.place, kept) == [(7, 7)]


@in_both
def test_a_hash_that_someone_removed_is_written_again(world: World, mode: str) -> None:
    """A row with the same values gets its hash again, and no other version."""
    world.load(**{mode: True})
    before = versions(world), held_hashes(world)
    table = f"{DATASET}.contacts"
    change(world.place, f"ALTER TABLE {table} ALTER COLUMN row_hash DROP NOT NULL")
    change(world.place, f"UPDATE {table} SET row_hash = NULL WHERE id = '1'")
    assert staged(world, **{mode: True})["contacts"] == 1
    assert (versions(world), held_hashes(world)) == before


@in_both
def test_a_column_that_the_database_computes_stops_no_load(world: World, mode: str) -> None:
    """Nothing can be inserted into a generated column."""
    world.load(**{mode: True})
    [(created,)] = query(
        world.place, f"select sql from duckdb_tables() where schema_name = '{DATASET}' and table_name = 'contacts'"
    )
    definition = created.rstrip(";").removesuffix(")") + ", area VARCHAR GENERATED ALWAYS AS (upper(city)))"
    change(
        world.place,
        f"CREATE TABLE held AS FROM {DATASET}.contacts; DROP TABLE {DATASET}.contacts; {definition}; "
        f"INSERT INTO {DATASET}.contacts BY NAME FROM held; DROP TABLE held",
    )
    respell(world)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    world.load(**{mode: True})
    assert query(world.place, f"select count(*) from {DATASET}.contacts where area = 'ELSEWHERE'") == [(1,)]
    assert query(world.place, f"select count(distinct id) from {DATASET}.contacts") == [(7,)]


def test_columns_of_plain_dlt_stay_where_rows_are_equal(world: World) -> None:
    """A load without such a column replaces hashes by digests, and leaves the column as it is."""
    source = letters_source.letters(**world.settings, sync=True)
    source.resources["contacts"].add_map(lambda table: table.append_column("score", table["id"]))
    world.pipeline.run(source)
    assert staged(world, sync=True)["contacts"] == 7
    assert query(world.place, f"select count(*) from {DATASET}.contacts where score = id") == [(7,)]


def test_columns_of_plain_dlt_may_have_any_name(world: World) -> None:
    """A column that a step adds is synced like ours, even if its name is a word of SQL."""
    for place in range(2):
        amend(world.emulator.contacts, "1", city=f"City {place}")
        source = letters_source.letters(**world.settings, sync=True)
        source.resources["contacts"].add_map(lambda table: table.append_column("order", table["city"]))
        world.pipeline.run(source)
    found = f"select \"order\", count(*) from {DATASET}.contacts where id = '1' group by all"
    assert query(world.place, found) == [("City 1", 1)]


@in_both
def test_digests_replace_hashes_of_values_once(world: World, mode: str) -> None:
    """Tables with hashes of values, of version 0.2 or of plain dlt, keep their rows, and get digests once."""
    settings: dict[str, Any] = {**world.settings, mode: True}
    world.pipeline.run(letters_source.letters(**settings))
    before = versions(world)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    assert staged(world, **{mode: True})["contacts"] == 7
    grown = ("contacts", 8) if mode == "history" else ("contacts", 7)
    assert versions(world) == {pair for pair in before if pair[0] != "contacts"} | {grown}
    assert staged(world, **{mode: True}) == {}


def test_plain_dlt_compares_all_rows(world: World) -> None:
    """A load with the source alone after `run` deletes what is gone, as it did before."""
    world.load(sync=True)
    world.emulator.contacts.delete("2")
    world.load(sync=True)
    world.emulator.contacts.delete("3")
    world.pipeline.run(letters_source.letters(**world.settings, sync=True))
    assert query(world.place, f"select string_agg(id order by id) from {DATASET}.contacts") == [("1,4,5,6,7",)]
    assert query(world.place, f"select count(*) from {DATASET}.contacts__contact_labels") == [(5,)]


@in_both
def test_without_a_key_what_is_dropped_leaves_no_digest(world: World, mode: str) -> None:
    """By a digest, values that are not loaded could be guessed, so rows are hashed as loaded unless there is a key."""
    settings = {mode: True, "pii": {"phone_no": "drop"}}
    world.load(**settings)
    assert held_hashes(world) == hashes_of_values(world, **settings)
    assert staged(world, **settings)["contacts"] == 7
    assert staged(world, **settings, pii_key=KEY)["contacts"] == 7
    assert {*held_hashes(world)}.isdisjoint(hashes_of_values(world, **settings, pii_key=KEY))
    assert staged(world, **settings, pii_key=KEY) == {}
    assert staged(world, **settings, pii_key=KEY[::-1])["contacts"] == 7


def test_a_refresh_writes_all_rows(world: World) -> None:
    """With dlt's `refresh`, which drops the tables, no row counts as known."""
    world.load(sync=True)
    world.pipeline.refresh = "drop_data"
    assert staged(world, sync=True)["contacts"] == 7
    assert query(world.place, f"select count(*) from {DATASET}.contacts") == [(7,)]


def test_rejected_rows_come_with_each_load(world: World) -> None:
    """A row without an id is never known; it is rejected each time, at its place."""
    contacts = world.emulator.contacts
    world.load(sync=True)
    contacts.insert({"firstName": "Nobody"}, 3)
    for _ in range(2):
        assert staged(world, sync=True) == {}
    found = query(world.place, f"select page, position, reason from {DATASET}.rejected_rows")
    assert found == 2 * [(0, 3, "the id is missing")]


def test_of_history_with_filters_only_what_is_found_ends(world: World) -> None:
    """With filters, only changed rows are staged too, and facets are compared for the contacts that are found."""
    contacts = world.emulator.contacts
    for row_id in ("1", "2", "3"):
        amend(contacts, row_id, lastName="Smith")
        set_traits(contacts, row_id, is_return_address=True)
    smiths = ContactFilters(search="smith")
    settings: dict[str, Any] = {"history": True, "facets": True, "contact_filters": smiths, "only": ("contacts",)}
    world.load(**settings)
    amend(contacts, "1", ContactLabels=[])
    set_traits(contacts, "2", is_return_address=False)
    amend(contacts, "3", lastName="Miller")
    # a marker and no label of 1
    assert staged(world, **settings) == {"contacts": 1, "contacts__contact_labels": 1}
    ended = f"select contact_id from {DATASET}.{{}} where _dlt_valid_to is not null"
    assert query(world.place, ended.format("contacts__contact_labels")) == [("1",)]
    assert query(world.place, ended.format("contacts__return_addresses")) == [("2",)]
    assert query(world.place, f"select count(*) from {DATASET}.contacts where _dlt_valid_to is null") == [(3,)]


def test_a_stopped_sync_continues(begin: Begin) -> None:
    """With `resume`, a load that stopped continues with the windows that it saved, known rows among them."""
    world = begin(Emulator(6_000, 1))
    world.settings.update(page_size=500, max_workers=1, sync=True, resume=True)
    emulator = world.emulator
    world.load()
    # saved windows that are not a second younger than a finished load are not used
    change(world.place, f"update {DATASET}.listing_audit set started_at = started_at - interval 1 minute")
    amend(emulator.contacts, "40", city="Elsewhere")
    emulator.contacts.delete("6000")
    first = len(emulator.hits)

    def refuse(_: Emulator, number: int) -> None:
        if number == first + 14:
            emulator.access_token = "another"

    token, emulator.before_answer = emulator.access_token, refuse
    with pytest.raises(letters_source.errors.NotAuthorized):
        world.load()
    emulator.access_token, emulator.before_answer = token, None
    [audit] = [audit for audit in world.load().audits if audit["listing"] == "contacts"]
    assert audit["verdict"] == "continuous"
    rows = query(world.place, f"select id, city from {DATASET}.contacts")
    assert dict(rows) == {row["id"]: row["city"] for row in held_tables(emulator)["contacts"]}
