"""Sync gives the same tables as replace, and writes only what changed."""

from pathlib import Path

import pytest
from holdings import DATASET, LISTED, Rows, change, held_tables, query, read_tables, typed_columns
from row_changes import amend, clear, refill, set_traits
from terminals import Letters, Outcome
from worlds import Begin, World

from letters_source import LoadFailed, SettingsError, make_pipeline, run
from letters_source.service.listings import ContactFilters
from programmable_emulator import Emulator, Traits

NOTES, GREEN = {"id": "1", "title": "notes"}, {"id": "2", "title": "green"}
FACETS = {
    "contacts__address_statuses": ("contact_id", "address_status"),
    "contacts__last_mailed_statuses": ("contact_id", "last_mailed_status"),
    "contacts__return_addresses": ("contact_id",),
    "templates__shared": ("template_id", "is_shared"),
}
EMPTY: dict[str, Rows] = {table: [] for table in LISTED}


@pytest.fixture
def world(begin: Begin) -> World:
    """Seven contacts and three templates."""
    return begin(Emulator(7, 3))


def replace_elsewhere(world: World) -> Path:
    """The file of a load that replaces all."""
    place = world.place.with_name("replaced.duckdb")
    run(make_pipeline("duckdb", place, name="replaced"), **world.settings)
    return place


def without_hash(place: Path) -> dict[str, Rows]:
    """The listings' tables without the columns that say how they were written."""
    return {
        name: [{key: value for key, value in row.items() if key != "row_hash"} for row in rows]
        for name, rows in read_tables(place).items()
        if name in LISTED
    }


def facets(place: Path) -> dict[str, set[tuple[object, ...]]]:
    """The rows of the facets' tables."""
    return {
        table: set(query(place, f"select {', '.join(key)} from {DATASET}.{table}")) for table, key in FACETS.items()
    }


def written(place: Path, load_id: str) -> dict[str, set[str]]:
    """The contact or template of each row that a load wrote."""
    keys = {name: "id" if "__" not in name else f"{name.partition('__')[0][:-1]}_id" for name in LISTED}
    found = {
        name: {row[0] for row in query(place, f"select {key} from {DATASET}.{name} where _dlt_load_id = '{load_id}'")}
        for name, key in keys.items()
    }
    return {name: ids for name, ids in found.items() if ids}


def test_the_tables_are_those_of_a_replacement_and_only_changes_are_written(world: World) -> None:
    """Sync gives the tables that replacing gives, and changes `_dlt_load_id` only of new and changed rows."""
    contacts, templates = world.emulator.contacts, world.emulator.templates
    for row_id in ("1", "2", "3", "4", "5", "6", "7"):
        amend(contacts, row_id, city="Hoboken", address2=None, ContactLabels=[NOTES])
    first = world.load(sync=True)
    assert without_hash(world.place) == held_tables(world.emulator)

    amend(contacts, "1", city="Elsewhere")
    amend(contacts, "2", ContactLabels=[])
    third = contacts.delete("3")
    amend(contacts, "4", nickname="undocumented")
    amend(contacts, "5", address2="")
    amend(contacts, "6", ContactLabels=[NOTES, GREEN])
    contacts.grow(0)
    amend(contacts, "8", ContactLabels=[GREEN])
    product = templates.rows()[0].document["product"]
    amend(templates, "1", product=None)
    amend(templates, "2", creator={"id": "77", "fullName": "Another Creator"})
    second = world.load(sync=True)
    held = held_tables(world.emulator)
    [fourth] = [row for row in held["contacts"] if row["id"] == "4"]
    fourth["undocumented"] = {"nickname": "undocumented"}
    assert without_hash(world.place) == held
    assert written(world.place, second.load_id) == {
        "contacts": {"1", "4", "5", "8"},
        "contacts__contact_labels": {"6", "8"},
        "templates__creator": {"2"},
    }
    assert written(world.place, first.load_id) == {
        "contacts": {"2", "6", "7"},
        "contacts__contact_labels": {"1", "4", "5", "6", "7"},
        "templates": {"1", "2", "3"},
        "templates__creator": {"1", "3"},
        "templates__product": {"2", "3"},
    }

    contacts.insert(third)
    amend(contacts, "4", nickname="of another kind")
    amend(contacts, "5", address2=None)
    amend(templates, "1", product=product)
    last = world.load(sync=True)
    assert without_hash(world.place) == without_hash(replace_elsewhere(world))
    assert written(world.place, last.load_id) == {
        "contacts": {"3", "4", "5"},
        "contacts__contact_labels": {"3"},
        "templates__product": {"1"},
    }


