"""History holds every version of every row, with the loads between which it was valid."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from holdings import DATASET, KEYS, LISTED, Rows, change, held_tables, in_order, parsed, query, typed_columns
from row_changes import amend, clear, refill, set_traits
from terminals import Letters, Outcome
from worlds import Begin, World, serve_world, verify

import letters_source
from letters_source import IncompleteListing, LoadFailed, Result
from letters_source.service.listings import ContactFilters, TemplateFilters
from letters_source.tables import tables_of
from programmable_emulator import Behavior, Drift, Emulator, Traits

Chains = dict[tuple[Any, ...], list[tuple[int, int | None]]]
"""The versions of each row by its key, each as the numbers of the loads that began and ended it."""

FACETS = {
    "contacts__address_statuses": ("contact_id", "address_status"),
    "contacts__last_mailed_statuses": ("contact_id", "last_mailed_status"),
    "contacts__return_addresses": ("contact_id",),
    "templates__shared": ("template_id", "is_shared"),
}
NOTES, GREEN, BLUE = ({"id": "1", "title": "notes"}, {"id": "2", "title": "green"}, {"id": "3", "title": "blue"})
SMITHS = {"only": ("contacts",), "contact_filters": ContactFilters(search="smith")}
BOTH = (*tables_of("templates"), *tables_of("contacts"))
EMPTY: dict[str, Rows] = {table: [] for table in LISTED}


@dataclass(frozen=True)
class Story:
    """A world, and its loads in their order."""

    world: World
    loads: list[Result]

    def start(self, **changes: Any) -> None:
        """Begin with a copy of a first load with history."""
        self.world.start_loaded(history=True, **changes)

    def load(self, **changes: Any) -> None:
        """Load once more, with history."""
        self.loads.append(self.world.load(history=True, **changes))

    def chains(self, table: str, key: Sequence[str] = ()) -> Chains:
        """The versions of a table's rows."""
        columns = ", ".join(key or KEYS[table])
        sql = f"select _dlt_valid_from, _dlt_valid_to, {columns} from letters_data.{table} order by all"
        numbers = numbered(self.world.place)
        found: Chains = defaultdict(list)
        for begin, end, *values in query(self.world.place, sql):
            found[tuple(values)].append((numbers[begin], numbers[end] if end else None))
        return dict(found)


def numbered(place: Path) -> dict[datetime, int]:
    """The number of the load that each moment belongs to: one moment for each load, before it began to read."""
    started = "select min(started_at), _dlt_load_id from letters_data.listing_audit group by _dlt_load_id order by 1"
    starts, load_ids = zip(*query(place, started), strict=True)
    columns = "_dlt_valid_from, _dlt_valid_to, _dlt_load_id"
    parts = (f"select distinct {columns} from letters_data.{table}" for table in history_tables(place))
    found = query(place, " union all ".join(parts))
    moments = {moment for row in found for moment in row[:2] if moment}
    numbers = {moment: 1 + sum(start < moment for start in starts) for moment in moments}
    assert len(set(numbers.values())) == len(numbers)
    assert all(numbers[begin] == load_ids.index(load_id) + 1 for begin, _, load_id in found)
    return numbers


def history_tables(place: Path) -> set[str]:
    """The tables with history."""
    sql = "select table_name from duckdb_columns() where schema_name = 'letters_data' and column_name = '_dlt_valid_to'"
    return {name for [name] in query(place, sql)}


def raw_tables(place: Path) -> dict[str, set[tuple[Any, ...]]]:
    """All values of all tables with history."""
    return {name: set(query(place, f"from letters_data.{name}")) for name in history_tables(place)}


def current_rows(place: Path, table: str) -> Rows:
    """What a table's view of its present rows shows."""
    with duckdb.connect(str(place)) as connection:
        rows = connection.sql(f"from {DATASET}.{table}_current").to_arrow_table().to_pylist()
    return in_order(table, map(parsed, rows))


def are_current(world: World) -> bool:
    """Whether the views of present rows hold what the emulator holds."""
    return {name: current_rows(world.place, name) for name in LISTED} == held_tables(world.emulator)


