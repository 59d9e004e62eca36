"""The schema is complete as data, and rows of a listing become exactly its tables."""

import re
from datetime import UTC, datetime
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

from letters_source.decode.page import decode_page
from letters_source.decode.row_schema import row_schema
from letters_source.results import JSON_TYPES, Audit
from letters_source.tables import (
    ARROW_TYPES,
    CONTACTS,
    CONTACTS__ADDRESS_STATUSES,
    CONTACTS__CONTACT_LABELS,
    CONTACTS__LAST_MAILED_STATUSES,
    CONTACTS__RETURN_ADDRESSES,
    LISTING_AUDIT,
    LOAD_ID,
    MAILINGS,
    REJECTED_ROWS,
    TABLES,
    TEMPLATES,
    TEMPLATES__CREATOR,
    TEMPLATES__PRODUCT,
    TEMPLATES__SHARED,
    UNDOCUMENTED,
    Table,
    facets_of,
    tables_of,
)
from letters_source.transform.flatten import to_rejected, to_table
from pages import golden, page_of, page_of_text

UTC_MICROSECONDS = pa.timestamp("us", "UTC")
CONTACT_FIELDS = (
    "id firstName lastName fullName companyName address1 address2 city state zip phoneNo extension websiteUrl orgId "
    "email isVerified isLiveMode createdAt"
)
PRODUCT_FIELDS = "id paperType paperSize deliveryType productType envelopeType postageType name meta"


def rows_of(*pages: pa.RecordBatch) -> pa.Table:
    """Pages as the spool gives them."""
    return pa.Table.from_batches(pages)


def read(body: bytes, listing: str = "contacts") -> pa.Table:
    """The rows of one page."""
    return rows_of(decode_page(body, listing, 0).rows)


def labels(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of the labels table."""
    return [tuple(row.values()) for row in to_table(rows, CONTACTS__CONTACT_LABELS).to_pylist()]


def test_tables_and_columns_have_their_names_once() -> None:
    """Names are unique, snake_case, and children are named after their listing's table."""
    assert [table.name for table in TABLES] == [
        "templates", "templates__creator", "templates__product", "contacts", "contacts__contact_labels",
        "templates__shared", "contacts__address_statuses", "contacts__last_mailed_statuses",
        "contacts__return_addresses", "mailings", "rejected_rows", "listing_audit",
    ]  # fmt: skip
    for table in TABLES:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)] == []


def test_everything_is_described() -> None:
    """Each table and each column has a sentence that describes it."""
    texts = [text for table in TABLES for text in (table.description, *(c.description for c in table.columns))]
    assert [text for text in texts if not re.fullmatch(r"[A-Z].+\.", text)] == []


def test_an_audit_has_the_columns_of_its_table() -> None:
    """The type `Audit` has the columns of the table `listing_audit`, with their types in Python."""
    types = {**JSON_TYPES, "json": Any}
    hints = {name: next(iter(get_args(hint)), hint) for name, hint in get_type_hints(Audit).items()}
    # a choice of words is text
    found = {name: str if get_origin(hint) is Literal else hint for name, hint in hints.items()}
    assert found == {column.name: types[column.kind] for column in LISTING_AUDIT.loaded}


def test_keys_are_the_natural_ones() -> None:
    """Each table has the natural key of its rows, and tables that only grow have none."""
    assert {table.name: table.key for table in TABLES} == {
        "templates": ("id",), "templates__creator": ("template_id",), "templates__product": ("template_id",),
        "contacts": ("id",), "contacts__contact_labels": ("contact_id", "position"),
        "templates__shared": ("template_id",), "contacts__address_statuses": ("contact_id", "address_status"),
        "contacts__last_mailed_statuses": ("contact_id", "last_mailed_status"),
        "contacts__return_addresses": ("contact_id",), "mailings": ("contact_id", "mailed_on"),
        "rejected_rows": (), "listing_audit": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        (TEMPLATES, "id title templateUrl templateType thumbnailUrl"),
        (TEMPLATES__CREATOR, "id fullName"),
        (TEMPLATES__PRODUCT, PRODUCT_FIELDS),
        (CONTACTS, CONTACT_FIELDS),
        (CONTACTS__CONTACT_LABELS, "id title"),
        (TEMPLATES__SHARED, ""),
        (CONTACTS__ADDRESS_STATUSES, ""),
        (CONTACTS__LAST_MAILED_STATUSES, ""),
        (CONTACTS__RETURN_ADDRESSES, ""),
        (MAILINGS, ""),
        (REJECTED_ROWS, ""),
        (LISTING_AUDIT, ""),
    ],
)
def test_every_documented_field_has_a_column(table: Table, fields: str) -> None:
    """Every documented field has a column with its name in snake_case (service-interface 2.2 to 2.4)."""
    assert [column.wire for column in table.documented] == fields.split()
    snake = [re.sub(r"(?=[A-Z])", "_", wire).lower() for wire in fields.split()]
    assert [column.name for column in table.documented] == snake


