"""Each filter is sent as documented, and exactly the matching rows are loaded."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from holdings import LISTED, PARENTS, Rows, held_tables, query, read_tables
from terminals import Letters, Outcome
from worlds import Begin, World

from letters_source import letters as source
from letters_source.service.listings import (
    LISTINGS,
    NOBODY,
    ContactFilters,
    DateFormat,
    FilterEncoding,
    FilterForm,
    Filters,
    TemplateFilters,
)
from programmable_emulator import ChangingListing, Emulator, Reply, Row, Traits, When

PERIOD: dict[str, Any] = {"last_mailed_from": date(2024, 3, 1), "last_mailed_to": date(2024, 6, 30)}
SEARCHED = ("firstName", "lastName", "fullName", "companyName", "email", "city")
DAY_FIRST = FilterForm("%d-%m-%Y")
COMPACT = FilterForm(encoding="compact")
COMPACT_DAY_FIRST = FilterForm("%d-%m-%Y", "compact")


@dataclass(frozen=True)
class Case:
    """A filter of a listing, the query that it must become, and which rows match it, as the rows themselves show.

    `others` are the queries in other forms than the usual one.
    """

    filters: Filters
    query: str
    match: Callable[[Row], bool]
    others: tuple[tuple[FilterForm, str], ...] = ()

    @property
    def listing(self) -> str:
        """The listing that the filter is of."""
        return "contacts" if isinstance(self.filters, ContactFilters) else "templates"

    @property
    def settings(self) -> dict[str, Any]:
        """The filter as an argument."""
        return {f"{self.listing.removesuffix('s')}_filters": self.filters}


def mentions(text: str) -> Callable[[Row], bool]:
    """Whether names, company, e-mail or city hold a text, whatever the case."""
    return lambda row: any(text.casefold() in str(row.document[name] or "").casefold() for name in SEARCHED)


def labeled(*labels: str) -> Callable[[Row], bool]:
    """Whether the row has one of these labels, by id."""
    return lambda row: any(label["id"] in labels for label in row.document["ContactLabels"])


def of_type(*types: str) -> Callable[[Row], bool]:
    """Whether the template's product is one of these."""
    return lambda row: (row.document["product"] or {}).get("productType") in types


def mailed_in_period(row: Row) -> bool:
    """Whether the row was last mailed from March to June 2024."""
    day = row.traits.last_mailed_date
    return day is not None and date(2024, 3, 1) <= day <= date(2024, 6, 30)


