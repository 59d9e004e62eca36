"""Renders the tables as sources of a dbt project, with tests, descriptions and freshness."""

from collections.abc import Sequence
from typing import Any

import yaml

from letters_source.tables import DATASET, LISTING_AUDIT, Column, Reference, Table, find_references

HEADER = """\
# Written by `letters schema --format dbt`. These variables of the project tell it what your loads do:
#   letters_dataset  the dataset; letters_data by default
#   letters_parts    what they load; [templates, contacts] by default, add facets and mailings
#   letters_history  whether they keep history; if true, the sources are the views of current rows
"""
SOURCE = "letters"
SCHEMA = f'{{{{ var("letters_dataset", "{DATASET}") }}}}'
PARTS = 'var("letters_parts", ["templates", "contacts"])'
CURRENT = '{{ "_current" if var("letters_history", false) else "" }}'
# DuckDB's and PostgreSQL's `timestamp` has no time zone; our other kinds are types of both
TYPES = {"timestamp": "timestamptz", "double": "double precision"}

Properties = dict[str, Any]


def to_dbt(tables: Sequence[Table]) -> str:
    """Return the tables and their foreign keys as a properties file, for dbt 1.10.8 or later."""
    reference_of = {reference.child: reference for reference in find_references(tables)}
    source = {
        "name": SOURCE,
        "description": "Templates and contacts of a letter mailing service, loaded by letters_source.",
        "schema": SCHEMA,
        "tables": [describe_table(table, reference_of.get(table.name)) for table in tables],
    }
    text = yaml.safe_dump({"version": 2, "sources": [source]}, sort_keys=False, allow_unicode=True, width=1000)
    return HEADER + text.rstrip("\n")


def describe_table(table: Table, reference: Reference | None) -> Properties:
    """Return the properties of a table and its columns."""
    key_test = [enabled_test("unique", parts_of(table), column_name=" || '|' || ".join(table.key))]
    return without_empty(
        {
            "name": table.name,
            # with history, a key has a row for each version
            "identifier": f"{table.name}{CURRENT}" if table.listing and table.origin != "dates" else "",
            "description": table.description,
            "config": {**enabled(parts_of(table)), **freshness(table)},
            "data_tests": key_test if len(table.key) > 1 else [],
            "columns": [describe_column(column, table, reference) for column in table.loaded],
        }
    )


def describe_column(column: Column, table: Table, reference: Reference | None) -> Properties:
    """Return the properties of a column."""
    names = [
        *(["unique"] if table.key == (column.name,) else []),
        *([] if column.nullable else ["not_null"]),
    ]
    tests = [enabled_test(name, parts_of(table)) for name in names]
    if reference and reference.column == column.name:
        tests.append(reference_test(table, reference))
    return without_empty(
        {
            "name": column.name,
            "description": column.description,
            "data_type": TYPES.get(column.kind, column.kind),
            "config": {"meta": {"personal": True}} if column.personal else {},
            "data_tests": tests,
        }
    )


def parts_of(table: Table) -> tuple[str, ...]:
    """Return what must be loaded for a table to exist; nothing for the tables of every load."""
    if table.origin == "dates":
        return (table.name,)
    return tuple(filter(None, (table.listing, "facets" if table.origin == "facet" else "")))


def enabled(parts: Sequence[str]) -> Properties:
    """Return the condition that these parts are loaded; nothing where there is none."""
    condition = " and ".join(f'"{part}" in {PARTS}' for part in parts)
    return {"enabled": f"{{{{ {condition} }}}}"} if parts else {}


def enabled_test(name: str, parts: Sequence[str], config: Properties | None = None, **arguments: str) -> Any:
    """Return a test that is disabled with its table; dbt would warn of it otherwise."""
    properties = without_empty({"arguments": arguments, "config": {**enabled(parts), **(config or {})}})
    return {name: properties} if properties else name


def reference_test(table: Table, reference: Reference) -> Any:
    """Return the test that each row has a parent; only a warning where the parent may be deleted, or too new."""
    parts = dict.fromkeys([*parts_of(table), reference.parent])
    lenient = {"severity": "warn"} if table.origin in ("facet", "dates") else None
    parent = f"source('{SOURCE}', '{reference.parent}')"
    return enabled_test("relationships", list(parts), lenient, to=parent, field=reference.parent_column)


def freshness(table: Table) -> Properties:
    """Return how old a table may be that is loaded every night: one missed load is a warning, three are an error."""
    if not table.listing or table.origin in ("object", "list"):
        return {}
    query = f"select max(started_at) from {SCHEMA}.{LISTING_AUDIT.name} where listing = '{table.audited}'"
    return {
        "freshness": {
            "warn_after": {"count": 36, "period": "hour"},
            "error_after": {"count": 84, "period": "hour"},
        },
        "loaded_at_query": query,
    }


def without_empty(properties: Properties) -> Properties:
    """Return the properties that have a value."""
    return {name: value for name, value in properties.items() if value}