def test_only_what_is_not_text_has_another_type() -> None:
    """Only booleans, timestamps, days, JSON and our own figures are not texts."""
    others = {f"{t.name}.{c.name}": c.kind for t in TABLES for c in t.columns if c.kind != "text"}
    figures = [column.name for column in LISTING_AUDIT.columns if column.kind == "bigint"]
    assert figures == [
        "count_first", "count_last", "rows_received", "rows_yielded", "duplicates_dropped", "rows_rejected",
        "misfit_values", "walks", "pages", "page_size_asked", "page_size_given", "requests", "retries", "throttled",
        "count_changes", "links_mended", "overlap", "shared_ids",
    ]  # fmt: skip
    # what free contents are is read from nested objects, not from lists of them
    assert [column.name for t in TABLES if t.origin == "list" for column in t.documented if column.kind == "json"] == []
    assert others == {
        "templates.undocumented": "json", "templates__creator.undocumented": "json",
        "templates__product.meta": "json", "templates__product.undocumented": "json",
        "contacts.is_verified": "bool", "contacts.is_live_mode": "bool", "contacts.created_at": "timestamp",
        "contacts.undocumented": "json", "contacts__contact_labels.position": "bigint",
        "contacts__contact_labels.undocumented": "json",
        "templates__shared.is_shared": "bool", "mailings.mailed_on": "date", "mailings.mailed_until": "date",
        "mailings.is_planned": "bool",
        "rejected_rows.page": "bigint", "rejected_rows.position": "bigint", "rejected_rows.row": "json",
        "listing_audit.filters": "json", "listing_audit.pii": "json",
        "listing_audit.adds_up": "bool", "listing_audit.converted_fields": "json",
        "listing_audit.undocumented_fields": "json",
        "listing_audit.started_at": "timestamp", "listing_audit.seconds": "double",
        **{f"listing_audit.{name}": "bigint" for name in figures},
    }  # fmt: skip


def test_an_arrow_schema_says_what_may_be_null() -> None:
    """Key columns are never null, and all other columns may be."""
    key = pa.field("contact_id", pa.string(), nullable=False)
    place = pa.field("position", pa.int64(), nullable=False)
    texts = [pa.field(name, ARROW_TYPES["text"]) for name in ("id", "title")]
    kept = pa.field("undocumented", ARROW_TYPES["json"])
    assert CONTACTS__CONTACT_LABELS.schema == pa.schema([key, place, *texts, kept])
    assert CONTACTS.schema.field("created_at").type == UTC_MICROSECONDS


def test_an_arrow_schema_of_a_facet_has_no_nulls_nor_have_mailings_but_for_the_mark() -> None:
    """No column of a facet is ever null, because the load has requested its values; old mailings have no mark."""
    assert MAILINGS.schema == pa.schema(
        [
            pa.field("contact_id", pa.string(), nullable=False),
            pa.field("mailed_on", pa.date32(), nullable=False),
            pa.field("mailed_until", pa.date32(), nullable=False),
            pa.field("is_planned", pa.bool_()),
        ]
    )
    facets = [table for table in TABLES if table.origin == "facet"]
    assert [(table.name, field.name) for table in facets for field in table.schema if field.nullable] == []


def test_the_load_id_is_no_column_of_a_table() -> None:
    """The load's id, which is never null, is added when a row is handed to dlt, and is no column of a table."""
    assert [table.name for table in TABLES if LOAD_ID.name in table.schema.names] == []
    assert (LOAD_ID.name, LOAD_ID.key, LOAD_ID.nullable) == ("_dlt_load_id", False, False)
    assert LOAD_ID.field == pa.field("_dlt_load_id", pa.string(), nullable=False)
    required = [f"{table.name}.{column.name}" for table in TABLES for column in table.columns if column.required]
    assert required == ["templates__shared.is_shared", "mailings.mailed_until"]