# the queries are written out, as the interface's encoding rules have them: double quotes, percent-encoded
CASES = {
    "search": Case(ContactFilters(search="CAÑON c"), "search=CA%C3%91ON%20c", mentions("Cañon C")),
    "search with signs": Case(ContactFilters(search="& s"), "search=%26%20s", mentions("& S")),
    "address_status": Case(
        ContactFilters(address_status=("Failed",)),
        "addressStatus=%5B%22Failed%22%5D",
        lambda row: row.traits.address_status == "Failed",
    ),
    "both address statuses": Case(
        ContactFilters(address_status=("Failed", "Verified")),
        "addressStatus=%5B%22Failed%22%2C%20%22Verified%22%5D",
        lambda row: row.traits.address_status in ("Failed", "Verified"),
        ((COMPACT, "addressStatus=%5B%22Failed%22%2C%22Verified%22%5D"),),
    ),
    "last_mailed_status": Case(
        ContactFilters(last_mailed_status=("In Transit", "Scheduled")),
        "lastMailedStatus=%5B%22In%20Transit%22%2C%20%22Scheduled%22%5D",
        lambda row: row.traits.last_mailed_status in ("In Transit", "Scheduled"),
        ((COMPACT, "lastMailedStatus=%5B%22In%20Transit%22%2C%22Scheduled%22%5D"),),
    ),
    "last_mailed_from and last_mailed_to": Case(
        ContactFilters(**PERIOD),
        "lastMailedDate=%7B%22startDate%22%3A%20%222024-03-01%22%2C%20%22endDate%22%3A%20%222024-06-30%22%7D",
        mailed_in_period,
        (
            (
                DAY_FIRST,
                "lastMailedDate=%7B%22startDate%22%3A%20%2201-03-2024%22%2C%20%22endDate%22%3A%20%2230-06-2024%22%7D",
            ),
            (
                COMPACT,
                "lastMailedDate=%7B%22startDate%22%3A%222024-03-01%22%2C%22endDate%22%3A%222024-06-30%22%7D",
            ),
            (
                COMPACT_DAY_FIRST,
                "lastMailedDate=%7B%22startDate%22%3A%2201-03-2024%22%2C%22endDate%22%3A%2230-06-2024%22%7D",
            ),
        ),
    ),
    "tags by id": Case(
        ContactFilters(tags=("4", "12")),
        "tags=%5B4%2C%2012%5D",
        labeled("4", "12"),
        ((COMPACT, "tags=%5B4%2C12%5D"),),
    ),
    "tags by title": Case(
        ContactFilters(tags=('Q4 "hot"', "buyers, past")),
        "tags=%5B%22Q4%20%5C%22hot%5C%22%22%2C%20%22buyers%2C%20past%22%5D",
        labeled("6", "13"),
        ((COMPACT, "tags=%5B%22Q4%20%5C%22hot%5C%22%22%2C%22buyers%2C%20past%22%5D"),),
    ),
    "tags by id and title": Case(
        ContactFilters(tags=("5", "顧客", "VIP 🎩")),
        "tags=%5B5%2C%20%22%E9%A1%A7%E5%AE%A2%22%2C%20%22VIP%20%F0%9F%8E%A9%22%5D",
        labeled("5", "9", "12"),
        ((COMPACT, "tags=%5B5%2C%22%E9%A1%A7%E5%AE%A2%22%2C%22VIP%20%F0%9F%8E%A9%22%5D"),),
    ),
    "without property addresses": Case(
        ContactFilters(with_property_addresses=False),
        "withPropertyAddresses=false",
        lambda row: not row.traits.has_property_address,
    ),
    "is_return_address": Case(
        ContactFilters(is_return_address=True), "isReturnAddress=true", lambda row: row.traits.is_return_address
    ),
    "no return address": Case(
        ContactFilters(is_return_address=False), "isReturnAddress=false", lambda row: not row.traits.is_return_address
    ),
    "account of contacts": Case(
        ContactFilters(account_id="502"), "meta.account_id=502", lambda row: row.traits.account_id == "502"
    ),
    "product_types": Case(
        TemplateFilters(product_types=("Personal Letters",)),
        "productTypes=Personal%20Letters",
        of_type("Personal Letters"),
    ),
    "both product types": Case(
        TemplateFilters(product_types=("Professional Letters", "Personal Letters")),
        "productTypes=Professional%20Letters%2CPersonal%20Letters",
        of_type("Professional Letters", "Personal Letters"),
    ),
    "creator by name": Case(
        TemplateFilters(creator="Zoë O'Ex"),
        "creator=Zo%C3%AB%20O%27Ex",
        lambda row: row.document["creator"]["fullName"] == "Zoë O'Example",
    ),
    "creator by id": Case(
        TemplateFilters(creator="11"), "creator=11", lambda row: row.document["creator"]["id"] == "11"
    ),
    "is_shared": Case(TemplateFilters(is_shared=True), "isShared=true", lambda row: row.traits.is_shared),
    "not shared": Case(TemplateFilters(is_shared=False), "isShared=false", lambda row: not row.traits.is_shared),
    "account of templates": Case(
        TemplateFilters(account_id="503"), "meta.account_id=503", lambda row: row.traits.account_id == "503"
    ),
    "all filters of contacts": Case(
        ContactFilters(
            search="e", address_status=("Verified",), last_mailed_status=("Mailed", "Scheduled"), **PERIOD,
            tags=("4", "house", "8"), with_property_addresses=False, is_return_address=False, account_id="501",
        ),
        (
            "search=e&addressStatus=%5B%22Verified%22%5D&lastMailedStatus=%5B%22Mailed%22%2C%20%22Scheduled%22%5D"
            "&lastMailedDate=%7B%22startDate%22%3A%20%222024-03-01%22%2C%20%22endDate%22%3A%20%222024-06-30%22%7D"
            "&tags=%5B4%2C%20%22house%22%2C%208%5D&withPropertyAddresses=false&isReturnAddress=false"
            "&meta.account_id=501"
        ),
        lambda row: (
            mentions("e")(row)
            and (row.traits.address_status, row.traits.account_id) == ("Verified", "501")
            and row.traits.last_mailed_status in ("Mailed", "Scheduled")
            and mailed_in_period(row)
            and labeled("4", "5", "8")(row)
            and not (row.traits.has_property_address or row.traits.is_return_address)
        ),
        (
            (
                COMPACT_DAY_FIRST,
                (
                    "search=e&addressStatus=%5B%22Verified%22%5D"
                    "&lastMailedStatus=%5B%22Mailed%22%2C%22Scheduled%22%5D"
                    "&lastMailedDate=%7B%22startDate%22%3A%2201-03-2024%22%2C%22endDate%22%3A%2230-06-2024%22%7D"
                    "&tags=%5B4%2C%22house%22%2C8%5D&withPropertyAddresses=false&isReturnAddress=false"
                    "&meta.account_id=501"
                ),
            ),
        ),
    ),
    "all filters of templates": Case(
        TemplateFilters(
            search=1, product_types=("Professional Letters",), creator="o", is_shared=False, account_id="502"
        ),
        "search=1&productTypes=Professional%20Letters&creator=o&isShared=false&meta.account_id=502",
        lambda row: (
            of_type("Professional Letters")(row)
            and "o" in row.document["creator"]["fullName"].casefold()
            and row.traits.account_id == "502"
            and not row.traits.is_shared
        ),
    ),
}  # fmt: skip
# an account is no filter; the others may match all rows: the flag that enables search, and the flag that adds rows
NOT_SELECTIVE = {"account_id": None, "with_property_addresses": True}
"""Filters that may well select all rows, and the value with which they do; for the account whatever it is."""
NO_CHOICE = {
    "with_property_addresses": Case(
        ContactFilters(with_property_addresses=True), "withPropertyAddresses=true", lambda _: True
    ),
    "the search flag": Case(TemplateFilters(search=1), "search=1", lambda _: True),
    "an empty creator": Case(TemplateFilters(creator=""), "creator=", lambda _: True),
    "no product types": Case(TemplateFilters(product_types=()), "productTypes=", lambda _: True),
}

