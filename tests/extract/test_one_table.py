"""A single table is read from the listing or the facet that has its rows."""

from pathlib import Path

import pytest

from letters_source.extract.one_table import read_items, read_table, rows_of
from letters_source.extract.task import ListingRows, TableRows
from letters_source.service.listings import TEMPLATES, ContactFilters
from letters_source.tables import (
    CONTACTS,
    CONTACTS__CONTACT_LABELS,
    LISTING_AUDIT,
    REJECTED_ROWS,
    TEMPLATES__SHARED,
    Table,
)
from letters_source.tables import TEMPLATES as TEMPLATE_ROWS
from rows_in_memory import Rows, RowsInMemory
from tasks import task_from

ROWS: Rows = [
    {"id": "a", "city": "Bend", "ContactLabels": [{"id": "1", "title": "office"}, {"id": "2", "title": "vip"}]},
    {"id": None, "city": "Salem"},
    {"id": "b"},
]
"""Two contacts, one of them with labels, and a row without an id."""


@pytest.mark.parametrize(
    ("table", "columns", "found"),
    [
        (CONTACTS, ("id", "city"), [("a", "Bend"), ("b", None)]),
        (CONTACTS__CONTACT_LABELS, ("contact_id", "position", "title"), [("a", 0, "office"), ("a", 1, "vip")]),
        (REJECTED_ROWS, ("listing", "page", "position"), [("contacts", 0, 1)]),
    ],
    ids=["contacts", "labels", "rejected rows"],
)
def test_a_table_of_a_listing_has_its_own_rows(
    table: Table, columns: tuple[str, ...], found: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """The rows of a listing's own table, of a child, and of `rejected_rows` have the table's schema."""
    [rows] = read_table(task_from(RowsInMemory({"": ROWS})), table, tmp_path)
    assert rows.schema == table.schema
    assert [tuple(row.values()) for row in rows.select(columns).to_pylist()] == found


def test_a_facet_is_read_with_the_count_of_its_listing() -> None:
    """The tables of a facet are the empty one and one for each value; a page of one row has the listing's count."""
    service = RowsInMemory({"": "abcd", "isShared=true": "a", "isShared=false": "bcd"})
    tables = list(read_table(task_from(service, TEMPLATES), TEMPLATES__SHARED, None))
    assert [table["template_id"].to_pylist() for table in tables] == [[], ["a"], ["b", "c", "d"]]
    assert service.queries == ["", "isShared=true", "isShared=false"]
    assert service.windows[0] == (0, 1)


def test_a_listing_whose_filter_may_be_ignored_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """After the rows and their audit, the count is compared with that without filters."""
    service = RowsInMemory({"": "ab"})
    task = task_from(service, contact_filters=ContactFilters(search="an"))
    rows, audit = read_items(task, CONTACTS, None)
    assert isinstance(rows, ListingRows)
    assert isinstance(audit, TableRows)
    assert (rows.listing, audit.table) == ("contacts", LISTING_AUDIT.name)
    assert service.queries == ["search=an", ""]
    assert caplog.messages == [
        "contacts: the service returns all 2 rows with search as without; it may ignore that filter"
    ]


def test_items_of_other_tables_have_no_rows() -> None:
    """The rows of a listing are none of another listing's, and an audit has only those of `listing_audit`."""
    rows, audit = read_items(task_from(RowsInMemory({"": "ab"})), CONTACTS, None)
    assert isinstance(audit, TableRows)
    assert rows_of(rows, TEMPLATE_ROWS) is None
    assert rows_of(audit, CONTACTS) is None
    assert rows_of(audit, REJECTED_ROWS) is None
    assert rows_of(audit, LISTING_AUDIT) is audit.rows
