"""Finds the foreign keys between tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from letters_source.tables import Table


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key from a child table to its parent; `single` where a parent has at most one such row."""

    child: str
    column: str
    parent: str
    parent_column: str
    single: bool


def find_references(tables: Sequence[Table]) -> tuple[Reference, ...]:
    """Return the foreign keys of child tables, in the order of the tables."""
    roots = {table.listing: table for table in tables if not table.is_child}
    return tuple(
        # more columns of the key follow if a parent has many rows
        Reference(child.name, child.key[0], parent.name, parent.key[0], single=len(child.key) == 1)
        for child in tables
        if child.is_child and (parent := roots[child.listing])
    )
