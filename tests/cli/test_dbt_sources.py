"""Do the sources for dbt describe the tables, and test their guarantees?"""

from typing import Any

import yaml

from letters_source.cli.dbt import HEADER
from letters_source.cli.dictionary import render
from letters_source.tables import DATASET, TABLES, Column, Table, find_references

CAMPS = Table(
    "contacts",
    "Camps, one row each.",
    (
        Column("id", "id", 'An "id".', key=True),
        Column("host", "hostName", "Whose: it's.", personal=True),
        Column("size", "size", "How large.", "double", required=True),
    ),
    listing="contacts",
)
TENTS = Table(
    "contacts__tents",
    "Tents.",
    (
        Column("contact_id", "", "The camp, contacts.id.", key=True),
        Column("position", "", "Its place.", "bigint", key=True),
    ),
    listing="contacts",
    origin="facet",
)
NOTES = Table("notes", "What we noticed.", (Column("seen_at", "", "When.", "timestamp"),))

SOURCES = """\
version: 2
sources:
- name: letters
  description: Templates and contacts of a letter mailing service, loaded by letters_source.
  schema: '{{ var("letters_dataset", "letters_data") }}'
  tables:
  - name: contacts
    identifier: contacts{{ "_current" if var("letters_history", false) else "" }}
    description: Camps, one row each.
    config:
      enabled: '{{ "contacts" in var("letters_parts", ["templates", "contacts"]) }}'
      freshness:
        warn_after:
          count: 36
          period: hour
        error_after:
          count: 84
          period: hour
      loaded_at_query: select max(started_at) from {{ var("letters_dataset", "letters_data") }}.listing_audit \
where listing = 'contacts'
    columns:
    - name: id
      description: An "id".
      data_type: text
      data_tests:
      - unique:
          config:
            enabled: '{{ "contacts" in var("letters_parts", ["templates", "contacts"]) }}'
      - not_null:
          config:
            enabled: '{{ "contacts" in var("letters_parts", ["templates", "contacts"]) }}'
    - name: host
      description: 'Whose: it''s.'
      data_type: text
      config:
        meta:
          personal: true
    - name: size
      description: How large.
      data_type: double precision
      data_tests:
      - not_null:
          config:
            enabled: '{{ "contacts" in var("letters_parts", ["templates", "contacts"]) }}'
    - name: _dlt_load_id
      description: The load that wrote the row, _dlt_loads.load_id.
      data_type: text
      data_tests:
      - not_null:
          config:
            enabled: '{{ "contacts" in var("letters_parts", ["templates", "contacts"]) }}'
  - name: notes
    description: What we noticed.
    columns:
    - name: seen_at
      description: When.
      data_type: timestamptz
    - name: _dlt_load_id
      description: The load that wrote the row, _dlt_loads.load_id.
      data_type: text
      data_tests:
      - not_null"""


def parsed_tables(*tables: Table) -> list[dict[str, Any]]:
    """The tables of the source, as dbt reads them."""
    [source] = yaml.safe_load(render("dbt", tables))["sources"]
    found: list[dict[str, Any]] = source["tables"]
    return found


def checks_of(properties: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The properties of each test of a table or column."""
    found: dict[str, dict[str, Any]] = {}
    for test in properties.get("data_tests", []):
        found |= {test: {}} if isinstance(test, str) else test
    return found


def names_tested(test: str) -> set[tuple[str, str]]:
    """The table and the name of each column that has a test."""
    return {
        (table["name"], column["name"])
        for table in parsed_tables(*TABLES)
        for column in table["columns"]
        if test in checks_of(column)
    }


def test_sources_are_exact() -> None:
    """dbt's sources of small tables have exactly the expected conditions, freshness, tests, types and descriptions."""
    assert render("dbt", (CAMPS, NOTES)) == HEADER + SOURCES


def test_every_table_and_column_has_its_description() -> None:
    """dbt's sources describe every table and column with the schema's words, in the order of the tables."""
    assert [
        (table["name"], table["description"], column["name"], column["description"])
        for table in parsed_tables(*TABLES)
        for column in table["columns"]
    ] == [
        (table.name, table.description, column.name, column.description) for table in TABLES for column in table.loaded
    ]


def test_every_key_is_tested() -> None:
    """Every key has a test that it is unique, on its column or on the text of several columns."""
    keys = {table.name: table.key for table in TABLES if table.key}
    assert names_tested("unique") == {(name, key[0]) for name, key in keys.items() if len(key) == 1}
    assert {
        table["name"]: checks_of(table)["unique"]["arguments"]["column_name"]
        for table in parsed_tables(*TABLES)
        if "data_tests" in table
    } == {name: " || '|' || ".join(key) for name, key in keys.items() if len(key) > 1}


def test_every_column_that_is_never_null_is_tested() -> None:
    """Every column that is never null has a test for it."""
    assert names_tested("not_null") == {
        (table.name, column.name) for table in TABLES for column in table.loaded if not column.nullable
    }


def test_every_reference_is_tested() -> None:
    """Every reference has a test, which only warns in tables of facets and mailings."""
    found = {
        (table["name"], column["name"]): checks_of(column)["relationships"]
        for table in parsed_tables(*TABLES)
        for column in table["columns"]
        if "relationships" in checks_of(column)
    }
    assert {place: test["arguments"] for place, test in found.items()} == {
        (each.child, each.column): {"to": f"source('letters', '{each.parent}')", "field": each.parent_column}
        for each in find_references(TABLES)
    }
    assert {name for (name, _), test in found.items() if test["config"].get("severity") == "warn"} == {
        table.name for table in TABLES if table.origin in ("facet", "dates")
    }


def test_a_facet_needs_its_listing_and_facets() -> None:
    """A facet's table and all its tests are enabled only if both its listing and `facets` are loaded."""
    [_, tents] = parsed_tables(CAMPS, TENTS)
    parts = 'var("letters_parts", ["templates", "contacts"])'
    condition = f'{{{{ "contacts" in {parts} and "facets" in {parts} }}}}'
    tests = [test for properties in (tents, *tents["columns"]) for test in checks_of(properties).values()]
    assert {each["config"]["enabled"] for each in (tents, *tests)} == {condition}
    assert len(tests) == 5


def test_the_age_of_each_table_is_that_of_its_own_audits() -> None:
    """Tables of listings, facets and mailings have freshness, by the audits of their own listing."""
    assert {
        table["name"]: table["config"]["loaded_at_query"].partition(" where ")[2]
        for table in parsed_tables(*TABLES)
        if "freshness" in table.get("config", {})
    } == {
        table.name: f"listing = '{table.name}'"
        for table in TABLES
        if table.listing and table.origin in ("row", "facet", "dates")
    }
    assert f'"{DATASET}"' in render("dbt", (CAMPS,))