LOADED = ("all filters of contacts", "all filters of templates")
AUDITED = ("tags by id and title", "account of contacts", "account of templates")
"""With those that are loaded, the cases that show what each filter becomes; of the others the rows are read alone."""


@pytest.fixture
def world(begin: Begin) -> World:
    """2,000 contacts and 120 templates, each listing on one page."""
    world = begin(Emulator(2_000, 120))
    world.settings["page_size"] = 2_000
    return world


def queries(world: World) -> list[str]:
    """Return the part of each query after the page number, as it was sent."""
    return [hit.query.removeprefix("page=0&pageSize=") for hit in world.emulator.hits]


def chosen(world: World, case: Case) -> set[str]:
    """The ids of the rows that match."""
    return {row.id for row in getattr(world.emulator, case.listing).rows() if case.match(row)}


def matching_tables(world: World, case: Case) -> dict[str, Rows]:
    """The listing's tables as the rows that match make them."""
    ids = chosen(world, case)
    return {
        name: [row for row in rows if row["id" if name == case.listing else f"{case.listing[:-1]}_id"] in ids]
        for name, rows in held_tables(world.emulator).items()
        if case.listing in (name, PARENTS.get(name))
    }


def listings_of(world: World) -> Iterator[tuple[str, ChangingListing]]:
    """The rows of each listing."""
    yield "templates", world.emulator.templates
    yield "contacts", world.emulator.contacts


def names_of(filters: Filters) -> list[str]:
    """The names of the filters that are set."""
    unset = type(filters)()
    return [name for name in filters.__dataclass_fields__ if getattr(filters, name) != getattr(unset, name)]


def audited(filters: Filters) -> tuple[Any, Any]:
    """A filter as the audit has it: the filters under their settings' names, and the account."""
    values = json.loads(json.dumps({name: getattr(filters, name) for name in names_of(filters)}, default=str))
    account = values.pop("account_id", None)
    return values or None, account


def selective(filters: Filters) -> list[str]:
    """The filters that select less than all rows; a warning names them if the service seems to ignore them."""
    if isinstance(filters, TemplateFilters):
        return [name for name in names_of(filters) if name not in ("account_id", "search")]
    return [name for name in names_of(filters) if NOT_SELECTIVE.get(name, "") not in (None, getattr(filters, name))]


