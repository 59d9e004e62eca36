"""Facet tables hold exactly what the service filters by but does not return."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any
from urllib.parse import parse_qsl

import duckdb
import pytest
from holdings import DATASET, Rows, parsed, query, table_names
from row_changes import set_traits
from worlds import Begin, World, serve_world

from letters_source import Result
from letters_source.config.settings import Kind
from letters_source.service.listings import ContactFilters, TemplateFilters
from programmable_emulator import Emulator, Hit, Reply, Row, Traits, When

Pairs = set[tuple[Any, ...]]

ADDRESS = "contacts__address_statuses"
MAILED = "contacts__last_mailed_statuses"
RETURNS = "contacts__return_addresses"
SHARED = "templates__shared"
COLUMNS = {
    ADDRESS: {"contact_id": "VARCHAR", "address_status": "VARCHAR"},
    MAILED: {"contact_id": "VARCHAR", "last_mailed_status": "VARCHAR"},
    RETURNS: {"contact_id": "VARCHAR"},
    SHARED: {"template_id": "VARCHAR", "is_shared": "BOOLEAN"},
}
STATUSES = ("In Transit", "Mailed", "Scheduled", "Returned")
PAGE_SIZE = 100
CONTACTS = ("contacts",)


def traits_of(emulator: Emulator, chosen: Iterable[Row] | None = None) -> dict[str, Pairs]:
    """The facets' rows as the traits of the emulator's rows make them; of some contacts only, if given."""
    contacts = list(emulator.contacts.rows() if chosen is None else chosen)
    return {
        ADDRESS: {(row.id, row.traits.address_status) for row in contacts if row.traits.address_status},
        MAILED: {(row.id, row.traits.last_mailed_status) for row in contacts if row.traits.last_mailed_status},
        RETURNS: {(row.id,) for row in contacts if row.traits.is_return_address},
        SHARED: {(row.id, row.traits.is_shared) for row in emulator.templates.rows()},
    }


def held(world: World) -> dict[str, Pairs]:
    """The facets' rows that the place holds, each once; tables that are not there are left out."""
    rows = {table: read_rows(world, table) for table in sorted(COLUMNS) if is_there(world, table)}
    assert {table: len(found) for table, found in rows.items()} == {
        table: len(set(found)) for table, found in rows.items()
    }
    return {table: set(found) for table, found in rows.items()}


def read(world: World, listing: str, **settings: Any) -> dict[str, Pairs]:
    """The facets' rows that a source yields for a listing, each once; no pipeline loads them."""
    return pairs_of(world.read(listing, facets=True, **settings))


def pairs_of(tables: dict[str, Rows]) -> dict[str, Pairs]:
    """The facets' rows among those of all tables, each once."""
    rows = {table: found for table, found in tables.items() if table in COLUMNS}
    pairs = {table: {tuple(row.values()) for row in found} for table, found in rows.items()}
    assert {table: len(found) for table, found in rows.items()} == {table: len(found) for table, found in pairs.items()}
    return pairs


def read_rows(world: World, table: str) -> list[tuple[Any, ...]]:
    """A facet's rows in a DuckDB file or a folder of Parquet files, without the load's id."""
    columns = ", ".join(COLUMNS[table])
    if world.place.is_dir():
        return duckdb.sql(f"select {columns} from '{world.place}/{DATASET}/{table}/*.parquet'").fetchall()
    return query(world.place, f"select {columns} from {DATASET}.{table}")


def is_there(world: World, table: str) -> bool:
    """Whether the place has the table."""
    if world.place.is_dir():
        return (world.place / DATASET / table).exists()
    return (DATASET, table) in table_names(world.place)


def audits_of(result: Result) -> Rows:
    """The audits of a load, JSON parsed."""
    return [parsed({**audit}) for audit in result.audits]


def audited(audits: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any, int, bool | None]]:
    """The facets' audits among those of a load: table, filters, rows, whether the values add up."""
    found = (
        (audit["listing"], audit["filters"], audit["rows_yielded"], audit["adds_up"])
        for audit in audits
        if audit["listing"] in COLUMNS
    )
    return sorted(found, key=str)


