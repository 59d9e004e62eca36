"""What a second load changes."""

from pathlib import Path
from typing import Any

import pytest
from holdings import LISTED, change, held_tables, parsed, query, table_names
from worlds import Begin, World

from letters_source import NotAuthorized, SettingsError
from letters_source.config.settings import Kind
from programmable_emulator import Emulator


def loads(world: World) -> dict[str, int]:
    """Count the loads that the rows of each table come from."""
    tables = ("templates", "contacts", "contacts__contact_labels", "listing_audit")
    return {
        table: query(world.place, f"select count(distinct _dlt_load_id) from letters_data.{table}")[0][0]
        for table in tables
    }


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_loading_twice_gives_the_same_rows(begin: Begin, kind: Kind) -> None:
    """A second load leaves the tables as they were, and adds its rows to the audit."""
    world = begin(Emulator(30, 7), kind)
    first = world.load()
    once = world.tables()
    second = world.load()
    twice = world.tables()
    assert {name: twice[name] for name in LISTED} == {name: once[name] for name in LISTED}
    assert twice["listing_audit"] == once["listing_audit"] + [parsed({**audit}) for audit in second.audits]
    assert first.load_id != second.load_id


def test_rows_that_dlt_writes_into_several_files_are_all_loaded(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in several files are all loaded, into a new file and then in place of the rows there."""
    monkeypatch.setenv("DATA_WRITER__FILE_MAX_ITEMS", "1")
    world = begin(Emulator(30, 7))
    # each status is requested, and its rows become a file
    table = "contacts__address_statuses"
    statuses = [row.traits.address_status for row in world.emulator.contacts.rows() if row.traits.address_status]
    for _ in range(2):
        result = world.load(facets=True)
        trace: Any = world.pipeline.last_trace
        files = [file for part in trace.last_extract_info.metrics[result.load_id] for file in part["job_metrics"]]
        assert sum(file.startswith(f"{table}.") for file in files) == len(set(statuses)) > 1
        assert result.tables[table] == len(statuses)


def test_dlts_folder_may_have_any_name(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second load reads its rows from files in dlt's folder, whose name may have quotes and semicolons."""
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "it's; mine"))
    world = begin(Emulator(30, 7))
    for _ in range(2):
        assert world.load().tables["contacts"] == len(world.emulator.contacts.rows())


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_changed_new_and_deleted_rows_are_seen(begin: Begin, kind: Kind) -> None:
    """A second load applies changed, new and deleted rows, in child tables too."""
    world = begin(Emulator(30, 7), kind)
    world.start_loaded()
    contacts, templates = world.emulator.contacts, world.emulator.templates
    moved = contacts.delete("5").document | {"city": "Elsewhere", "ContactLabels": [{"id": "99", "title": "moved"}]}
    contacts.insert(moved)
    contacts.delete("7")
    contacts.grow(at=0)
    templates.insert(templates.delete("3").document | {"product": None})
    world.load()
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    [found] = [row for row in tables["contacts"] if row["id"] == "5"]
    assert found["city"] == "Elsewhere"
    assert not any(row["id"] == "7" for row in tables["contacts"])
    assert not any(row["template_id"] == "3" for row in tables["templates__product"])


