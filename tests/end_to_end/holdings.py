"""The expected rows of each table, from the emulator, and the loaded rows, from DuckDB or Parquet."""

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from letters_source.emulator import Emulator

Rows = list[dict[str, Any]]
DATASET = "letters_data"

# repeated here, rather than taken from tables.py, so that a change there is noticed here; what every load has
COLUMNS = {
    "templates": "id title template_url template_type thumbnail_url undocumented:JSON",
    "templates__creator": "template_id id full_name undocumented:JSON",
    "templates__product": (
        "template_id id paper_type paper_size delivery_type product_type envelope_type postage_type name meta:JSON "
        "undocumented:JSON"
    ),
    "contacts": (
        "id first_name last_name full_name company_name address1 address2 city state zip phone_no extension "
        "website_url org_id email is_verified:BOOLEAN is_live_mode:BOOLEAN created_at:TIMESTAMP_WITH_TIME_ZONE "
        "undocumented:JSON"
    ),
    "contacts__contact_labels": "contact_id position:BIGINT id title undocumented:JSON",
    "rejected_rows": "listing page:BIGINT position:BIGINT reason row:JSON",
    "listing_audit": (
        "listing filters:JSON account_id environment mode pii:JSON verdict count_first:BIGINT count_last:BIGINT "
        "rows_received:BIGINT rows_yielded:BIGINT duplicates_dropped:BIGINT rows_rejected:BIGINT adds_up:BOOLEAN "
        "misfit_values:BIGINT undocumented_fields:JSON walks:BIGINT pages:BIGINT page_size_asked:BIGINT "
        "page_size_given:BIGINT requests:BIGINT retries:BIGINT throttled:BIGINT started_at:TIMESTAMP_WITH_TIME_ZONE "
        "seconds:DOUBLE count_changes:BIGINT links_mended:BIGINT overlap:BIGINT converted_fields:JSON "
        "service shared_ids:BIGINT"
    ),
}
KEYS = {
    "templates": ("id",),
    "templates__creator": ("template_id",),
    "templates__product": ("template_id",),
    "contacts": ("id",),
    "contacts__contact_labels": ("contact_id", "position"),
}
ORDERS = {**KEYS, "rejected_rows": ("listing", "page", "position"), "listing_audit": ("started_at",)}
LISTED = tuple(KEYS)
PARENTS = {
    "templates__creator": "templates",
    "templates__product": "templates",
    "contacts__contact_labels": "contacts",
}
JSON_NAMES = {"undocumented", "meta", "row", "filters", "pii", "undocumented_fields"}


def typed_columns(table: str) -> list[tuple[str, str]]:
    """A table's columns in order, each with its type in DuckDB."""
    pairs = (column.partition(":") for column in f"{COLUMNS[table]} _dlt_load_id".split())
    return [(name, kind.replace("_", " ") or "VARCHAR") for name, _, kind in pairs]


def held_tables(emulator: Emulator) -> dict[str, Rows]:
    """The tables of both listings as the emulator's rows make them."""
    contacts = [row.document for row in emulator.contacts.rows()]
    templates = [row.document for row in emulator.templates.rows()]
    return {
        "templates": in_order("templates", [flat("templates", row) for row in templates]),
        "templates__creator": in_order("templates__creator", [part(row, "creator") for row in templates]),
        "templates__product": in_order(
            "templates__product", [part(row, "product") for row in templates if row["product"]]
        ),
        "contacts": in_order("contacts", [contact(row) for row in contacts]),
        "contacts__contact_labels": in_order(
            "contacts__contact_labels",
            [
                {"contact_id": row["id"], "position": position, **label, "undocumented": None}
                for row in contacts
                for position, label in enumerate(row["ContactLabels"])
            ],
        ),
    }


def contact(row: dict[str, Any]) -> dict[str, Any]:
    """A contact's row."""
    return {**flat("contacts", row), "created_at": datetime.fromisoformat(row["createdAt"])}


def part(row: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of an object within a template."""
    return {**flat(f"templates__{name}", row[name]), "template_id": row["id"]}


def flat(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """The values of a table's columns by their camel-case names."""
    names = [column.partition(":")[0] for column in COLUMNS[table].split()]
    return {name: row.get(camel(name)) for name in names}


def camel(name: str) -> str:
    """A column's name as the service writes it."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def in_order(table: str, rows: Iterable[dict[str, Any]]) -> Rows:
    """The rows by the key of a listing's table, as a file's order means nothing."""
    return sorted(rows, key=lambda row: [row[name] for name in ORDERS.get(table, ())])


def read_tables(place: Path) -> dict[str, Rows]:
    """All our tables in a DuckDB file or a Parquet folder, JSON parsed, without the load's id."""
    raw = read_folder(place) if place.is_dir() else read_file(place)
    return {name: in_order(name, map(parsed, rows)) for name, rows in raw.items()}


def read_folder(folder: Path) -> dict[str, Rows]:
    """Every table that is a folder of Parquet files, dlt's own left out."""
    places = [place for place in (folder / DATASET).iterdir() if place.is_dir() and place.name in COLUMNS]
    return {place.name: duckdb.sql(f"from '{place}/*.parquet'").to_arrow_table().to_pylist() for place in places}


def read_file(file: Path) -> dict[str, Rows]:
    """Every table of the dataset, dlt's own left out."""
    names = [name for schema, name in table_names(file) if schema == DATASET and not name.startswith("_dlt")]
    with duckdb.connect(str(file)) as connection:
        return {name: connection.sql(f"from {DATASET}.{name}").to_arrow_table().to_pylist() for name in names}


def table_names(file: Path) -> set[tuple[str, str]]:
    """The schema and the name of every table."""
    return {(schema, name) for schema, name in query(file, "select schema_name, table_name from duckdb_tables()")}


def query(file: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with duckdb.connect(str(file)) as connection:
        return connection.sql(sql).fetchall()


def change(file: Path, sql: str) -> None:
    """Run a statement."""
    with duckdb.connect(str(file)) as connection:
        connection.execute(sql)


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its JSON as values, without the load's id."""
    return {
        name: json.loads(value) if value is not None and name in JSON_NAMES else value
        for name, value in row.items()
        if name != "_dlt_load_id"
    }