def requested(hits: Iterable[Hit]) -> Counter[tuple[str, str, str]]:
    """Count the requests of each page of each query: listing, filters, page."""
    return Counter((hit.path.rpartition("/")[2], *split_query(hit.query)) for hit in hits)


def split_query(text: str) -> tuple[str, str]:
    """A query's filters, as one text, and its page; an unusual page size is listed among the filters."""
    params = dict(parse_qsl(text))
    page, size = params.pop("page"), params.pop("pageSize")
    sized = {} if int(size) == PAGE_SIZE else {"pageSize": size}
    return " ".join(f"{name}={value}" for name, value in (params | sized).items()), page


def walked(listing: str, filters: str, count: int) -> Counter[tuple[str, str, str]]:
    """The requests of one quiet walk: each page once; where there are several, the first and the last once more.

    After a full last page, the next one is requested, too.
    """
    pages = max(1, ceil(count / PAGE_SIZE))
    recheck = (0, pages - 1) if pages > 1 else ()
    past = (pages,) if count and count % PAGE_SIZE == 0 else ()
    return Counter((listing, filters, str(page)) for page in (*range(pages), *recheck, *past))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that were logged."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def causes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the first part of each warning, before its consequence."""
    return [line.partition(";")[0] for line in warnings(caplog)]


def envelope(emulator: Emulator) -> Reply:
    """Return an answer with all contacts on one page, for any query."""
    rows = [row.document for row in emulator.contacts.rows()]
    return Reply.of({"message": "Success", "data": {"count": len(rows), "rows": rows}})


@dataclass(frozen=True)
class Loaded:
    """A world, and what its first load returned."""

    world: World
    result: Result


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """5,000 contacts and 300 templates, loaded once for all tests that only read."""
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=Emulator(5_000, 300)) as world:
        yield Loaded(world, world.load(facets=True, page_size=PAGE_SIZE, last_mailed_statuses=STATUSES))


@pytest.mark.parametrize("table", COLUMNS)
def test_rows_are_the_traits_that_the_service_filters_by(loaded: Loaded, table: str) -> None:
    """Each facet has exactly the values of all contacts and templates."""
    expected = traits_of(loaded.world.emulator)[table]
    assert held(loaded.world)[table] == expected
    assert loaded.result.tables[table] == len(expected) > 125


def test_every_value_is_read_page_by_page_and_an_empty_one_with_one_request(loaded: Loaded) -> None:
    """Each page of a listing or value is read once, and its first and last page once more."""
    emulator = loaded.world.emulator
    traits = [row.traits for row in emulator.contacts.rows()]
    shared = sum(row.traits.is_shared for row in emulator.templates.rows())
    counts = [
        ("templates", "", 300),
        ("templates", "isShared=true", shared),
        ("templates", "isShared=false", 300 - shared),
        ("contacts", "", 5_000),
        ("contacts", "isReturnAddress=true", sum(trait.is_return_address for trait in traits)),
        *(
            ("contacts", f'addressStatus=["{status}"]', sum(trait.address_status == status for trait in traits))
            for status in ("Failed", "Verified")
        ),
        *(
            ("contacts", f'lastMailedStatus=["{status}"]', sum(trait.last_mailed_status == status for trait in traits))
            for status in STATUSES
        ),
    ]
    assert ("contacts", 'lastMailedStatus=["Returned"]', 0) in counts
    assert requested(emulator.hits) == sum((walked(*count) for count in counts), Counter())


def test_every_value_has_its_audit(loaded: Loaded) -> None:
    """The audit says of each value whether the values of its facet add up to the listing."""
    traits = [row.traits for row in loaded.world.emulator.contacts.rows()]
    failed, verified = (sum(trait.address_status == status for trait in traits) for status in ("Failed", "Verified"))
    mailed = Counter(trait.last_mailed_status for trait in traits)
    shared = sum(row.traits.is_shared for row in loaded.world.emulator.templates.rows())
    assert audited(audits_of(loaded.result)) == sorted(
        [
            (ADDRESS, {"address_status": ["Failed"]}, failed, False),
            (ADDRESS, {"address_status": ["Verified"]}, verified, False),
            *((MAILED, {"last_mailed_status": [status]}, mailed[status], False) for status in STATUSES),
            (RETURNS, {"is_return_address": True}, sum(trait.is_return_address for trait in traits), None),
            (SHARED, {"is_shared": False}, 300 - shared, True),
            (SHARED, {"is_shared": True}, shared, True),
        ],
        key=str,
    )