def test_all_rows_gone_are_gone_from_duckdb_and_from_staging(begin: Begin) -> None:
    """A second load empties the table of labels if no contact has a label anymore, and leaves no row in staging."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    for row in world.emulator.contacts.rows():
        world.emulator.contacts.delete(row.id)
        world.emulator.contacts.insert(row.document | {"ContactLabels": []})
    world.load()
    tables = world.tables()
    assert tables["contacts__contact_labels"] == []
    assert len(tables["contacts"]) == 30
    staged = {name for schema, name in table_names(world.place) if schema == "letters_data_staging"}
    assert staged - {"_dlt_version"} == set(LISTED)
    counts = {name: query(world.place, f"select count(*) from letters_data_staging.{name}") for name in LISTED}
    assert counts == {name: [(0,)] for name in LISTED}


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_only_contacts_leaves_templates_as_they_are(begin: Begin, kind: Kind) -> None:
    """A load of contacts alone neither requests nor changes templates, and has no audit of them."""
    world = begin(Emulator(30, 7), kind)
    world.start_loaded()
    before = world.tables()
    world.emulator.templates.delete("1")
    world.emulator.contacts.delete("1")
    sent = len(world.emulator.hits)
    result = world.load(only=("contacts",))
    after = world.tables()
    assert {hit.path.rpartition("/")[2] for hit in world.emulator.hits[sent:]} == {"contacts"}
    unchanged = ("templates", "templates__creator", "templates__product")
    assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}
    assert {row["id"] for row in after["contacts"]} == {str(number) for number in range(2, 31)}
    assert [audit["listing"] for audit in result.audits] == ["contacts"]
    assert [row["listing"] for row in after["listing_audit"]] == ["templates", "contacts", "contacts"]
    assert set(result.tables) == {"contacts", "contacts__contact_labels", "rejected_rows", "listing_audit"}


def test_a_first_load_of_one_listing_makes_the_tables_of_that_listing(begin: Begin) -> None:
    """A first load of one listing makes the tables of that listing only."""
    world = begin(Emulator(30, 7))
    world.start_loaded(only=("templates",))
    own = {"templates", "templates__creator", "templates__product"}
    assert set(world.tables()) == own | {"rejected_rows", "listing_audit"}
    world.load(only=("contacts",))
    assert set(world.tables()) == own | {"contacts", "contacts__contact_labels", "rejected_rows", "listing_audit"}
    assert loads(world) == {"templates": 1, "contacts": 1, "contacts__contact_labels": 1, "listing_audit": 2}


def test_an_unknown_listing_is_refused(begin: Begin) -> None:
    """The error for an unknown listing lists the known ones, before any request."""
    world = begin(Emulator(1, 1))
    with pytest.raises(SettingsError) as caught:
        world.load(only=("contacts", "letters", "campaigns"))
    assert str(caught.value) == "only must name templates, contacts, mailings, got campaigns, letters."
    assert world.emulator.hits == []
    assert not world.place.exists()


def test_a_comment_that_a_user_changed_is_written_again(begin: Begin) -> None:
    """A load restores comments of tables and columns that users have changed."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    found = comments(world)
    change(world.place, "comment on table letters_data.contacts is 'mine'")
    change(world.place, "comment on column letters_data.contacts.id is null")
    assert comments(world) != found
    world.load()
    assert comments(world) == found


@pytest.mark.parametrize("mode", ["sync", "history"])
def test_hashes_have_their_comment(begin: Begin, mode: str) -> None:
    """Where tables have a hash of each row, its column has its description as its comment."""
    world = begin(Emulator(30, 7))
    world.load(**{mode: True})
    hashes = {table: text for table, column, text in comments(world) if column == "row_hash"}
    assert hashes == dict.fromkeys(LISTED, "Hash of the row, which tells whether it changed.")


def comments(world: World) -> set[tuple[str, ...]]:
    """The comments of all tables and columns of the dataset."""
    sql = (
        "select table_name, '', comment from duckdb_tables() where schema_name = 'letters_data' "
        "union all select table_name, column_name, comment from duckdb_columns() where schema_name = 'letters_data'"
    )
    return set(query(world.place, sql))


def test_a_failed_load_is_followed_by_a_good_one(begin: Begin) -> None:
    """A load succeeds after one that failed because the tokens were refused."""
    world = begin(Emulator(30, 7))
    good, world.emulator.refresh_token = world.emulator.refresh_token, "another"
    with pytest.raises(NotAuthorized, match="refused the tokens"):
        world.load()
    world.emulator.refresh_token = good
    world.load()
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    assert len(tables["listing_audit"]) == 2
