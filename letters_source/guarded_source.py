"""Our dlt source and its resources, guarded against what would lose rows silently."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NoReturn, Self

import dlt
import pyarrow as pa
from dlt.extract import DltResource, DltSource

from letters_source.errors import SettingsError
from letters_source.tables import LISTING_AUDIT, MAILINGS, REJECTED_ROWS, tables_of

IDIOMS = (
    "filter rows with add_map(lambda table: table.filter(...)), "
    "or get rows one by one with add_yield_map(lambda table: iter(table.to_pylist()))"
)


class TableResource(DltResource):
    """The resource of one table. Its items are Arrow tables, which a step written for rows would drop whole."""

    def add_filter(self, item_filter: Any, insert_at: Any = None) -> NoReturn:  # noqa: ARG002 -- as dlt calls it
        """Refuse: a filter keeps or drops whole items, which hold many rows.

        Raises:
            SettingsError: always; the message names what to use instead.
        """
        raise SettingsError(f"{self.name}: add_filter would drop whole Arrow tables, not rows; {IDIOMS}.")

    def add_map(self, item_map: Any, insert_at: Any = None) -> Self:
        """Add a step as dlt does. If it returns None for a table with rows, the load fails."""
        return super().add_map(self.keeping(item_map), insert_at)

    def add_yield_map(self, item_map: Any, insert_at: Any = None) -> Self:
        """Add a step as dlt does. If it yields nothing for a table with rows, the load fails."""
        return super().add_yield_map(self.keeping_all(item_map), insert_at)

    def keeping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step of `add_map`, which may not drop a table with rows."""

        @wraps(step)
        def call(item: Any, *meta: Any) -> Any:
            result = step(item, *meta)
            if result is None and has_rows(item):
                raise self.dropped("add_map")
            return result

        return call

    def keeping_all(self, step: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """The step of `add_yield_map`, which may not drop a table with rows."""

        @wraps(step)
        def call(item: Any, *meta: Any) -> Iterator[Any]:
            is_dropped = has_rows(item)
            for result in step(item, *meta):
                is_dropped = False
                yield result
            if is_dropped:
                raise self.dropped("add_yield_map")

        return call

    def dropped(self, method: str) -> SettingsError:
        """The error of a step that dropped a table with rows."""
        return SettingsError(f"{self.name}: a step of {method} dropped a whole Arrow table with rows; {IDIOMS}.")


class LettersSource(DltSource):
    """The source. Tables of a listing are loaded together, as rows of two loads would not fit each other."""

    def with_resources(self, *resource_names: str) -> DltSource:
        """Select resources, with all others of their listings: children, rejected rows and the audit."""
        parts = {part_of(name) for name in resource_names}
        together = [name for name in self.resources if part_of(name) in parts]
        return super().with_resources(*dict.fromkeys((*resource_names, *together)))


def check_use(part: str) -> None:
    """See that the running load has all tables of a listing, or of the mailings, and replaces none with a part of it.

    Raises:
        SettingsError: some are not selected, so that their rows of an earlier load would stay; or one is incremental.
    """
    selected = dlt.current.source().selected_resources
    missing = [name for name in resources_of(part) if name not in selected]
    if missing:
        raise SettingsError(
            f"{part}: {', '.join(missing)} would keep the rows of an earlier load, as they are not selected; "
            f"use letters().with_resources({part!r}), or run(only=({part!r},))."
        )
    for name in resources_of(part):
        if selected[name].incremental and disposition_of(selected[name]) == "replace":
            raise SettingsError(
                f"{name}: incremental with write_disposition replace would leave only the rows that are new since the "
                'last load; set write_disposition to "merge" or "append", or leave incremental out.'
            )


def disposition_of(resource: DltResource) -> Any:
    """How a resource's table is written; dlt takes the word alone, or a dict with more about it."""
    given: Any = resource.write_disposition
    return given["disposition"] if isinstance(given, dict) else given


def resources_of(part: str) -> list[str]:
    """The names of the resources that a listing, or the mailings, cannot be loaded without."""
    rows = [MAILINGS.name] if part == MAILINGS.name else [table.name for table in tables_of(part)]
    shared = [LISTING_AUDIT] if part == MAILINGS.name else [REJECTED_ROWS, LISTING_AUDIT]
    return [*rows, *(f"{part}__{table.name}" for table in shared)]


def part_of(resource: str) -> str:
    """The listing that a resource belongs to, or `mailings`; of a hidden resource its own name."""
    return resource.partition("__")[0]


def has_rows(item: Any) -> bool:
    """Whether an item is an Arrow table with rows."""
    return isinstance(item, pa.Table) and item.num_rows > 0