def test_a_listing_has_its_table_and_its_children() -> None:
    """Each child lies in its parent's row, as an object or a list; facets and mailings lie in no row."""
    assert tables_of("templates") == (TEMPLATES, TEMPLATES__CREATOR, TEMPLATES__PRODUCT)
    assert tables_of("contacts") == (CONTACTS, CONTACTS__CONTACT_LABELS)
    assert tables_of("") == (REJECTED_ROWS, LISTING_AUDIT)
    assert facets_of("templates") == (TEMPLATES__SHARED,)
    assert facets_of("contacts") == (
        CONTACTS__ADDRESS_STATUSES,
        CONTACTS__LAST_MAILED_STATUSES,
        CONTACTS__RETURN_ADDRESSES,
    )
    assert facets_of("") == ()
    assert [table for table in TABLES if table.origin == "dates"] == [MAILINGS]
    assert MAILINGS.listing == "contacts"
    assert [(t.name, t.short, t.origin, t.wire) for t in TABLES if t.wire] == [
        ("templates__creator", "creator", "object", "creator"),
        ("templates__product", "product", "object", "product"),
        ("contacts__contact_labels", "contact_labels", "list", "ContactLabels"),
    ]


def test_the_tables_that_keep_undocumented_fields() -> None:
    """Every table of a part of a listing's rows keeps undocumented fields, and no other table does."""
    keeping = [table.name for table in TABLES if UNDOCUMENTED in table.columns]
    assert keeping == [
        "templates", "templates__creator", "templates__product", "contacts", "contacts__contact_labels",
    ]  # fmt: skip


def test_the_golden_contacts_become_tables() -> None:
    """Contacts become rows as decoded, with their labels numbered from 0 and nothing rejected."""
    rows = rows_of(golden("contacts").rows)
    contacts = to_table(rows, CONTACTS)
    assert contacts.schema == CONTACTS.schema
    assert contacts.to_pylist()[1] == {
        "id": "102", "first_name": "", "last_name": "", "full_name": "", "company_name": "Example Holdings",
        "address1": "7 High St", "address2": "", "city": "Newark", "state": "New Jersey", "zip": "07102",
        "phone_no": "", "extension": "", "website_url": "", "org_id": "1", "email": "", "is_verified": None,
        "is_live_mode": True, "created_at": datetime(2023, 11, 21, 9, 30, 15, tzinfo=UTC), "undocumented": None,
    }  # fmt: skip
    assert contacts["id"].to_pylist() == ["101", "102", "103"]
    assert to_table(rows, CONTACTS__CONTACT_LABELS).schema == CONTACTS__CONTACT_LABELS.schema
    assert labels(rows) == [
        ("101", 0, "4", "office", None),
        ("101", 1, "6", 'Q4 "hot"', None),
        ("103", 0, "5", "house", None),
    ]
    assert to_rejected(rows, "contacts").num_rows == 0


def test_the_golden_templates_become_tables() -> None:
    """Creators and products become rows of their own, for the templates that have them."""
    rows = rows_of(golden("templates").rows)
    files = "https://files.example.org/org-1/user-1"
    assert to_table(rows, TEMPLATES).to_pylist()[0] == {
        "id": "10", "title": "Spring offer", "template_url": f"{files}/templates/10.json", "template_type": "json",
        "thumbnail_url": f"{files}/thumbnails/10.png", "undocumented": None,
    }  # fmt: skip
    assert to_table(rows, TEMPLATES)["id"].to_pylist() == ["10", "9", "8"]
    creators, products = to_table(rows, TEMPLATES__CREATOR), to_table(rows, TEMPLATES__PRODUCT)
    assert [tuple(row.values()) for row in creators.to_pylist()] == [
        ("10", "2", "Ada Example", None),
        ("9", "2", "Ada Example", None),
        ("8", "4", "Zoë O'Example", None),
    ]
    assert [tuple(row.values()) for row in products.to_pylist()] == [
        ("10", "3", "60# Statement", "8.5x11", "First Class", "Professional Letters", "#10 Grey", "Live",
         "Professional Letters, First Class", None, None),
        ("9", "5", "80# Linen", "4.25x5.5", "Standard Class", "Personal Letters", "A7 White", "Stamped",
         "Personal Letters, Standard Class", '{"folds": 1, "colors": ["black", "blue"]}', None),
    ]  # fmt: skip
    assert [creators.schema, products.schema] == [TEMPLATES__CREATOR.schema, TEMPLATES__PRODUCT.schema]


