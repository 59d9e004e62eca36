"""Defines all tables and columns.

The Arrow schemas, dlt's hints, databases' comments and README's table list are derived from this module. Wire keys and
meanings follow the service's interface document, sections 2.2 to 2.4.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, NotRequired, TypedDict, get_args, get_origin, get_type_hints

import pyarrow as pa

ColumnKind = Literal["text", "bool", "timestamp", "date", "json", "bigint", "double"]

Mode = Literal["replace", "sync", "history"]
"""How a listing's rows are written: rewritten, only where changed, or with row history (SCD type 2)."""
MERGE: Literal["merge"] = "merge"
"""The mode of mailings: the rows of the days that a load reads replace those of earlier loads."""
WriteMode = Mode | Literal["merge"]
"""How rows of a listing or of mailings are written."""

DATASET = "letters_data"
"""The default dataset."""

ARROW_TYPES: dict[ColumnKind, pa.DataType] = {
    "text": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "json": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `wire` is its key in the service's JSON, empty for values that we create."""

    name: str
    wire: str
    description: str
    kind: ColumnKind = "text"
    key: bool = False
    required: bool = False
    """Whether a column outside the key is never null."""
    personal: bool = False
    """Whether it contains personal data."""

    @property
    def field(self) -> pa.Field:
        """Return the column as an Arrow field."""
        return pa.field(self.name, ARROW_TYPES[self.kind], nullable=self.nullable)

    @property
    def nullable(self) -> bool:
        """Return whether values may be null."""
        return not (self.key or self.required)


@dataclass(frozen=True)
class Table:
    """A table.

    `origin` is where its rows come from: a listing's rows (`row`), an object or a list of objects in them, the
    listing's ids under each value of a filter (`facet`), or in each date range (`dates`). Tables without a listing
    also have `row`.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    listing: str = ""
    origin: Literal["row", "object", "list", "facet", "dates"] = "row"
    wire: str = ""

    @property
    def is_child(self) -> bool:
        """Return whether its rows belong to rows of its listing's main table."""
        return self.origin != "row"

    @property
    def audited(self) -> str:
        """Return the name of its reading in `listing_audit`; empty for tables that all listings share."""
        return self.listing if self.origin in ("row", "object", "list") else self.name

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the table's Arrow schema."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Return the columns of the primary key; empty for append-only tables."""
        return tuple(column.name for column in self.columns if column.key)

    @cached_property
    def loaded(self) -> tuple[Column, ...]:
        """Return the columns in the destination, including the load id."""
        return (*self.columns, LOAD_ID)

    @cached_property
    def documented(self) -> tuple[Column, ...]:
        """Return the columns with values from the service."""
        return tuple(column for column in self.columns if column.wire)

    @cached_property
    def short(self) -> str:
        """Return the name without its parent's."""
        return self.name.rpartition("__")[2]


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key from a child table to its parent; `single` where a parent has at most one such row."""

    child: str
    column: str
    parent: str
    parent_column: str
    single: bool


UNDOCUMENTED = Column(
    "undocumented",
    "",
    "Undocumented fields, and values that did not fit their column, as JSON under the service's field names.",
    "json",
)

VERDICTS = ("continuous", "stable", "fenced", "exact", "certified")
"""The verdicts in `listing_audit`, weakest first. Version 0.1.0 wrote stable as fenced and exact as certified."""

LOADS = "_dlt_loads"
"""The table in which dlt records finished loads, with status 0."""
LOAD_ID = Column("_dlt_load_id", "", f"The load that wrote the row, {LOADS}.load_id.", required=True)
"""The last column of every table, added when a row is handed to dlt."""

VALID_FROM, VALID_TO = "_dlt_valid_from", "_dlt_valid_to"
"""dlt's SCD2 columns in tables with history; the second is null for current rows."""

TEMPLATES = Table(
    "templates",
    "Letter templates, one row each.",
    (
        Column("id", "id", "Template identifier.", key=True),
        Column("title", "title", "Template title."),
        Column("template_url", "templateUrl", "Location of the template file."),
        Column("template_type", "templateType", "File type of the template, for example json."),
        Column("thumbnail_url", "thumbnailUrl", "Location of the thumbnail image."),
        UNDOCUMENTED,
    ),
    listing="templates",
)
TEMPLATES__CREATOR = Table(
    "templates__creator",
    "Who created a template, one row for each template that names a creator.",
    (
        Column("template_id", "", "The template, templates.id.", key=True),
        Column("id", "id", "Creator identifier."),
        Column("full_name", "fullName", "Creator's full name.", personal=True),
        UNDOCUMENTED,
    ),
    listing="templates",
    origin="object",
    wire="creator",
)
TEMPLATES__PRODUCT = Table(
    "templates__product",
    "The product definition a template is tied to, one row for each template that has one.",
    (
        Column("template_id", "", "The template, templates.id.", key=True),
        Column("id", "id", "Product identifier."),
        Column("paper_type", "paperType", "Paper type."),
        Column("paper_size", "paperSize", "Paper size, width x height, in inches."),
        Column("delivery_type", "deliveryType", "Delivery type."),
        Column("product_type", "productType", "Product type, for example Professional Letters."),
        Column("envelope_type", "envelopeType", "Envelope type."),
        Column("postage_type", "postageType", "Postage type."),
        Column("name", "name", "Product name."),
        Column("meta", "meta", "Further product data: an object with undocumented contents, or null.", "json"),
        UNDOCUMENTED,
    ),
    listing="templates",
    origin="object",
    wire="product",
)
CONTACTS = Table(
    "contacts",
    "Recipients and addresses, one row each.",
    (
        Column("id", "id", "Contact identifier.", key=True),
        Column("first_name", "firstName", "First name.", personal=True),
        Column("last_name", "lastName", "Last name.", personal=True),
        Column("full_name", "fullName", "Full name.", personal=True),
        Column("company_name", "companyName", "Company name.", personal=True),
        Column("address1", "address1", "First address line.", personal=True),
        Column("address2", "address2", "Second address line.", personal=True),
        Column("city", "city", "City.", personal=True),
        Column("state", "state", "Full state name."),
        Column("zip", "zip", "Postal code as text, leading zeros kept.", personal=True),
        Column("phone_no", "phoneNo", "Phone number.", personal=True),
        Column("extension", "extension", "Phone extension.", personal=True),
        Column("website_url", "websiteUrl", "Website.", personal=True),
        Column("org_id", "orgId", "Owning organization's identifier."),
        Column("email", "email", "E-mail address.", personal=True),
        Column("is_verified", "isVerified", "Whether the contact is verified; often null.", "bool"),
        Column("is_live_mode", "isLiveMode", "Whether the contact belongs to live mode.", "bool"),
        Column("created_at", "createdAt", "When the contact was created, UTC.", "timestamp"),
        UNDOCUMENTED,
    ),
    listing="contacts",
)
CONTACTS__CONTACT_LABELS = Table(
    "contacts__contact_labels",
    "Labels of contacts, one row for each label on a contact.",
    (
        Column("contact_id", "", "The contact, contacts.id.", key=True),
        Column("position", "", "Position of the label in the contact's list, from 0.", "bigint", key=True),
        Column("id", "id", "Label identifier."),
        Column("title", "title", "Label title.", personal=True),
        UNDOCUMENTED,
    ),
    listing="contacts",
    origin="list",
    wire="ContactLabels",
)
CONTACTS__ADDRESS_STATUSES = Table(
    "contacts__address_statuses",
    "Address statuses of contacts, one row for each status of a contact.",
    (
        Column("contact_id", "", "The contact, contacts.id.", key=True),
        Column("address_status", "", "Failed or Verified.", key=True),
    ),
    listing="contacts",
    origin="facet",
)
CONTACTS__LAST_MAILED_STATUSES = Table(
    "contacts__last_mailed_statuses",
    "Last mailed statuses of contacts, one row for each status of a contact.",
    (
        Column("contact_id", "", "The contact, contacts.id.", key=True),
        Column("last_mailed_status", "", "In Transit, Mailed, Scheduled, or another that was configured.", key=True),
    ),
    listing="contacts",
    origin="facet",
)
CONTACTS__RETURN_ADDRESSES = Table(
    "contacts__return_addresses",
    "The contacts that are return addresses.",
    (Column("contact_id", "", "The contact, contacts.id.", key=True),),
    listing="contacts",
    origin="facet",
)
TEMPLATES__SHARED = Table(
    "templates__shared",
    "Whether a template is shared, one row for each template.",
    (
        Column("template_id", "", "The template, templates.id.", key=True),
        Column("is_shared", "", "Whether the service lists the template as shared.", "bool", required=True),
    ),
    listing="templates",
    origin="facet",
)
MAILINGS = Table(
    "mailings",
    "Which contact was last mailed when, one row for each contact and day; the service reports only the last mailing.",
    (
        Column("contact_id", "", "The contact, contacts.id.", key=True),
        Column("mailed_on", "", "The day, or the first day of a longer window.", "date", key=True),
        Column("mailed_until", "", "The same day, or the last day of a longer window.", "date", required=True),
        Column(
            "is_planned",
            "",
            "Whether the day was still to come when it was read; null in rows of earlier versions.",
            "bool",
        ),
    ),
    listing="contacts",
    origin="dates",
)
REJECTED_ROWS = Table(
    "rejected_rows",
    "Rows without a usable id, kept as the service sent them; each load adds its own.",
    (
        Column("listing", "", "The listing that held the row."),
        Column("page", "", "The page that held the row, from 0.", "bigint"),
        Column("position", "", "Place of the row in its page, from 0.", "bigint"),
        Column("reason", "", "Why the row could not be loaded."),
        Column("row", "", "The row as the service sent it.", "json"),
    ),
)


class Selection(TypedDict):
    """The columns of `listing_audit` that say which rows were asked for, and how they were written."""

    listing: Annotated[str, "The listing that was read; for facets and mailings, the table that it was read for."]
    filters: Annotated[
        Any, "The filters that were set, by their settings' names, personal values as their hashes; null for none."
    ]
    account_id: Annotated[str | None, "The account that was requested; null for the token's own."]
    environment: Annotated[str | None, "The environment of the settings; null if none was set."]
    mode: Annotated[WriteMode, "How rows were written: replace, sync or history; merge for mailings."]
    pii: Annotated[Any, "Privacy policies of personal data, and a fingerprint of pii_key; null if all of it was kept."]


class AuditColumns(Selection):
    """The columns of `listing_audit`: their types, and what they mean; JSON is text or an object, by the engine."""

    verdict: Annotated[str, "How the listing was proven complete: stable, continuous or exact."]
    count_first: Annotated[int, "The service's count in the first response."]
    count_last: Annotated[
        int, "The count in the last response; of a count that is a lower bound, the rows up to the end of the listing."
    ]
    rows_received: Annotated[int, "Rows in all responses: loaded, dropped and rejected ones."]
    rows_yielded: Annotated[int, "Rows loaded, each id once."]
    duplicates_dropped: Annotated[
        int,
        "Rows received more than once, and rows that were deleted before the listing was read to its end.",
    ]
    rows_rejected: Annotated[int, "Rows that went to rejected_rows."]
    adds_up: Annotated[
        bool | None,
        "Whether the counts of a facet's values add up to the listing's count; null if there are fewer than two.",
    ]
    misfit_values: Annotated[int, "Values that did not fit their column, in the pages whose rows were loaded."]
    undocumented_fields: Annotated[
        Any,
        "How often each field was undocumented or did not fit, in the pages whose rows were loaded; null for none.",
    ]
    walks: Annotated[int, "How often the whole listing was read."]
    pages: Annotated[int, "Pages in the last pass."]
    page_size_asked: Annotated[int, "Rows per page that were requested."]
    page_size_given: Annotated[int | None, "Rows per page that the service returned; null if one page held all."]
    requests: Annotated[int, "Requests of all passes, retries included."]
    retries: Annotated[int, "Requests sent again after a failure."]
    throttled: Annotated[int, "Responses that asked the load to slow down (429, 503)."]
    started_at: Annotated[datetime, "When reading began, UTC."]
    seconds: Annotated[float, "How long reading took."]
    # not in tables of version 0.1.0
    count_changes: NotRequired[Annotated[int | None, "How often the count differed from the response before."]]
    links_mended: NotRequired[
        Annotated[
            int | None,
            "Extra pages that were read because neighboring pages shared no row; null unless pages overlapped.",
        ]
    ]
    overlap: NotRequired[
        Annotated[
            int | None,
            "Largest overlap of neighboring pages that was requested, in rows; null unless pages overlapped.",
        ]
    ]
    converted_fields: NotRequired[
        Annotated[Any, "How often each field had a number that was converted to text, as documented; null for none."]
    ]
    service: NotRequired[
        Annotated[str | None, "The service that was read: scheme, host and path; null in loads of version 0.1.0."]
    ]
    shared_ids: NotRequired[
        Annotated[
            int | None,
            "Ids on the first page that another account of the same load lists on its own; null if not compared.",
        ]
    ]


AUDIT_KINDS: dict[Any, ColumnKind] = {
    int: "bigint",
    bool: "bool",
    float: "double",
    datetime: "timestamp",
    Any: "json",
}
"""The kinds of the columns of `listing_audit` by their types in `AuditColumns`; all others are text."""


def audit_column(name: str, annotation: Any) -> Column:
    """Return a column of `listing_audit`, as `AuditColumns` declares it."""
    declared = get_args(annotation)[0] if get_origin(annotation) is NotRequired else annotation
    kind, description = get_args(declared)
    possible = {*get_args(kind), kind} & AUDIT_KINDS.keys()
    return Column(name, "", description, AUDIT_KINDS[possible.pop()] if possible else "text")


LISTING_AUDIT = Table(
    "listing_audit",
    "How each load read the service: one row per listing, per value of a facet, and per window of mailings.",
    tuple(audit_column(*declared) for declared in get_type_hints(AuditColumns, include_extras=True).items()),
)

TABLES = (
    TEMPLATES,
    TEMPLATES__CREATOR,
    TEMPLATES__PRODUCT,
    CONTACTS,
    CONTACTS__CONTACT_LABELS,
    TEMPLATES__SHARED,
    CONTACTS__ADDRESS_STATUSES,
    CONTACTS__LAST_MAILED_STATUSES,
    CONTACTS__RETURN_ADDRESSES,
    MAILINGS,
    REJECTED_ROWS,
    LISTING_AUDIT,
)


def is_ours(name: str) -> bool:
    """Return whether a table or a view of a dataset is one that loads write."""
    return name.startswith("_dlt") or name.removesuffix("_current") in {table.name for table in TABLES}


def weakest(verdicts: Iterable[str]) -> str | None:
    """Return the weakest verdict; an unknown one counts as weaker than the others."""
    return min(verdicts, key=lambda verdict: VERDICTS.index(verdict) if verdict in VERDICTS else -1, default=None)


def tables_of(listing: str) -> tuple[Table, ...]:
    """Return the listing's main table, then its child tables."""
    return tuple(table for table in TABLES if table.listing == listing and table.origin in ("row", "object", "list"))


def facets_of(listing: str) -> tuple[Table, ...]:
    """Return the listing's facet tables: values that the listing can be filtered by but does not contain."""
    return tuple(table for table in TABLES if table.listing == listing and table.origin == "facet")


def find_references(tables: Sequence[Table]) -> tuple[Reference, ...]:
    """Return the foreign keys of child tables, in the order of the tables."""
    roots = {table.listing: table for table in tables if not table.is_child}
    return tuple(
        # more columns of the key follow if a parent has many rows
        Reference(child.name, child.key[0], parent.name, parent.key[0], single=len(child.key) == 1)
        for child in tables
        if child.is_child and (parent := roots[child.listing])
    )