def test_a_change_in_what_is_undocumented_is_written(world: World) -> None:
    """Sync writes rows whose undocumented fields changed, in child tables too."""
    label, creator = NOTES | {"colour": "red"}, {"id": "7", "fullName": "Ada"}
    amend(world.emulator.contacts, "1", ContactLabels=[label])
    amend(world.emulator.templates, "1", creator=creator)
    world.load(sync=True)
    amend(world.emulator.contacts, "1", ContactLabels=[label | {"colour": "green"}])
    amend(world.emulator.templates, "1", creator=creator | {"born": 1815})
    load = world.load(sync=True)
    assert written(world.place, load.load_id) == {"contacts__contact_labels": {"1"}, "templates__creator": {"1"}}
    labels = "select undocumented->>'colour' from letters_data.contacts__contact_labels where contact_id = '1'"
    assert query(world.place, labels) == [("green",)]
    creators = "select undocumented->>'born' from letters_data.templates__creator where template_id = '1'"
    assert query(world.place, creators) == [("1815",)]


def test_loading_the_same_again_writes_the_audit_alone(world: World) -> None:
    """Syncing unchanged rows writes only the audit."""
    world.start_loaded(sync=True, facets=True)
    before = {table: set(query(world.place, f"from {DATASET}.{table}")) for table in (*LISTED, *FACETS)}
    again = world.load(sync=True, facets=True)
    assert {table: set(query(world.place, f"from {DATASET}.{table}")) for table in (*LISTED, *FACETS)} == before
    audits = "select mode, count(*) from letters_data.listing_audit group by all"
    assert query(world.place, audits) == [("sync", 2 * len(again.audits))]


def test_the_hash_is_the_only_further_column(world: World) -> None:
    """Sync adds `row_hash` as the last column of each table, and no views."""
    world.start_loaded(sync=True)
    columns = "select column_name, data_type from duckdb_columns() where schema_name = 'letters_data' and table_name = "
    found = {table: query(world.place, f"{columns}'{table}' order by column_index") for table in LISTED}
    assert found == {table: [*typed_columns(table), ("row_hash", "VARCHAR")] for table in LISTED}
    assert query(world.place, "select count(*) from duckdb_views() where schema_name = 'letters_data'") == [(0,)]


def test_facets_are_synced_too(world: World) -> None:
    """Sync deletes a status that a contact no longer has, and all facets of a deleted contact."""
    contacts = world.emulator.contacts
    refill(contacts, [type(row)(row.id, row.wire, Traits()) for row in contacts.rows()])
    for row_id in ("1", "2", "3"):
        set_traits(contacts, row_id, address_status="Failed", last_mailed_status="Mailed", is_return_address=True)
    world.load(sync=True, facets=True)
    set_traits(contacts, "1", address_status="Verified", last_mailed_status=None)
    set_traits(contacts, "2", is_return_address=False)
    contacts.delete("3")
    load = world.load(sync=True, facets=True)
    assert facets(world.place) == {
        "contacts__address_statuses": {("1", "Verified"), ("2", "Failed")},
        "contacts__last_mailed_statuses": {("2", "Mailed")},
        "contacts__return_addresses": {("1",)},
        "templates__shared": {(row.id, row.traits.is_shared) for row in world.emulator.templates.rows()},
    }
    sql = f"select contact_id from letters_data.contacts__address_statuses where _dlt_load_id = '{load.load_id}'"
    assert query(world.place, sql) == [("1",)]