def test_the_golden_surprises_become_tables() -> None:
    """Four contacts, one label in its place and one rejected row come of the surprises."""
    rows = rows_of(golden("contacts-surprises", 7).rows)
    assert to_table(rows, CONTACTS)["id"].to_pylist() == ["201", "202", "204", "205"]
    assert labels(rows) == [("202", 0, "4", "office", '{"color":"red"}')]
    rejected = to_rejected(rows, "contacts")
    assert rejected.schema == REJECTED_ROWS.schema
    assert rejected.to_pylist() == [
        {
            "listing": "contacts", "page": 7, "position": 2, "reason": "the id is null",
            "row": '{"id": null, "firstName": "No", "lastName": "Id", "ContactLabels": [], "createdAt": null}',
        }
    ]  # fmt: skip


@pytest.mark.parametrize("table", [*tables_of("templates"), *tables_of("contacts")], ids=lambda table: table.name)
def test_no_rows_become_empty_tables_of_the_same_types(table: Table) -> None:
    """No page, a page without rows and rows without a usable id all give tables of the same types."""
    schema = row_schema(table.listing)
    without = read(page_of({"id": None}, None), table.listing)
    for rows in (schema.empty_table(), pa.Table.from_batches([], schema), without, without.slice(0, 0)):
        found = to_table(rows, table)
        assert (found.schema, found.num_rows) == (table.schema, 0)


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_no_rows_become_an_empty_table_of_rejected_rows(listing: str) -> None:
    """A table of no rejected rows has the types of one with rows."""
    for rows in (row_schema(listing).empty_table(), pa.Table.from_batches([], row_schema(listing))):
        assert to_rejected(rows, listing) == REJECTED_ROWS.schema.empty_table()


def test_labels_keep_their_places_beside_nulls() -> None:
    """A null among labels keeps its number, and null lists, empty lists and rejected rows give no label."""
    rows = read(
        page_of(
            {"id": "1", "ContactLabels": [None, {"id": "a"}, None, {"title": "b", "x": 1}]},
            {"id": "2", "ContactLabels": None},
            {"id": None, "ContactLabels": [{"id": "lost"}]},
            {"id": "3", "ContactLabels": []},
            {"id": "4", "ContactLabels": [None]},
            {"id": "5"},
            {"id": "6", "ContactLabels": [{"id": "c", "title": "d"}]},
        )
    )
    assert labels(rows) == [("1", 1, "a", None, None), ("1", 3, None, "b", '{"x":1}'), ("6", 0, "c", "d", None)]


def test_pages_are_taken_together_and_apart() -> None:
    """Tables of several pages, of slices and of filtered rows number labels within each contact."""
    first = golden("contacts", 0).rows
    second = decode_page(page_of({"id": "9", "ContactLabels": [{"id": "x"}, {"id": "y"}]}), "contacts", 1).rows
    both = rows_of(first, second, first.slice(2))
    expected = [
        ("101", 0, "4", "office", None),
        ("101", 1, "6", 'Q4 "hot"', None),
        ("103", 0, "5", "house", None),
    ]
    nine = [("9", 0, "x", None, None), ("9", 1, "y", None, None)]
    assert labels(both) == [*expected, *nine, expected[2]]
    assert labels(both.slice(2, 2)) == [expected[2], *nine]
    assert labels(both.filter(pa.array([False, True, True, False, True]))) == [expected[2], expected[2]]
    assert to_table(both, CONTACTS)["id"].to_pylist() == ["101", "102", "103", "9", "103"]


def test_objects_of_several_pages_stay_with_their_parents() -> None:
    """A template without a creator or product has no row there, on whatever page it is."""
    lost = '{"id": null, "creator": {"id": "lost"}}'
    body = page_of_text(f'[{{"id": "1"}}, {lost}, {{"id": "2", "creator": {{"id": 7, "x": 1}}}}]')
    page = decode_page(body, "templates", 1).rows
    creators = to_table(rows_of(page, golden("templates").rows, page.slice(2)), TEMPLATES__CREATOR)
    assert [tuple(row.values()) for row in creators.to_pylist()] == [
        ("2", "7", None, '{"x":1}'),
        ("10", "2", "Ada Example", None),
        ("9", "2", "Ada Example", None),
        ("8", "4", "Zoë O'Example", None),
        ("2", "7", None, '{"x":1}'),
    ]