def test_an_audit_counts_the_requests_of_its_value(loaded: Loaded) -> None:
    """The audit counts the requests of each value; a value without contacts takes one request."""
    requests = {
        (audit["listing"], audit["filters"]): (audit["count_last"], audit["requests"], audit["duplicates_dropped"])
        for audit in loaded.result.audits
        if audit["listing"] == MAILED
    }
    counts = Counter(row.traits.last_mailed_status for row in loaded.world.emulator.contacts.rows())
    expected = {}
    for status in STATUSES:
        pages = walked("contacts", "", counts[status])
        recheck = PAGE_SIZE + counts[status] % PAGE_SIZE if pages.total() > 1 else 0
        expected[MAILED, json.dumps({"last_mailed_status": [status]})] = (counts[status], pages.total(), recheck)
    assert requests == expected


def test_keys_and_values_are_never_null(loaded: Loaded) -> None:
    """All columns of facets are NOT NULL."""
    names = ", ".join(f"'{table}'" for table in COLUMNS)
    sql = f"select table_name, is_nullable from duckdb_columns() where table_name in ({names})"
    assert set(query(loaded.world.place, sql)) == {(table, False) for table in COLUMNS}


@pytest.mark.parametrize("table", COLUMNS)
def test_every_row_names_its_load(loaded: Loaded, table: str) -> None:
    """Each row has its load's `_dlt_load_id`."""
    found = query(loaded.world.place, f"select distinct _dlt_load_id from {DATASET}.{table}")
    assert found == [(loaded.result.load_id,)]


def test_statuses_that_every_contact_has_add_up(begin: Begin) -> None:
    """If every contact has one status, the counts of the statuses add up."""
    world = begin(Emulator(0, 0))
    for number in range(30):
        status = ("In Transit", "Mailed", "Scheduled")[number % 3]
        traits = Traits(address_status="Failed" if number < 8 else "Verified", last_mailed_status=status)
        world.emulator.contacts.insert({"id": str(number)}, traits=traits)
    tables = world.read("contacts", "templates", facets=True)
    assert pairs_of(tables) == traits_of(world.emulator)
    assert {(audit[0], audit[3]) for audit in audited(tables["listing_audit"])} == {
        (ADDRESS, True),
        (MAILED, True),
        (RETURNS, None),
        (SHARED, True),
    }