def make_story(world: World) -> Story:
    """Five loads; before each but the first, rows and their parts change, come, go and come back."""
    contacts, templates = world.emulator.contacts, world.emulator.templates
    labels = {"1": [NOTES], "2": [NOTES, GREEN], "3": [BLUE], "4": [], "5": [GREEN], "6": []}
    for row_id, given in labels.items():
        amend(contacts, row_id, city="Hoboken", address2=None, ContactLabels=given)
    story = Story(world, [])
    story.load()

    amend(contacts, "1", city="Elsewhere")
    amend(contacts, "2", ContactLabels=[NOTES])
    third = contacts.delete("3")
    amend(contacts, "4", ContactLabels=[BLUE])
    seventh = contacts.grow()
    amend(contacts, seventh.id, ContactLabels=[])
    product = templates.rows()[0].document["product"]
    amend(templates, "1", creator={"id": "77", "fullName": "Another Creator"}, product=None)
    templates.grow()
    story.load()

    amend(contacts, "1", city="Hoboken")
    amend(contacts, "2", ContactLabels=[NOTES | {"title": "Notes"}])
    amend(contacts, "6", nickname="Six")
    amend(templates, "1", title="Another title", product=product)
    amend(templates, "3", colour="red")
    story.load()

    contacts.insert(third, 0)
    amend(contacts, "5", address2="")
    amend(contacts, "6", nickname="Sixth")
    second = templates.delete("2")
    amend(templates, "3", product=templates.rows()[1].document["product"] | {"meta": {"new": True}})
    story.load()

    contacts.delete("7")
    amend(contacts, "5", ContactLabels=[BLUE, GREEN])
    templates.insert(second)
    story.load()
    return story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Six contacts and three templates, and their five loads, made once for the tests that only read."""
    with serve_world(tmp_path_factory.mktemp("history"), emulator=Emulator(6, 3)) as world:
        yield make_story(world)


ALWAYS: list[tuple[int, int | None]] = [(1, None)]
EXPECTED: dict[str, Chains] = {
    "contacts": {
        ("1",): [(1, 2), (2, 3), (3, None)],
        ("2",): ALWAYS,
        ("3",): [(1, 2), (4, None)],
        ("4",): ALWAYS,
        ("5",): [(1, 4), (4, None)],
        ("6",): ALWAYS,
        ("7",): [(2, 5)],
    },
    "contacts__contact_labels": {
        ("1", 0): ALWAYS,
        ("2", 0): [(1, 3), (3, None)],
        ("2", 1): [(1, 2)],
        ("3", 0): [(1, 2), (4, None)],
        ("4", 0): [(2, None)],
        ("5", 0): [(1, 5), (5, None)],
        ("5", 1): [(5, None)],
    },
    "templates": {
        ("1",): [(1, 3), (3, None)],
        ("2",): [(1, 4), (5, None)],
        ("3",): ALWAYS,
        ("4",): [(2, None)],
    },
    "templates__creator": {
        ("1",): [(1, 2), (2, None)],
        ("2",): [(1, 4), (5, None)],
        ("3",): ALWAYS,
        ("4",): [(2, None)],
    },
    "templates__product": {
        ("1",): [(1, 2), (3, None)],
        ("2",): [(1, 4), (5, None)],
        ("3",): [(1, 4), (4, None)],
        ("4",): [(2, None)],
    },
}


def test_all_moments_are_those_of_the_loads(story: Story) -> None:
    """Each load has one timestamp, the same in all tables, which begins the rows of the load."""
    assert set(numbered(story.world.place).values()) == {1, 2, 3, 4, 5}
    order = "select _dlt_load_id from letters_data.listing_audit group by _dlt_load_id order by min(started_at)"
    assert [load_id for [load_id] in query(story.world.place, order)] == [load.load_id for load in story.loads]


@pytest.mark.parametrize("table", LISTED)
def test_every_version_is_there_with_its_moments(story: Story, table: str) -> None:
    """Changed rows have one version after the other, returned ones a gap; rows that stayed the same keep theirs.

    What is undocumented (contact 6, template 3) makes no version; an empty text in place of null (contact 5) does.
    """
    assert story.chains(table) == EXPECTED[table]


def test_every_version_has_its_values(story: Story) -> None:
    """Each version has the values that were valid then."""
    cities = "select city from letters_data.contacts where id = '1' order by _dlt_valid_from"
    titles = (
        "select title from letters_data.contacts__contact_labels where contact_id = '5' "
        "order by _dlt_valid_from, position"
    )
    lines = "select address2 from letters_data.contacts where id = '5' order by _dlt_valid_from"
    place = story.world.place
    assert query(place, cities) == [("Hoboken",), ("Elsewhere",), ("Hoboken",)]
    assert query(place, titles) == [("green",), ("blue",), ("green",)]
    assert query(place, lines) == [(None,), ("",)]


def test_a_version_that_comes_back_has_the_hash_it_had(story: Story) -> None:
    """Equal values have equal row hashes, and other values different ones."""
    sql = "select row_hash from letters_data.contacts where id in ('1', '3') order by id, _dlt_valid_from"
    first, second, third, gone, back = query(story.world.place, sql)
    assert first == third != second
    assert gone == back
    assert query(story.world.place, "select count(distinct row_hash) from letters_data.contacts") == [(9,)]


def test_the_views_hold_exactly_the_present_rows(story: Story) -> None:
    """The views of current rows have exactly the rows of the last load, for parents and children."""
    assert are_current(story.world)


@pytest.mark.parametrize("table", LISTED)
def test_tables_have_the_columns_of_history_and_views_have_not(story: Story, table: str) -> None:
    """The hash and the validity are the last columns, which the views leave out."""
    columns = "select column_name, data_type from duckdb_columns() where schema_name = 'letters_data' and table_name = "
    moment = "TIMESTAMP WITH TIME ZONE"
    history = [("row_hash", "VARCHAR"), ("_dlt_valid_from", moment), ("_dlt_valid_to", moment)]
    assert query(story.world.place, f"{columns}'{table}' order by column_index") == typed_columns(table) + history
    assert query(story.world.place, f"{columns}'{table}_current' order by column_index") == typed_columns(table)


def test_tables_that_only_grow_have_no_history(story: Story) -> None:
    """Rejected rows and the audit are appended without history, and the audit has the mode."""
    assert history_tables(story.world.place) == set(LISTED)
    assert query(story.world.place, "select mode, count(*) from letters_data.listing_audit group by all") == [
        ("history", 10)
    ]


def test_the_result_counts_all_versions_and_the_audit_those_that_were_read(story: Story) -> None:
    """The result counts all versions; the audit counts the rows that were read."""
    last = story.loads[-1]
    versions = {table: sum(map(len, chains.values())) for table, chains in EXPECTED.items()}
    assert dict(last.tables) == {**versions, "rejected_rows": 0, "listing_audit": 10}
    assert [(audit["listing"], audit["rows_yielded"]) for audit in last.audits] == [("templates", 4), ("contacts", 6)]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("delete from letters_data.contacts where _dlt_valid_to is not null", None),
        (
            "delete from letters_data.contacts where id = '4'",
            "contacts: read 6 rows, but the destination holds 5 with 5 ids; load again.",
        ),
        (
            "update letters_data.contacts set _dlt_valid_to = null where id = '7'",
            "contacts: read 6 rows, but the destination holds 7 with 7 ids; load again.",
        ),
        (
            "update letters_data.contacts__contact_labels set contact_id = '7' where contact_id = '4'",
            "contacts__contact_labels: 1 row without a row in contacts; load again.",
        ),
    ],
)
def test_verification_goes_by_present_rows_alone(story: Story, statement: str, complaint: str | None) -> None:
    """Verification checks the current rows: their number, their keys and their parents."""
    world, load_id = story.world, story.loads[-1].load_id
    kept = world.place.read_bytes()
    try:
        change(world.place, statement)
        if complaint:
            with pytest.raises(LoadFailed) as caught:
                verify(world.pipeline, load_id, BOTH)
            assert str(caught.value) == complaint
        else:
            assert verify(world.pipeline, load_id, BOTH) == story.loads[-1].audits
    finally:
        world.place.write_bytes(kept)


def test_an_incomplete_listing_ends_no_version(begin: Begin) -> None:
    """An incomplete listing changes no row, because missing rows may still exist."""
    story = Story(begin(Emulator(9, 3)), [])
    story.start(only=("contacts",))
    before = raw_tables(story.world.place)
    for behavior in (Behavior(ignore_page=True), Behavior(drift=[Drift("swap")])):
        story.world.emulator.behavior = behavior
        with pytest.raises(IncompleteListing):
            story.load(only=("contacts",), page_size=2)
    assert raw_tables(story.world.place) == before


def test_a_part_that_is_not_loaded_ends_no_version(begin: Begin) -> None:
    """A load of contacts alone does not end versions of templates."""
    story = Story(begin(Emulator(3, 2)), [])
    story.start()
    story.world.emulator.templates.delete("1")
    story.world.emulator.contacts.delete("1")
    story.load(only=("contacts",))
    assert story.chains("contacts") == {("1",): [(1, 2)], ("2",): ALWAYS, ("3",): ALWAYS}
    assert story.chains("templates") == {("1",): ALWAYS, ("2",): ALWAYS}


def contact(row_id: str, name: str, *labels: dict[str, str], **others: Any) -> dict[str, Any]:
    """A contact with a last name and labels."""
    return {"id": row_id, "lastName": name, "ContactLabels": list(labels), **others}


@pytest.fixture
def smiths(begin: Begin) -> Story:
    """Three contacts named Smith, and one who is not, of whom the Smiths are loaded."""
    story = Story(begin(Emulator(0, 0)), [])
    contacts = story.world.emulator.contacts
    contacts.insert(contact("1", "Smith", NOTES))
    contacts.insert(contact("2", "Jones", NOTES))
    contacts.insert(contact("3", "Smith", NOTES, GREEN))
    contacts.insert(contact("4", "Smith", BLUE))
    story.load(**SMITHS)
    return story


def test_a_first_load_with_filters_writes_what_it_finds_alone(begin: Begin) -> None:
    """Without digests, staged child rows include ids of their contacts, which are not loaded."""
    story = Story(begin(Emulator(0, 0)), [])
    for row_id, name in (("1", "Smith"), ("2", "Jones")):
        story.world.emulator.contacts.insert(contact(row_id, name, NOTES))
    # hidden values without a key
    story.load(pii={"city": "drop"}, **SMITHS)
    assert story.chains("contacts") == {("1",): ALWAYS}
    assert story.chains("contacts__contact_labels") == {("1", 0): ALWAYS}


def test_filters_end_versions_of_what_they_find_alone(smiths: Story) -> None:
    """A row that no longer matches the filter stays current until it is found with other values."""
    contacts = smiths.world.emulator.contacts
    amend(contacts, "1", lastName="Miller", ContactLabels=[])
    amend(contacts, "3", city="Elsewhere", ContactLabels=[NOTES])
    contacts.delete("4")
    contacts.insert(contact("5", "Smith", NOTES))
    smiths.load(**SMITHS)
    for row_id in ("3", "5"):
        amend(contacts, row_id, lastName="Miller")
    smiths.load(**SMITHS)
    amend(contacts, "1", lastName="Smithers", ContactLabels=[BLUE])
    smiths.load(**SMITHS)
    assert smiths.chains("contacts") == {
        ("1",): [(1, 4), (4, None)],
        ("3",): [(1, 2), (2, None)],
        ("4",): ALWAYS,
        ("5",): [(2, None)],
    }
    assert smiths.chains("contacts__contact_labels") == {
        ("1", 0): [(1, 4), (4, None)],
        ("3", 0): ALWAYS,
        ("3", 1): [(1, 2)],
        ("4", 0): ALWAYS,
        ("5", 0): [(2, None)],
    }
    assert [audit["rows_yielded"] for load in smiths.loads for audit in load.audits] == [3, 2, 0, 1]


def test_with_filters_a_last_label_that_is_gone_is_ended(smiths: Story) -> None:
    """A label ends when its contact is found without it; labels of other contacts stay current."""
    contacts = smiths.world.emulator.contacts
    amend(contacts, "3", ContactLabels=[])
    amend(contacts, "4", lastName="Miller")
    smiths.load(**SMITHS)
    amend(contacts, "3", ContactLabels=[NOTES])
    smiths.load(**SMITHS)
    assert smiths.chains("contacts__contact_labels") == {
        ("1", 0): ALWAYS,
        ("3", 0): [(1, 2), (3, None)],
        ("3", 1): [(1, 2)],
        ("4", 0): ALWAYS,
    }
    assert smiths.chains("contacts") == {("1",): ALWAYS, ("3",): ALWAYS, ("4",): ALWAYS}


def test_with_filters_a_product_that_is_gone_is_ended(begin: Begin) -> None:
    """A product ends when its template is found without it."""
    story = Story(begin(Emulator(0, 3)), [])
    templates = story.world.emulator.templates
    for row_id, shared in (("1", True), ("2", True), ("3", False)):
        set_traits(templates, row_id, is_shared=shared)
    shared_ones = {"only": ("templates",), "template_filters": TemplateFilters(is_shared=True)}
    story.load(**shared_ones)
    amend(templates, "1", product=None)
    story.load(**shared_ones)
    assert story.chains("templates__product") == {("1",): [(1, 2)], ("2",): ALWAYS}
    assert story.chains("templates__creator") == {("1",): ALWAYS, ("2",): ALWAYS}


def test_with_filters_a_status_that_is_gone_is_ended(smiths: Story) -> None:
    """A status ends when its contact is found without it; contacts that are not found keep theirs."""
    contacts = smiths.world.emulator.contacts
    for row_id in ("1", "3", "4"):
        set_traits(contacts, row_id, address_status="Failed", is_return_address=True)
    smiths.load(facets=True, **SMITHS)
    set_traits(contacts, "1", address_status=None, is_return_address=False)
    set_traits(contacts, "3", address_status="Verified")
    amend(contacts, "4", lastName="Miller")
    smiths.load(facets=True, **SMITHS)
    assert smiths.chains("contacts__address_statuses", ("contact_id", "address_status")) == {
        ("1", "Failed"): [(2, 3)],
        ("3", "Failed"): [(2, 3)],
        ("3", "Verified"): [(3, None)],
        ("4", "Failed"): [(2, None)],
    }
    assert smiths.chains("contacts__return_addresses", ("contact_id",)) == {
        ("1",): [(2, 3)],
        ("3",): [(2, None)],
        ("4",): [(2, None)],
    }


def test_facets_have_their_versions_too(begin: Begin) -> None:
    """A changed status ends one version and begins another; a deleted contact ends all its versions."""
    story = Story(begin(Emulator(4, 2)), [])
    contacts, templates = story.world.emulator.contacts, story.world.emulator.templates
    plain = Traits()
    refill(contacts, [type(row)(row.id, row.wire, plain) for row in contacts.rows()])
    for row_id in ("1", "2", "3"):
        set_traits(contacts, row_id, address_status="Failed", last_mailed_status="Mailed", is_return_address=True)
    for row_id in ("1", "2"):
        set_traits(templates, row_id, is_shared=False)
    story.load(facets=True)
    set_traits(contacts, "1", address_status="Verified", last_mailed_status=None)
    set_traits(contacts, "2", is_return_address=False)
    contacts.delete("3")
    set_traits(contacts, "4", last_mailed_status="Scheduled")
    set_traits(templates, "1", is_shared=True)
    story.load(facets=True)
    set_traits(contacts, "1", address_status="Failed")
    story.load(facets=True)
    assert {table: story.chains(table, key) for table, key in FACETS.items()} == {
        "contacts__address_statuses": {
            ("1", "Failed"): [(1, 2), (3, None)],
            ("1", "Verified"): [(2, 3)],
            ("2", "Failed"): ALWAYS,
            ("3", "Failed"): [(1, 2)],
        },
        "contacts__last_mailed_statuses": {
            ("1", "Mailed"): [(1, 2)],
            ("2", "Mailed"): ALWAYS,
            ("3", "Mailed"): [(1, 2)],
            ("4", "Scheduled"): [(2, None)],
        },
        "contacts__return_addresses": {("1",): ALWAYS, ("2",): [(1, 2)], ("3",): [(1, 2)]},
        "templates__shared": {("1", False): [(1, 2)], ("1", True): [(2, None)], ("2", False): ALWAYS},
    }
    for table, key in FACETS.items():
        present = {values for values, versions in story.chains(table, key).items() if versions[-1][1] is None}
        shown = query(story.world.place, f"select {', '.join(key)} from letters_data.{table}_current")
        assert sorted(shown) == sorted(present)


def test_an_account_that_became_empty_ends_all_versions(begin: Begin) -> None:
    """An empty account ends all versions, and rows that return begin new ones."""
    story = Story(begin(Emulator(3, 2)), [])
    contacts, templates = story.world.emulator.contacts, story.world.emulator.templates
    rows = contacts.rows()
    story.start()
    clear(contacts)
    clear(templates)
    story.load(allow_empty=True)
    assert {name: current_rows(story.world.place, name) for name in LISTED} == EMPTY
    assert {versions[-1] for name in LISTED for versions in story.chains(name).values()} == {(1, 2)}
    refill(contacts, rows[:1])
    story.load()
    assert story.chains("contacts") == {("1",): [(1, 2), (3, None)], ("2",): [(1, 2)], ("3",): [(1, 2)]}
    assert are_current(story.world)


def test_an_account_that_was_empty_from_the_first_begins_later(begin: Begin) -> None:
    """An account that was empty at first has all tables and views, and its rows begin later."""
    story = Story(begin(Emulator(0, 0)), [])
    story.load()
    assert {name: current_rows(story.world.place, name) for name in LISTED} == EMPTY
    story.world.emulator.contacts.grow()
    story.load()
    assert story.chains("contacts") == {("1",): [(2, None)]}
    assert are_current(story.world)


def test_a_failed_load_is_repaired_by_the_next(begin: Begin) -> None:
    """A failed load changes no table, and the next load begins each version once."""
    story = Story(begin(Emulator(4, 3)), [])
    contacts, place = story.world.emulator.contacts, story.world.place
    for row_id in ("1", "2", "3", "4"):
        amend(contacts, row_id, ContactLabels=[NOTES])
    story.load()
    amend(contacts, "1", city="Elsewhere", ContactLabels=[GREEN])
    contacts.delete("2")
    change(place, "create unique index one_label on letters_data.contacts__contact_labels (contact_id)")
    tables = [f"letters_data.{table}" for table in KEYS]
    before = [query(place, f"from {table} order by all") for table in tables]
    with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
        story.load()
    assert [query(place, f"from {table} order by all") for table in tables] == before
    change(place, "drop index letters_data.one_label")
    amend(contacts, "3", city="Elsewhere")
    story.load()
    assert are_current(story.world)
    for table, started in (("contacts", {"1": 2, "2": 1, "3": 2, "4": 1}), ("contacts__contact_labels", {"1": 2})):
        sql = f"select {KEYS[table][0]}, count(*) from letters_data.{table} group by all"
        assert dict(query(place, sql)) == {"1": 1, "2": 1, "3": 1, "4": 1} | started
    pairs = (
        "letters_data.contacts a join letters_data.contacts b on a.id = b.id and a._dlt_valid_from < b._dlt_valid_from"
    )
    assert query(place, f"select a.id, a._dlt_valid_to = b._dlt_valid_from from {pairs} order by 1") == [
        ("1", True),
        ("3", True),
    ]


def test_loading_the_same_again_writes_no_version(begin: Begin) -> None:
    """Loading unchanged rows changes no value of any table with history."""
    story = Story(begin(Emulator(30, 7)), [])
    story.start(facets=True)
    before = raw_tables(story.world.place)
    story.load(facets=True)
    assert raw_tables(story.world.place) == before
    assert set(before) == {*LISTED, *FACETS}


def test_json_that_is_written_anew_makes_no_version(begin: Begin) -> None:
    """JSON with its keys in another order is the same; so is JSON whose hash is of an earlier release."""
    story = Story(begin(Emulator(1, 3)), [])
    templates = story.world.emulator.templates
    meta = {"folds": 1, "colors": ["black"]}
    for row_id in templates.ids():
        amend(templates, row_id, product={"id": "1", "meta": meta})
    story.load()
    change(story.world.place, "update letters_data.templates__product set row_hash = 'of an earlier release'")
    # with another key, all rows are compared
    story.load(pii_key="a key of 16 bytes")
    for row_id in templates.ids()[:2]:
        amend(templates, row_id, product={"id": "1", "meta": dict(reversed(meta.items()))})
    amend(templates, "3", product={"id": "1", "meta": {**meta, "folds": 2}})
    story.load(pii_key="a key of 16 bytes")
    assert story.chains("templates__product") == {("1",): ALWAYS, ("2",): ALWAYS, ("3",): [(1, 3), (3, None)]}


def test_a_plain_pipeline_keeps_history_too(begin: Begin) -> None:
    """The source alone writes versions; only `run` makes the views."""
    world = begin(Emulator(3, 2))
    for city in ("Hoboken", "Elsewhere"):
        amend(world.emulator.contacts, "1", city=city)
        world.pipeline.run(letters_source.letters(**world.settings, history=True))
    sql = "select id, city from letters_data.contacts where id = '1' order by _dlt_valid_from"
    assert query(world.place, sql) == [("1", "Hoboken"), ("1", "Elsewhere")]
    assert query(world.place, "select count(*) from duckdb_views() where schema_name = 'letters_data'") == [(0,)]


def test_the_command_keeps_history(letters: Letters, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--history` keeps a version of each changed row."""
    world = begin(Emulator(3, 2))
    world.configure(monkeypatch)
    world.start_loaded(history=True)
    amend(world.emulator.contacts, "1", city="Elsewhere")
    assert letters("load", "--quiet", "--history") == Outcome(0, "", "")
    versions = "select id, count(*) from letters_data.contacts group by id order by id"
    assert query(world.place, versions) == [("1", 2), ("2", 1), ("3", 1)]
    assert are_current(world)