def without(filters: Filters) -> str:
    """The query that counts a listing without its filters; an account does not count as a filter."""
    return f"1&meta.account_id={filters.account_id}" if filters.account_id else "1"


@pytest.mark.parametrize("name", LOADED)
def test_a_filter_is_sent_as_documented_and_its_rows_are_loaded(world: World, name: str) -> None:
    """A filter is sent as documented and audited, and exactly its rows are loaded, children included."""
    case = CASES[name]
    result = world.load(only=(case.listing,), **case.settings)
    check_tables(world, case, world.tables())
    assert result.tables[case.listing] == len(chosen(world, case))


@pytest.mark.parametrize("name", AUDITED)
def test_a_filter_is_sent_as_documented_and_audited(world: World, name: str) -> None:
    """A filter is sent as documented and audited, and exactly its rows are read, children included."""
    case = CASES[name]
    check_tables(world, case, world.read(case.listing, **case.settings))


def check_tables(world: World, case: Case, tables: dict[str, Rows]) -> None:
    """Check a listing's tables, its audit, and the requests for both."""
    expected = matching_tables(world, case)
    assert {table: tables[table] for table in LISTED if table in tables} == expected
    assert 0 < len(expected[case.listing]) < getattr(world.emulator, case.listing).count
    filters, account = audited(case.filters)
    assert queries(world) == [f"2000&{case.query}", *([without(case.filters)] if selective(case.filters) else [])]
    assert {hit.path for hit in world.emulator.hits} == {f"/api/v1/{case.listing}"}
    assert [(row["filters"], row["account_id"], row["rows_yielded"]) for row in tables["listing_audit"]] == [
        (filters, account, len(expected[case.listing]))
    ]


def read(world: World, case: Case, **settings: Any) -> list[str]:
    """The ids of the rows that a source yields, which no pipeline loads."""
    resource = source(**{**world.settings, **case.settings, **settings}).resources[case.listing]
    return [row_id for table in resource for row_id in table["id"].to_pylist()]


@pytest.mark.parametrize("name", [name for name in CASES if name not in LOADED + AUDITED])
def test_a_filter_is_sent_as_documented_and_its_rows_are_read(world: World, name: str) -> None:
    """A filter is sent as documented, and exactly its rows are read."""
    case = CASES[name]
    found = read(world, case)
    assert sorted(found) == sorted(chosen(world, case))
    assert 0 < len(found) < getattr(world.emulator, case.listing).count
    assert queries(world) == [f"2000&{case.query}", *([without(case.filters)] if selective(case.filters) else [])]
    assert {hit.path for hit in world.emulator.hits} == {f"/api/v1/{case.listing}"}


@pytest.mark.parametrize("name", NO_CHOICE)
def test_a_value_that_chooses_all_rows_is_sent_too(world: World, name: str) -> None:
    """A filter value that matches all rows is sent and audited too."""
    case = NO_CHOICE[name]
    tables = world.read(case.listing, **case.settings)
    assert queries(world)[0] == f"2000&{case.query}"
    assert tables[case.listing] == held_tables(world.emulator)[case.listing]
    assert tables["listing_audit"][0]["filters"] == audited(case.filters)[0]


@pytest.mark.parametrize(
    ("name", "form", "query"),
    [
        pytest.param(name, form, query, id=f"{name}, {form.encoding} {form.date_format}")
        for name, case in CASES.items()
        for form, query in case.others
    ],
)
def test_a_filter_chooses_the_same_rows_in_every_form(world: World, name: str, form: FilterForm, query: str) -> None:
    """Each encoding and date format of a filter selects the same rows."""
    case = CASES[name]
    found = read(world, case, date_format=form.date_format, filter_encoding=form.encoding)
    assert queries(world)[0] == f"2000&{query}"
    assert sorted(found) == sorted(chosen(world, case))


def test_every_filter_of_both_listings_is_tested_here() -> None:
    """The cases have each filter alone, and the period in every form."""
    cases = [*CASES.values(), *NO_CHOICE.values()]
    alone = {(case.listing, *names) for case in cases if (names := names_of(case.filters)) and len(names) == 1}
    assert alone | {("contacts", name) for name in PERIOD} == {
        (listing, name)
        for listing, kind in (("contacts", ContactFilters), ("templates", TemplateFilters))
        for name in kind.__dataclass_fields__
    }
    forms = {form for case in cases if names_of(case.filters) == [*PERIOD] for form, _ in case.others}
    assert forms | {FilterForm()} == {
        FilterForm(day, way) for day in get_args(DateFormat) for way in get_args(FilterEncoding)
    }