def test_an_account_that_became_empty_leaves_empty_tables(world: World) -> None:
    """Sync empties the tables of an account that became empty, and fills them again."""
    rows = world.emulator.contacts.rows()
    world.start_loaded(sync=True)
    clear(world.emulator.contacts)
    clear(world.emulator.templates)
    world.load(sync=True, allow_empty=True)
    assert without_hash(world.place) == EMPTY
    refill(world.emulator.contacts, rows)
    world.load(sync=True)
    assert without_hash(world.place) == held_tables(world.emulator)


def test_with_filters_what_is_no_longer_found_is_deleted(begin: Begin) -> None:
    """Sync with filters deletes rows that the filters no longer find."""
    world = begin(Emulator(0, 0))
    contacts = world.emulator.contacts
    for row_id, name in (("1", "Smith"), ("2", "Jones"), ("3", "Smith")):
        contacts.insert({"id": row_id, "lastName": name, "ContactLabels": [NOTES]})
    smiths = ContactFilters(search="smith")
    world.load(sync=True, contact_filters=smiths)
    amend(contacts, "1", lastName="Miller")
    amend(contacts, "2", lastName="Smithers")
    world.load(sync=True, contact_filters=smiths)
    tables = without_hash(world.place)
    assert [row["id"] for row in tables["contacts"]] == ["2", "3"]
    assert [row["contact_id"] for row in tables["contacts__contact_labels"]] == ["2", "3"]


def test_a_failed_load_is_repaired_by_the_next(world: World) -> None:
    """A sync that fails at one table changes none, and the next load repairs all."""
    contacts = world.emulator.contacts
    for row_id in contacts.ids():
        amend(contacts, row_id, ContactLabels=[NOTES])
    world.load(sync=True)
    amend(contacts, "1", city="Elsewhere", ContactLabels=[NOTES, GREEN])
    contacts.delete("2")
    change(world.place, "create unique index one_label on letters_data.contacts__contact_labels (contact_id)")
    before = without_hash(world.place)
    with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
        world.load(sync=True)
    assert without_hash(world.place) == before
    change(world.place, "drop index letters_data.one_label")
    world.load(sync=True)
    assert without_hash(world.place) == held_tables(world.emulator)


@pytest.mark.parametrize("mode", ["sync", "history"])
def test_rows_of_a_load_that_never_finished_become_those_of_the_next(world: World, mode: str) -> None:
    """The next load takes over rows of a load that dlt's table of loads does not have."""
    world.start_loaded(**{mode: True})
    for table in ("contacts", "templates__product"):
        change(world.place, f"update letters_data.{table} set _dlt_load_id = '1.5'")
    second = world.load(**{mode: True})
    for table in ("contacts", "templates__product"):
        assert query(world.place, f"select distinct _dlt_load_id from letters_data.{table}") == [(second.load_id,)]


def test_history_and_sync_exclude_each_other(world: World) -> None:
    """`history` and `sync` together are an error that says why, before any request."""
    with pytest.raises(SettingsError) as caught:
        world.load(history=True, sync=True)
    assert str(caught.value) == (
        "sources.letters.history cannot be combined with sync, which deletes what history keeps."
    )
    assert world.emulator.hits == []
    assert not world.place.exists()


def test_the_command_names_an_option_that_another_setting_excludes(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`letters load --history` with sync as an option or in the environment is an error that names `--history`."""
    world.configure(monkeypatch)
    line = "letters: {} cannot be combined with sync, which deletes what history keeps.\n"
    assert letters("load", "--history", "--sync") == Outcome(2, "", line.format("option --history"))
    monkeypatch.setenv("SOURCES__LETTERS__SYNC", "true")
    assert letters("load", "--history") == Outcome(2, "", line.format("option --history"))
    monkeypatch.setenv("SOURCES__LETTERS__HISTORY", "true")
    assert letters("load") == Outcome(2, "", line.format("sources.letters.history"))
    assert world.emulator.hits == []


def test_the_command_syncs(letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`letters load --sync` writes only the changed row in its second load."""
    world.configure(monkeypatch)
    world.start_loaded(sync=True)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    assert letters("load", "--quiet", "--sync") == Outcome(0, "", "")
    assert without_hash(world.place) == held_tables(world.emulator)
    [(newest,)] = query(world.place, "select max(_dlt_load_id) from letters_data.contacts")
    assert written(world.place, newest) == {"contacts": {"1"}}