def test_a_service_that_ignores_all_filters_leaves_the_facets_empty(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """Facets whose filters are ignored are empty, with a warning each when that begins; the contacts are loaded."""
    world = begin(Emulator(40, 0))
    world.start_loaded(facets=True, only=CONTACTS)
    world.emulator.canned.always(When("contacts"), envelope(world.emulator))
    result = world.load(facets=True, only=CONTACTS, page_size=PAGE_SIZE)
    assert held(world) == {ADDRESS: set(), MAILED: set(), RETURNS: set()}
    assert result.tables["contacts"] == 40
    ignored = "the service returns all 40 rows for {}; it ignores the filter, so nothing is loaded for it"
    assert warnings(caplog) == [
        f"{ADDRESS}: {ignored.format('address_status Failed, Verified')}",
        f"{MAILED}: {ignored.format('last_mailed_status In Transit, Mailed, Scheduled')}",
        f"{RETURNS}: {ignored.format('is_return_address True')}",
    ]
    assert {(audit[0], audit[2], audit[3]) for audit in audited(audits_of(result))} == {
        (ADDRESS, 0, False),
        (MAILED, 0, False),
        (RETURNS, 0, None),
    }
    ones = [*(f'addressStatus=["{status}"]' for status in ("Failed", "Verified")), "isReturnAddress=true", ""]
    ones += [f'lastMailedStatus=["{status}"]' for status in ("In Transit", "Mailed", "Scheduled")]
    assert requested(world.emulator.hits) == Counter(
        ("contacts", filters, "0") for filters in (*ones, "isReturnAddress=false pageSize=1")
    )
    caplog.clear()
    world.load(facets=True, only=CONTACTS, page_size=PAGE_SIZE)
    assert warnings(caplog) == []
    world.emulator.canned.clear()
    world.load(facets=True, only=CONTACTS, page_size=PAGE_SIZE)
    assert warnings(caplog) == []


def test_one_ignored_filter_does_not_hide_the_others(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """Only the facet whose filter is ignored is empty."""
    world = begin(Emulator(40, 0))
    for number in (2, 3):
        world.emulator.canned.once(When(number=number), envelope(world.emulator))
    found = read(world, "contacts")
    expected = traits_of(world.emulator)
    assert found == {ADDRESS: set(), MAILED: expected[MAILED], RETURNS: expected[RETURNS]}
    assert len(warnings(caplog)) == 1


def test_a_listing_that_grows_meanwhile_does_not_hide_that_a_filter_is_ignored(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """An ignored filter is found even if a contact is added after the listing was read."""
    world = begin(Emulator(40, 0))
    for number in (2, 3):
        world.emulator.canned.once(When(number=number), envelope(Emulator(41, 0)))
    world.emulator.before_answer = lambda emulator, number: grow_at(emulator, number, 2)
    found = read(world, "contacts")
    expected = traits_of(world.emulator)
    assert found == {ADDRESS: set(), MAILED: expected[MAILED], RETURNS: expected[RETURNS]}
    assert len(warnings(caplog)) == 1


def grow_at(emulator: Emulator, number: int, when: int) -> None:
    """Add a contact before one of the requests is answered."""
    if number == when:
        emulator.contacts.grow()


def test_a_flag_that_is_honored_one_way_only_adds_no_rows(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A service that ignores `is_shared=false` makes no rows for that value."""
    world = begin(Emulator(0, 0))
    for number in range(10):
        world.emulator.templates.insert({"id": str(number)}, traits=Traits(is_shared=number < 3))
    rows = [row.document for row in world.emulator.templates.rows()]
    for number in (3, 4):
        world.emulator.canned.once(When(number=number), Reply.of({"data": {"count": 10, "rows": rows}}))
    found = read(world, "templates")
    assert found == {SHARED: {("0", True), ("1", True), ("2", True)}}
    [warning] = warnings(caplog)
    assert warning.startswith(f"{SHARED}: the service returns all 10 rows for is_shared False; it ignores the filter")


def test_a_flag_that_is_ignored_hides_no_rows_of_the_other(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """An ignored value hides no rows of the other value, even if a template is added meanwhile."""
    world = begin(Emulator(0, 0))
    for number in range(11):
        world.emulator.templates.insert({"id": str(number)}, traits=Traits(is_shared=number < 3))
    documents = [row.document for row in world.emulator.templates.rows()]
    for number, rows in ((1, documents[:10]), (3, documents), (4, documents)):
        world.emulator.canned.once(When(number=number), Reply.of({"data": {"count": len(rows), "rows": rows}}))
    found = read(world, "templates")
    assert found == {SHARED: {("0", True), ("1", True), ("2", True)}}
    assert len(warnings(caplog)) == 1


def test_a_status_that_all_have_is_loaded_where_the_service_refuses_others(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """A status of all contacts is loaded even if a contact is added and the service refuses unknown statuses."""
    world = begin(Emulator(0, 0))
    for number in range(5):
        world.emulator.contacts.insert({"id": str(number)}, traits=Traits(last_mailed_status="Delivered"))
    world.emulator.before_answer = lambda emulator, number: grow_at(emulator, number, 2)
    rows = [{"id": str(number)} for number in range(6)]
    world.emulator.canned.once(When(number=4), Reply.of({"data": {"count": 6, "rows": rows}}))
    world.emulator.canned.once(When(number=5), Reply.of({"data": {"count": 0, "rows": []}}))
    world.emulator.canned.always(When(number=6), Reply.of({"message": "unknown status"}, 400))
    found = read(world, "contacts", last_mailed_statuses=["Delivered", "Mailed"])
    assert found[MAILED] == {(str(number), "Delivered") for number in range(6)}
    assert warnings(caplog) == []


def test_a_status_that_the_service_does_not_know_has_no_rows(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A status that returns the whole listing, like a made-up one, has no rows."""
    world = begin(Emulator(40, 0))
    for number in (7, 8):
        world.emulator.canned.once(When(number=number), envelope(world.emulator))
    found = read(world, "contacts", last_mailed_statuses=["Mailed", "Scheduled", "In Transit", "Delivered"])
    expected = traits_of(world.emulator)
    assert found == {table: expected[table] for table in (ADDRESS, MAILED, RETURNS)}
    assert 'lastMailedStatus=["letters-source-probe-7f3a"] pageSize=1' in {
        each[1] for each in requested(world.emulator.hits)
    }
    assert causes(caplog) == [f"{MAILED}: the service returns all 40 rows for last_mailed_status Delivered"]


def test_a_single_status_that_the_service_does_not_know_has_no_rows(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """A single unknown status is compared with a made-up status, not with a documented one."""
    world = begin(Emulator(40, 0))
    for number in (4, 6):
        world.emulator.canned.once(When(number=number), envelope(world.emulator))
    found = read(world, "contacts", last_mailed_statuses=["Delivered"])
    assert found[MAILED] == set()
    assert causes(caplog) == [f"{MAILED}: the service returns all 40 rows for last_mailed_status Delivered"]


@pytest.mark.parametrize("others", [(), ("Mailed",)])
def test_a_status_of_most_contacts_is_no_ignored_one(
    begin: Begin, caplog: pytest.LogCaptureFixture, others: tuple[str, ...]
) -> None:
    """A status of most contacts is loaded even if the service returns all rows for a made-up one."""
    world = begin(Emulator(0, 0))
    for number in range(10):
        status = "Returned" if number < 6 else "Mailed"
        world.emulator.contacts.insert({"id": str(number)}, traits=Traits(last_mailed_status=status))
    everything = [row.document for row in world.emulator.contacts.rows()]
    ignored = Reply.of({"data": {"count": 10, "rows": everything}})
    for number in (6 + len(others), 7 + len(others)):
        world.emulator.canned.once(When(number=number), ignored)
    found = read(world, "contacts", last_mailed_statuses=["Returned", *others])
    expected = {(str(number), "Returned") for number in range(6)}
    assert found[MAILED] == expected | {(str(number), each) for number in range(6, 10) for each in others}
    assert [line for line in warnings(caplog) if "last_mailed_status" in line] == []


def test_the_status_that_a_listing_is_filtered_by_is_no_ignored_one(begin: Begin) -> None:
    """A status that the listing is filtered by returns the whole filtered listing, and is loaded."""
    world = begin(Emulator(0, 0))
    for number in range(5):
        world.emulator.contacts.insert({"id": str(number)}, traits=Traits(last_mailed_status="Returned"))
    chosen = ContactFilters(last_mailed_status=("Returned",))
    found = read(world, "contacts", last_mailed_statuses=["Returned"], contact_filters=chosen)
    assert found[MAILED] == {(str(number), "Returned") for number in range(5)}


def test_a_template_that_is_no_longer_shared_is_there_once(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A template whose value changes meanwhile is in the table once, with the value read last."""
    world = begin(Emulator(0, 0))
    for number in range(5):
        world.emulator.templates.insert({"id": str(number)}, traits=Traits(is_shared=True))

    def unshare(emulator: Emulator, number: int) -> None:
        """Change the template after the shared ones were read."""
        if number == 3:
            set_traits(emulator.templates, "4", is_shared=False)

    world.emulator.before_answer = unshare
    found = read(world, "templates")
    assert found == {SHARED: {*((str(number), True) for number in range(4)), ("4", False)}}
    assert warnings(caplog) == []


def test_all_contacts_may_have_one_status(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A filter is honored if one value returns the whole listing and another value nothing."""
    world = begin(Emulator(0, 0))
    traits = Traits(address_status="Verified", last_mailed_status="Mailed", is_return_address=True)
    for number in range(5):
        world.emulator.contacts.insert({"id": str(number)}, traits=traits)
    found = read(world, "contacts", last_mailed_statuses=["Mailed"])
    expected = traits_of(world.emulator)
    assert found == {table: expected[table] for table in (ADDRESS, MAILED, RETURNS)}
    assert {table: len(rows) for table, rows in expected.items()} == {ADDRESS: 5, MAILED: 5, RETURNS: 5, SHARED: 0}
    assert warnings(caplog) == []


def test_a_single_status_is_found_to_be_ignored_too(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A single status is compared with another one, and is ignored if both return the whole listing."""
    world = begin(Emulator(40, 0))
    world.emulator.canned.always(When("contacts"), envelope(world.emulator))
    found = read(world, "contacts", page_size=PAGE_SIZE, last_mailed_statuses=["Mailed"])
    assert found == {ADDRESS: set(), MAILED: set(), RETURNS: set()}
    assert ("contacts", 'lastMailedStatus=["In Transit"] pageSize=1', "0") in requested(world.emulator.hits)
    assert len(warnings(caplog)) == 3


BASES: dict[str, tuple[ContactFilters, Callable[[Traits], object]]] = {
    "failed": (ContactFilters(address_status=("Failed",)), lambda traits: traits.address_status == "Failed"),
    "any status": (ContactFilters(address_status=("Failed", "Verified")), lambda traits: traits.address_status),
    "mailed": (ContactFilters(last_mailed_status=("Mailed",)), lambda traits: traits.last_mailed_status == "Mailed"),
    "twice": (
        ContactFilters(last_mailed_status=("Mailed", "Mailed")),
        lambda traits: traits.last_mailed_status == "Mailed",
    ),
    "returns": (ContactFilters(is_return_address=True), lambda traits: traits.is_return_address),
}


@pytest.mark.parametrize("name", BASES)
def test_facets_of_a_filtered_listing_are_those_of_its_contacts(
    begin: Begin, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Facets have only contacts that match the listing's filter."""
    filters, chooses = BASES[name]
    world = begin(Emulator(400, 0))
    chosen = [row for row in world.emulator.contacts.rows() if chooses(row.traits)]
    tables = world.read("contacts", facets=True, contact_filters=filters)
    expected = traits_of(world.emulator, chosen)
    assert pairs_of(tables) == {table: expected[table] for table in (ADDRESS, MAILED, RETURNS)}
    assert 0 < len(tables["contacts"]) == len(chosen) < 400
    assert warnings(caplog) == []


def test_no_return_addresses_make_an_empty_table_without_a_request(begin: Begin) -> None:
    """A listing without return addresses makes an empty facet without a request or an audit."""
    world = begin(Emulator(40, 0))
    tables = world.read("contacts", facets=True, contact_filters=ContactFilters(is_return_address=False))
    others = [row for row in world.emulator.contacts.rows() if not row.traits.is_return_address]
    expected = traits_of(world.emulator, others)
    assert pairs_of(tables) == {ADDRESS: expected[ADDRESS], MAILED: expected[MAILED], RETURNS: set()}
    assert not any("isReturnAddress=true" in hit.query for hit in world.emulator.hits)
    assert RETURNS not in {audit["listing"] for audit in tables["listing_audit"]}


def test_as_many_return_addresses_as_others_are_no_ignored_filter(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """A filter that selects half of the contacts is not taken for ignored."""
    world = begin(Emulator(0, 0))
    for number in range(6):
        world.emulator.contacts.insert({"id": str(number)}, traits=Traits(is_return_address=number < 3))
    found = read(world, "contacts", contact_filters=ContactFilters(is_return_address=True))
    assert found[RETURNS] == {("0",), ("1",), ("2",)}
    assert warnings(caplog) == []


def test_filtered_templates_are_requested_with_their_own_value_alone(begin: Begin) -> None:
    """Templates filtered by `is_shared` have only that value, whose audit has no `adds_up`."""
    world = begin(Emulator(0, 60))
    filters = TemplateFilters(is_shared=False)
    tables = world.read("templates", facets=True, template_filters=filters, page_size=PAGE_SIZE)
    expected = {(row.id, False) for row in world.emulator.templates.rows() if not row.traits.is_shared}
    assert pairs_of(tables) == {SHARED: expected}
    assert audited(tables["listing_audit"]) == [(SHARED, {"is_shared": False}, len(expected), None)]
    assert requested(world.emulator.hits) == Counter(
        {("templates", "isShared=false", "0"): 2, ("templates", "pageSize=1", "0"): 1}
    )
    assert 0 < len(expected) < 60


def test_without_facets_their_tables_do_not_exist(begin: Begin) -> None:
    """Without facets, no rows are read for their tables, and no requests sent."""
    world = begin(Emulator(40, 7))
    assert set(world.read("contacts", "templates")) & set(COLUMNS) == set()
    assert len(world.emulator.hits) == 2


def test_facets_can_be_switched_on_and_off(begin: Begin) -> None:
    """Loads with facets update their tables; loads without facets leave them unchanged."""
    world = begin(Emulator(40, 7))
    world.start_loaded()
    assert held(world) == {}
    world.load(facets=True)
    first = traits_of(world.emulator)
    assert held(world) == first
    set_traits(world.emulator.contacts, "5", address_status=None, last_mailed_status="Mailed", is_return_address=True)
    set_traits(world.emulator.contacts, "6", address_status="Failed", last_mailed_status=None, is_return_address=False)
    world.emulator.contacts.delete("7")
    world.emulator.templates.delete("3")
    world.load()
    assert held(world) == first
    world.load(facets=True)
    assert held(world) == traits_of(world.emulator) != first


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_statuses_that_no_contact_has_anymore_leave_their_tables(begin: Begin, kind: Kind) -> None:
    """If no contact has a status anymore, the facets are empty tables."""
    world = begin(Emulator(40, 0), kind)
    result = world.load(facets=True, only=CONTACTS)
    expected = {table: traits_of(world.emulator)[table] for table in (ADDRESS, MAILED, RETURNS)}
    assert held(world) == expected
    assert {table: result.tables[table] for table in expected} == {table: len(rows) for table, rows in expected.items()}
    for row in world.emulator.contacts.rows():
        set_traits(
            world.emulator.contacts, row.id, address_status=None, last_mailed_status=None, is_return_address=False
        )
    world.load(facets=True, only=CONTACTS)
    assert held(world) == {ADDRESS: set(), MAILED: set(), RETURNS: set()}


CONFIGURED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "argument, one of them twice": (
        {"last_mailed_statuses": ("Mailed", "Returned", "Mailed")},
        {"SOURCES__LETTERS__LAST_MAILED_STATUSES": "Scheduled"},
    ),
    "environment, commas": ({}, {"SOURCES__LETTERS__LAST_MAILED_STATUSES": "Mailed, Returned"}),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_last_mailed_statuses_are_those_that_are_configured(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The setting `last_mailed_statuses` may name undocumented statuses."""
    settings, variables = CONFIGURED[name]
    world = begin(Emulator(200, 0))
    for number in range(1, 8):
        set_traits(world.emulator.contacts, str(number), last_mailed_status="Returned")
    for variable, value in (variables | {"SOURCES__LETTERS__FACETS": "true"}).items():
        monkeypatch.setenv(variable, value)
    tables = world.read("contacts", **settings)
    expected = {row for row in traits_of(world.emulator)[MAILED] if row[1] in ("Mailed", "Returned")}
    assert pairs_of(tables)[MAILED] == expected
    assert [audit[1]["last_mailed_status"] for audit in audited(tables["listing_audit"]) if audit[0] == MAILED] == [
        ["Mailed"],
        ["Returned"],
    ]


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_an_empty_account_makes_all_tables(begin: Begin, kind: Kind) -> None:
    """An empty account has typed facet tables, and takes one request per value."""
    world = begin(Emulator(0, 0), kind)
    result = world.load(facets=True)
    assert held(world) == {table: set() for table in COLUMNS}
    assert {table: column_types(world, table) for table in COLUMNS} == {
        table: {**columns, "_dlt_load_id": "VARCHAR"} for table, columns in COLUMNS.items()
    }
    assert {(audit[0], audit[2], audit[3]) for audit in audited(audits_of(result))} == {
        (ADDRESS, 0, True),
        (MAILED, 0, True),
        (RETURNS, 0, None),
        (SHARED, 0, True),
    }
    assert set(requested(world.emulator.hits).values()) == {1}


def column_types(world: World, table: str) -> dict[str, str]:
    """A table's columns, in order, with their types."""
    if world.place.is_dir():
        relation = f"from '{world.place}/{DATASET}/{table}/*.parquet'"
        return {row[0]: row[1] for row in duckdb.sql(f"describe {relation}").fetchall()}
    return {row[0]: row[1] for row in query(world.place, f"describe from {DATASET}.{table}")}
