"""Facets: which values are requested, which of them the service ignores, and which ids have them."""

from collections.abc import Sequence
from typing import Any

import pytest

from letters_source.errors import ServiceRejected
from letters_source.extract.facets import Value, chosen_values, read_facet
from letters_source.extract.task import TableRows, Task
from letters_source.results import Audit
from letters_source.service.listings import CONTACTS, NOBODY, TEMPLATES, ContactFilters
from letters_source.tables import (
    CONTACTS__ADDRESS_STATUSES,
    CONTACTS__LAST_MAILED_STATUSES,
    CONTACTS__RETURN_ADDRESSES,
    LISTING_AUDIT,
    TEMPLATES__SHARED,
    Table,
)
from rows_in_memory import RowsInMemory
from tasks import audit_with, task_from

IGNORED = (
    "templates__shared: the service returns all 3 rows for is_shared True, False; it ignores the filter, so nothing is "
    "loaded for it"
)


def mailed(status: str) -> str:
    """The query for contacts with a last mailed status."""
    return f'lastMailedStatus=["{status}"]'


def read(task: Task, table: Table, whole: int, audits: Sequence[Audit] = ()) -> list[tuple[Any, ...]]:
    """The rows of a facet that is read; its audits are left out."""
    items = read_facet(task, table, whole, audits)
    return [tuple(row.values()) for item in items if item.table == table.name for row in item.rows.to_pylist()]


def audits_of(items: Sequence[TableRows], *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of the audits among the items."""
    audits = (item for item in items if item.table == LISTING_AUDIT.name)
    return [tuple(row.values()) for item in audits for row in item.rows.select(columns).to_pylist()]


def test_each_value_has_its_ids_and_its_audit() -> None:
    """An empty table comes first, then ids with their value, and an audit of each value; the values add up."""
    service = RowsInMemory({"": "abcd", "isShared=true": "a", "isShared=false": "bcd"})
    items = list(read_facet(task_from(service, TEMPLATES), TEMPLATES__SHARED, 4))
    assert [(item.table, item.rows.num_rows) for item in items] == [
        ("templates__shared", 0), ("templates__shared", 1), ("listing_audit", 1), ("templates__shared", 3),
        ("listing_audit", 1),
    ]  # fmt: skip
    assert [item.rows.schema for item in items[:2]] == [TEMPLATES__SHARED.schema] * 2
    assert [tuple(row.values()) for item in (items[1], items[3]) for row in item.rows.to_pylist()] == [
        ("a", True), ("b", False), ("c", False), ("d", False),
    ]  # fmt: skip
    assert audits_of(items, "listing", "filters", "count_last", "rows_yielded", "adds_up") == [
        ("templates__shared", '{"is_shared": true}', 1, 1, True),
        ("templates__shared", '{"is_shared": false}', 3, 3, True),
    ]
    assert service.queries == ["isShared=true", "isShared=false"]


def test_an_id_has_only_the_value_read_last_where_the_value_is_not_part_of_the_key() -> None:
    """A template that was shared and then was not is loaded once, as it was read last; the values do not add up."""
    service = RowsInMemory({"": "abc", "isShared=true": "ab", "isShared=false": "bc"})
    items = list(read_facet(task_from(service, TEMPLATES), TEMPLATES__SHARED, 3))
    assert [tuple(row.values()) for item in (items[1], items[3]) for row in item.rows.to_pylist()] == [
        ("a", True), ("b", False), ("c", False),
    ]  # fmt: skip
    assert audits_of(items, "count_last", "rows_yielded", "adds_up") == [(2, 1, False), (2, 2, False)]


def test_an_id_may_have_several_statuses() -> None:
    """A contact listed under two statuses is loaded with both, as the status is part of the key."""
    service = RowsInMemory({"": "abc", 'addressStatus=["Failed"]': "ab", 'addressStatus=["Verified"]': "b"})
    found = read(task_from(service), CONTACTS__ADDRESS_STATUSES, 3)
    assert found == [("a", "Failed"), ("b", "Failed"), ("b", "Verified")]


def test_no_value_leaves_an_empty_table() -> None:
    """Without a value to request, no request is sent, and an empty table with the right types is yielded."""
    service = RowsInMemory({"": "abc"})
    [item] = read_facet(task_from(service, last_mailed_statuses=()), CONTACTS__LAST_MAILED_STATUSES, 3)
    assert (item.table, item.rows.num_rows) == ("contacts__last_mailed_statuses", 0)
    assert item.rows.schema == CONTACTS__LAST_MAILED_STATUSES.schema
    assert service.asked == []


@pytest.mark.parametrize(
    ("earlier", "level"),
    [((), "WARNING"), ((1, 1), "INFO"), ((1,), "WARNING"), ((1, 2), "WARNING"), ((1, 1, 2, 2), "INFO")],
)
def test_a_filter_that_is_ignored_is_a_warning_once(
    earlier: Sequence[int], level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ignored values have no rows; that is a warning unless the last load, by its audits, ignored as many."""
    audits = [audit_with(_dlt_load_id=str(load), count_last=3, rows_yielded=0) for load in earlier]
    service = RowsInMemory({"": "abc"})
    with caplog.at_level("INFO"):
        items = list(read_facet(task_from(service, TEMPLATES), TEMPLATES__SHARED, 3, audits))
    assert [item.rows.num_rows for item in items] == [0, 0, 1, 0, 1]
    assert audits_of(items, "count_last", "rows_yielded") == [(3, 0), (3, 0)]
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if "ignores" in record.message]
    assert logged == [(level, IGNORED)]


