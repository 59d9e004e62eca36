"""Finds the differences between two dictionaries that would break a query."""

from typing import Any

Dictionary = dict[str, Any]
"""A dictionary in its JSON form, or one of its tables or columns."""


def breaking_changes(released: Dictionary, present: Dictionary) -> list[str]:
    """A line for each table or column that is gone or means something else; whatever is new breaks nothing."""
    tables = by_name(present["tables"])
    return [line for table in released["tables"] for line in table_changes(table, tables.get(table["name"]))]


def table_changes(released: Dictionary, present: Dictionary | None) -> list[str]:
    """Return the breaking changes of a table."""
    name = released["name"]
    if present is None:
        return [f"{name} is gone"]
    columns = by_name(present["columns"])
    lines = [
        f"{name}.{line}"
        for column in released["columns"]
        for line in column_changes(column, columns.get(column["name"]))
    ]
    before, after = key_of(released), key_of(present)
    return lines if before == after else [*lines, f"{name}: the key was {sorted(before)}, and is {sorted(after)}"]


def column_changes(released: Dictionary, present: Dictionary | None) -> list[str]:
    """Return the breaking changes of a column."""
    name, was = released["name"], released["type"]
    if present is None:
        return [f"{name} is gone"]
    lines = [] if present["type"] == was else [f"{name} was {was}, and is {present['type']}"]
    looser = present["nullable"] and not released["nullable"]
    return [*lines, f"{name} was never null, and may be"] if looser else lines


def by_name(items: list[Dictionary]) -> dict[str, Dictionary]:
    """Tables or columns under their names."""
    return {item["name"]: item for item in items}


def key_of(table: Dictionary) -> set[str]:
    """The columns whose values together are once in a table."""
    return {column["name"] for column in table["columns"] if column["key"]}