def test_every_page_is_requested_with_the_filters(world: World) -> None:
    """Every request for a page has the filters, also when a page is read again."""
    case = CASES["both address statuses"]
    read(world, case, page_size=500)
    pages = -(-len(chosen(world, case)) // 500)
    requested = Counter(hit.query for hit in world.emulator.hits)
    assert requested.pop("page=0&pageSize=1") == 1
    ends = {0, pages - 1}
    assert requested == {f"page={page}&pageSize=500&{case.query}": 2 if page in ends else 1 for page in range(pages)}
    assert pages > 2


def test_filters_that_no_row_matches_leave_empty_tables(world: World) -> None:
    """A filter that matches no row leaves empty tables, and needs no comparison with the whole listing."""
    world.load(only=("contacts",), contact_filters=ContactFilters(search="no row has this text"))
    tables = world.tables()
    assert (tables["contacts"], tables["contacts__contact_labels"]) == ([], [])
    assert queries(world) == ["2000&search=no%20row%20has%20this%20text"]


def test_filters_of_one_listing_leave_the_other_whole(world: World) -> None:
    """A filter selects rows of its own listing only; an account selects rows of both."""
    case = CASES["is_shared"]
    tables = world.read("templates", "contacts", **case.settings, account_id="502")
    own = ids_of(world, "502")
    assert {row["id"] for row in tables["templates"]} == chosen(world, case) & own["templates"]
    assert {row["id"] for row in tables["contacts"]} == own["contacts"]
    assert sorted(queries(world)) == [
        "1&meta.account_id=502",
        "2000&isShared=true&meta.account_id=502",
        "2000&meta.account_id=502",
    ]


CONTACT_OPTIONS = (
    "--search", "e", "--address-status", "Verified", "--last-mailed-status", "Mailed",
    "--last-mailed-status", "Scheduled", "--last-mailed-from", "2024-03-01", "--last-mailed-to", "2024-06-30",
    "--tag", "4", "--tag", "house", "--tag", "8", "--without-property-addresses", "--no-return-addresses",
    "--account-id", "501",
)  # fmt: skip
TEMPLATE_OPTIONS = (
    "--product-type", "Professional Letters", "--creator", "o", "--not-shared", "--account-id", "502",
)  # fmt: skip


@pytest.fixture
def reachable(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that settings in the environment reach."""
    world.configure(monkeypatch)
    return world


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("all filters of contacts", CONTACT_OPTIONS),
        ("all filters of templates", TEMPLATE_OPTIONS),
        ("both product types", ("--product-type", "Professional Letters", "--product-type", "Personal Letters")),
        ("is_return_address", ("--return-addresses",)),
        ("is_shared", ("--shared",)),
    ],
)
def test_the_command_s_options_are_filters(
    letters: Letters, reachable: World, name: str, options: tuple[str, ...]
) -> None:
    """Options of the command are sent as filters; repeated options are lists."""
    case = CASES[name]
    done = letters("load", "--quiet", "--only", case.listing, "--dataset", "letters_data", *options)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert queries(reachable)[0] == f"2000&{case.query.removeprefix('search=1&')}"
    expected = matching_tables(reachable, case)
    tables = read_tables(Path("letters.duckdb"))
    assert {table: tables[table] for table in expected} == expected


def test_an_option_that_chooses_all_rows_is_a_filter_too(letters: Letters, reachable: World) -> None:
    """An option that selects all rows is sent and audited."""
    assert letters("load", "--quiet", "--only", "contacts", "--with-property-addresses") == Outcome(0, "", "")
    # the page is full, so the next one is requested, too
    assert queries(reachable) == ["2000&withPropertyAddresses=true", "page=1&pageSize=2000&withPropertyAddresses=true"]
    audit = read_tables(Path("letters.duckdb"))["listing_audit"]
    assert [row["filters"] for row in audit] == [{"with_property_addresses": True}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--address-status", "Bounced"),
            "letters: option --address-status must be Failed or Verified, got 'Bounced'.\n",
        ),
        (
            ("--product-type", "Postcards"),
            ("letters: option --product-type must be Professional Letters or Personal Letters, got 'Postcards'.\n"),
        ),
        (
            ("--last-mailed-from", "2024-01-01"),
            "letters: option --last-mailed-from needs last_mailed_to too: set both, or none.\n",
        ),
        (
            ("--last-mailed-to", "2024-01-31"),
            "letters: option --last-mailed-to needs last_mailed_from too: set both, or none.\n",
        ),
        (
            ("--last-mailed-from", "2024-02-01", "--last-mailed-to", "2024-01-31"),
            "letters: option --last-mailed-from must not be after last_mailed_to (got 2024-02-01 and 2024-01-31).\n",
        ),
    ],
)
def test_an_option_that_the_interface_does_not_know_ends_with_2(
    letters: Letters, reachable: World, options: tuple[str, ...], message: str
) -> None:
    """The error for an undocumented filter value names the allowed values, and nothing is requested."""
    done = letters("load", *options)
    assert (done.code, done.out, done.err) == (2, "", message)
    assert reachable.emulator.hits == []


def test_an_option_that_is_no_day_is_wrong_usage(letters: Letters, reachable: World) -> None:
    """A day must be written with the year first."""
    done = letters("load", "--last-mailed-from", "31-01-2024", "--last-mailed-to", "2024-02-01")
    assert (done.code, done.out) == (2, "")
    assert "must be a day such as 2024-01-31 (got 31-01-2024)." in done.err
    assert reachable.emulator.hits == []


def test_variables_are_filters(reachable: World, letters: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables set filters, as JSON or comma-separated lists, and their encoding."""
    case = CASES["all filters of contacts"]
    variables = {
        "SEARCH": "e", "ADDRESS_STATUS": "Verified", "LAST_MAILED_STATUS": "Mailed,Scheduled",
        "TAGS": '[4, "house", 8]', "LAST_MAILED_FROM": "2024-03-01", "LAST_MAILED_TO": "2024-06-30",
        "WITH_PROPERTY_ADDRESSES": "false", "IS_RETURN_ADDRESS": "false", "ACCOUNT_ID": "501",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(f"SOURCES__LETTERS__CONTACTS__{name}", value)
    monkeypatch.setenv("SOURCES__LETTERS__DATE_FORMAT", "%d-%m-%Y")
    monkeypatch.setenv("SOURCES__LETTERS__FILTER_ENCODING", "compact")
    assert letters("load", "--quiet", "--only", "contacts").code == 0
    assert queries(reachable)[0] == f"2000&{dict(case.others)[COMPACT_DAY_FIRST]}"
    assert {row["id"] for row in read_tables(Path("letters.duckdb"))["contacts"]} == chosen(reachable, case)


@pytest.mark.parametrize(
    ("variable", "options"),
    [
        (("LAST_MAILED_FROM", "2024-03-01"), ("--last-mailed-to", "2024-06-30")),
        (("LAST_MAILED_TO", "2024-06-30"), ("--last-mailed-from", "2024-03-01")),
    ],
)
def test_one_day_may_be_an_option_and_the_other_a_variable(
    reachable: World,
    letters: Letters,
    monkeypatch: pytest.MonkeyPatch,
    variable: tuple[str, str],
    options: tuple[str, str],
) -> None:
    """One day of a period may be an option and the other a variable."""
    monkeypatch.setenv(f"SOURCES__LETTERS__CONTACTS__{variable[0]}", variable[1])
    assert letters("load", "--quiet", "--only", "contacts", *options) == Outcome(0, "", "")
    case = CASES["last_mailed_from and last_mailed_to"]
    assert queries(reachable)[0] == f"2000&{case.query}"
    assert {row["id"] for row in read_tables(Path("letters.duckdb"))["contacts"]} == chosen(reachable, case)


@pytest.fixture
def elsewhere(reachable: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world reached by the environment, where the sections of both listings name the account 502."""
    for listing in LISTINGS:
        monkeypatch.setenv(f"SOURCES__LETTERS__{listing.upper()}__ACCOUNT_ID", "502")
    return reachable


def ids_of(world: World, account: str) -> dict[str, set[str]]:
    """The ids of an account's rows in each listing."""
    return {
        name: {row.id for row in listing.rows() if row.traits.account_id == account}
        for name, listing in listings_of(world)
    }


def ids_in(tables: dict[str, Rows]) -> dict[str, set[str]]:
    """The ids of the rows in each listing's table."""
    return {listing: {row["id"] for row in tables[listing]} for listing in LISTINGS}


def held_ids(dataset: str) -> dict[str, set[str]]:
    """The ids of the rows in each listing's table of a dataset."""
    file = Path("letters.duckdb")
    return {listing: {name for [name] in query(file, f"select id from {dataset}.{listing}")} for listing in LISTINGS}


def test_an_account_as_an_argument_goes_before_those_of_the_sections(elsewhere: World) -> None:
    """The argument `account_id` outranks the accounts in sections, in requests and in the audit."""
    tables = elsewhere.read(*LISTINGS, account_id="501")
    assert ids_in(tables) == ids_of(elsewhere, "501")
    assert sorted(queries(elsewhere)) == ["2000&meta.account_id=501"] * 2
    assert {row["account_id"] for row in tables["listing_audit"]} == {"501"}


def test_without_the_argument_the_sections_accounts_are_loaded(elsewhere: World) -> None:
    """Without an argument, the sections' accounts are loaded."""
    assert ids_in(elsewhere.read(*LISTINGS)) == ids_of(elsewhere, "502")


def test_the_command_s_account_goes_before_those_of_the_sections(elsewhere: World, letters: Letters) -> None:
    """The command's account outranks the accounts in sections, in a load and in a check."""
    assert letters("load", "--quiet", "--account-id", "501") == Outcome(0, "", "")
    assert held_ids("letters_data_501") == ids_of(elsewhere, "501")
    loads = len(elsewhere.emulator.hits)
    assert letters("check", "--quiet", "--account-id", "501") == Outcome(0, "", "")
    assert loads < len(elsewhere.emulator.hits)
    accounts = {hit.query.rpartition("meta.account_id=")[2] for hit in elsewhere.emulator.hits}
    assert accounts == {"501", NOBODY}


def test_several_accounts_go_before_those_of_the_sections(elsewhere: World, letters: Letters) -> None:
    """Several accounts outrank the accounts in sections, and each dataset has its own account's rows."""
    assert letters("load", "--quiet", "--account-id", "501", "--account-id", "503") == Outcome(0, "", "")
    expected = {account: ids_of(elsewhere, account) for account in ("501", "503")}
    assert {account: held_ids(f"letters_data_{account}") for account in expected} == expected
    for listing in LISTINGS:
        found = set(query(elsewhere.place, f"select account_id, id from letters_data_all.{listing}"))
        assert found == {(account, row_id) for account, ids in expected.items() for row_id in ids[listing]}


CONFIG = """
[sources.letters]
date_format = "%d-%m-%Y"
filter_encoding = "compact"
environment = "demo"
[sources.letters.contacts]
search = "not this"
address_status = ["Failed"]
last_mailed_status = ["Mailed", "Scheduled"]
last_mailed_from = 2024-03-01
last_mailed_to = 2024-06-30
tags = [4, "house", 8]
with_property_addresses = true
is_return_address = false
[sources.letters.demo.contacts]
search = "e"
with_property_addresses = false
account_id = 501
[sources.letters.templates]
search = 1
product_types = "Professional Letters"
creator = "o"
is_shared = false
account_id = "502"
"""


def test_files_are_filters_and_options_go_first(reachable: World, letters: Letters) -> None:
    """Each filter comes from an option, else the environment's section, else the general section."""
    Path(".dlt").mkdir()
    Path(".dlt/config.toml").write_text(CONFIG)
    Container()[PluggableRunContext].reload_providers()
    assert letters("load", "--quiet", "--address-status", "Verified").code == 0
    contacts, templates = CASES["all filters of contacts"], CASES["all filters of templates"]
    assert [query for query in queries(reachable) if query.startswith("2000")] == [
        f"2000&{templates.query}",
        f"2000&{dict(contacts.others)[COMPACT_DAY_FIRST]}",
    ]
    tables = read_tables(Path("letters.duckdb"))
    assert {row["id"] for row in tables["contacts"]} == chosen(reachable, contacts)
    assert {row["id"] for row in tables["templates"]} == chosen(reachable, templates)


PAGE = {"data": {"count": 3, "rows": [{"id": "1"}, {"id": "2"}, {"id": "3"}]}}


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("search", "search"),
        ("last_mailed_from and last_mailed_to", "last_mailed_from, last_mailed_to"),
        ("all filters of templates", "creator, is_shared, product_types"),
    ],
)
def test_a_filter_that_the_service_ignores_is_reported_in_one_warning(
    world: World, caplog: pytest.LogCaptureFixture, name: str, named: str
) -> None:
    """A filter that seems to be ignored is reported in one warning, and the load succeeds."""
    case = CASES[name]
    world.emulator.canned.always(When(case.listing), Reply.of(PAGE))
    found = read(world, case)
    assert [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno > logging.INFO] == [
        (
            "WARNING",
            f"{case.listing}: the service returns all 3 rows with {named} as without; it may ignore that filter",
        )
    ]
    assert found == ["1", "2", "3"]
    assert queries(world) == [f"2000&{case.query}", without(case.filters)]


def test_a_filter_that_the_service_honors_is_not_warned_of(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A filter that is honored, an account, or a listing without filters causes no warning."""
    read(world, CASES["is_return_address"], account_id="502")
    read(world, CASES["account of templates"])
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("name", ["with_property_addresses", "the search flag", "account of contacts"])
def test_a_value_that_may_well_choose_all_rows_is_not_warned_of(
    world: World, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A filter value that may match all rows causes no warning and no extra request."""
    case = {**CASES, **NO_CHOICE}[name]
    world.emulator.canned.always(When(case.listing), Reply.of(PAGE))
    found = read(world, case)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []
    assert queries(world) == [f"2000&{case.query}"]
    assert found == ["1", "2", "3"]


def test_a_service_that_refuses_requests_without_filters_is_loaded(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A service that refuses requests without filters is loaded without a warning."""
    world.emulator.canned.once(When("templates", number=2), Reply.of({"message": "productTypes is required"}, 400))
    assert read(world, CASES["product_types"])
    assert [hit.status for hit in world.emulator.hits] == [200, 400]
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def test_the_command_warns_of_an_ignored_filter_in_one_line(letters: Letters, reachable: World) -> None:
    """The command warns of an ignored filter even with `--quiet`, and succeeds."""
    reachable.emulator.canned.always(When("contacts"), Reply.of(PAGE))
    done = letters("load", "--quiet", "--only", "contacts", "--tag", "office")
    assert (done.code, done.out, done.err) == (
        0,
        "",
        "WARNING contacts: the service returns all 3 rows with tags as without; it may ignore that filter\n",
    )


def test_a_status_that_the_interface_does_not_name_is_requested_with_a_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An undocumented status is sent with a warning, because the documented list is open."""
    world.emulator.contacts.insert({"id": "back"}, traits=Traits(last_mailed_status="Returned"))
    world.load(only=("contacts",), contact_filters=ContactFilters(last_mailed_status=("Mailed", "Returned")))
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        "contacts: last_mailed_status Returned is not one of the documented In Transit, Mailed, Scheduled"
    ]
    assert queries(world)[0] == "2000&lastMailedStatus=%5B%22Mailed%22%2C%20%22Returned%22%5D"
    assert "back" in {row["id"] for row in world.tables()["contacts"]}
    caplog.clear()
    world.load(only=("contacts",), contact_filters=ContactFilters(last_mailed_status=("Mailed", "Returned")))
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def test_the_command_warns_once_that_filters_match_nothing(letters: Letters, reachable: World) -> None:
    """The first load warns if the service returns no rows with the filters, as a value may be misspelled."""
    options = ["load", "--quiet", "--only", "contacts", "--tag", "offfice", "--address-status", "Verified"]
    warning = "WARNING contacts: the service returns no rows with address_status, tags\n"
    assert letters(*options) == Outcome(0, "", warning)
    assert letters(*options) == Outcome(0, "", "")


def test_the_command_warns_once_that_an_account_has_no_rows(letters: Letters, reachable: World) -> None:
    """The first load warns of each listing without rows for the account, which may be misspelled."""
    options = ["load", "--quiet", "--account-id", "unknown"]
    warnings = [f"WARNING {listing}: the service returns no rows for account unknown\n" for listing in LISTINGS]
    done = letters(*options)
    assert (done.code, done.out, sorted(done.err.splitlines(keepends=True))) == (0, "", sorted(warnings))
    assert letters(*options) == Outcome(0, "", "")