@pytest.mark.parametrize("rows", [0, 40])
def test_values_that_the_service_no_longer_honors_are_a_warning(rows: int, caplog: pytest.LogCaptureFixture) -> None:
    """Ignored values are a warning if their audits had rows, or if there were none to load."""
    audits = [audit_with(_dlt_load_id="1", count_last=rows, rows_yielded=rows)] * 2
    service = RowsInMemory({"": "abc"})
    assert read(task_from(service, TEMPLATES), TEMPLATES__SHARED, 3, audits) == []
    assert [record.levelname for record in caplog.records if "ignores" in record.message] == ["WARNING"]


@pytest.mark.parametrize(
    ("now", "shared", "others", "ignored"),
    [
        ("abcde", "abcd", "abcde", True),
        ("abcdefgh", "abcdef", "abcdef", True),
        ("abcde", "abc", "abcde", False),
        ("abcd", "abcde", "abcd", False),
    ],
)
def test_a_listing_that_grows_while_a_filter_is_ignored(now: str, shared: str, others: str, *, ignored: bool) -> None:
    """Values are ignored if each has as many rows as the listing had when it was read, has now, or had meanwhile."""
    service = RowsInMemory({"": now, "isShared=true": shared, "isShared=false": others})
    found = read(task_from(service, TEMPLATES), TEMPLATES__SHARED, 4)
    assert (found == []) is ignored
    assert service.queries[:3] == ["isShared=true", "isShared=false", ""]


@pytest.mark.parametrize(
    ("now", "found", "asked"),
    [
        ("abcd", [("a", False)], ["isShared=true", ""]),
        ("abcde", [("b", True), ("c", True), ("d", True), ("a", False)], ["isShared=true", ""]),
    ],
)
def test_flags_that_have_more_rows_than_the_listing_are_probed_again(
    now: str, found: list[tuple[str, bool]], asked: list[str]
) -> None:
    """One flag that returns the whole listing, also when it is requested once more, is ignored; the other is not."""
    service = RowsInMemory({"": now, "isShared=true": "abcd", "isShared=false": "a"})
    assert read(task_from(service, TEMPLATES), TEMPLATES__SHARED, 4) == found
    assert service.queries == ["isShared=true", "isShared=false", *asked]


@pytest.mark.parametrize(
    ("returned", "others", "asked"),
    [
        ("ab", "", ["isReturnAddress=true"]),
        ("abc", "d", ["isReturnAddress=true", "isReturnAddress=false"]),
        ("abcd", "", ["isReturnAddress=true", "isReturnAddress=false"]),
    ],
)
def test_a_single_flag_with_most_rows_is_compared_with_the_other(returned: str, others: str, asked: list[str]) -> None:
    """The opposite flag shows that the service honors a flag which most rows have; fewer rows need no comparison."""
    service = RowsInMemory({"": "abcd", "isReturnAddress=true": returned, "isReturnAddress=false": others})
    assert read(task_from(service), CONTACTS__RETURN_ADDRESSES, 4) == [(id_,) for id_ in returned]
    assert service.queries == asked


def test_a_single_flag_that_is_ignored_has_no_rows() -> None:
    """A flag is ignored if its opposite returns the whole listing, too."""
    service = RowsInMemory({"": "abcd"})
    assert read(task_from(service), CONTACTS__RETURN_ADDRESSES, 4) == []
    assert service.queries == ["isReturnAddress=true", "isReturnAddress=false"]


@pytest.mark.parametrize(
    ("table", "filters", "query", "value"),
    [
        (CONTACTS__RETURN_ADDRESSES, ContactFilters(is_return_address=True), "isReturnAddress=true", ()),
        (
            CONTACTS__LAST_MAILED_STATUSES,
            ContactFilters(last_mailed_status=("Returned",)),
            mailed("Returned"),
            ("Returned",),
        ),
    ],
)
def test_a_value_that_the_listing_is_filtered_by_is_not_probed(
    table: Table, filters: ContactFilters, query: str, value: tuple[str, ...]
) -> None:
    """If a value selected the listing's rows, all of them have it, and nothing further is requested."""
    service = RowsInMemory({"": "abcd", query: "ab"})
    assert read(task_from(service, contact_filters=filters), table, 2) == [("a", *value), ("b", *value)]
    assert service.queries == [query]


@pytest.mark.parametrize(
    ("answer", "found"),
    [(None, []), ("", ["a", "b", "c"]), (ServiceRejected("unknown status", status=400), ["a", "b", "c"])],
)
def test_a_status_that_all_rows_have_is_compared_with_one_that_no_row_has(
    answer: str | ServiceRejected | None, found: list[str]
) -> None:
    """An undocumented status that all rows have is ignored if a made-up one returns all rows; a refusal is none."""
    listed = {"": "abc", mailed("Returned"): "abc", mailed("In Transit"): ""}
    service = RowsInMemory({**listed, **({} if answer is None else {mailed(NOBODY): answer})})
    rows = read(task_from(service, last_mailed_statuses=("Returned",)), CONTACTS__LAST_MAILED_STATUSES, 3)
    assert rows == [(id_, "Returned") for id_ in found]
    refused = isinstance(answer, ServiceRejected)
    expected = [mailed("Returned"), mailed("In Transit"), mailed(NOBODY), *([] if refused else [""])]
    assert service.queries == expected


def test_a_documented_status_is_compared_with_another_documented_one() -> None:
    """The only requested status is compared with another documented one, so no made-up status is needed."""
    service = RowsInMemory({"": "abc", mailed("In Transit"): "abc", mailed("Mailed"): ""})
    task = task_from(service, last_mailed_statuses=("In Transit",))
    assert read(task, CONTACTS__LAST_MAILED_STATUSES, 3) == [(id_, "In Transit") for id_ in "abc"]
    assert service.queries == [mailed("In Transit"), mailed("Mailed")]


@pytest.mark.parametrize(
    ("filters", "name", "values", "chosen"),
    [
        ({}, "address_status", ("Failed", "Verified", "Failed"), ("Failed", "Verified")),
        ({"address_status": ("Verified",)}, "address_status", ("Failed", "Verified"), ("Verified",)),
        ({"last_mailed_status": ("B", "A", "B")}, "last_mailed_status", ("Mailed",), ("B", "A")),
        ({"is_return_address": True}, "is_return_address", (True,), (True,)),
        ({"is_return_address": False}, "is_return_address", (True,), ()),
        ({"search": "an"}, "is_return_address", (True,), (True,)),
    ],
)
def test_values_that_the_listing_s_own_filter_leaves_are_requested(
    filters: dict[str, Any], name: str, values: tuple[Value, ...], chosen: tuple[Value, ...]
) -> None:
    """Each value is requested once, and of a filter that selects the listing's rows only the values that it selects."""
    task = task_from(RowsInMemory({"": []}), CONTACTS, contact_filters=ContactFilters(**filters))
    assert chosen_values(task, name, values) == chosen
