"""Subclasses dlt's source and resources to refuse changes that would silently lose rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn, Self

import dlt
import pyarrow as pa
from dlt.extract import DltResource, DltSource

from letters_source.destination.modes import DELETE_INSERT
from letters_source.errors import SettingsError
from letters_source.tables import LISTING_AUDIT, MAILINGS, REJECTED_ROWS, WriteMode, tables_of

IDIOMS = (
    "filter rows with add_map(lambda table: table.filter(...)), "
    "or get rows one by one with add_yield_map(lambda table: iter(table.to_pylist()))"
)


class TableResource(DltResource):
    """The resource of one table. Its items are Arrow tables; a step written for rows would drop whole tables."""

    def add_filter(self, item_filter: Any, insert_at: Any = None) -> NoReturn:  # noqa: ARG002 -- as dlt calls it
        """Raise `SettingsError`: a filter would keep or drop whole Arrow tables."""
        raise SettingsError(
            f"{self.name}: add_filter would drop whole Arrow tables, not rows; {IDIOMS}.", key="item_filter"
        )

    def add_map(self, item_map: Any, insert_at: Any = None) -> Self:
        """Add a step at the end, as dlt does. If it returns nothing for a table with rows, the load fails."""
        self.refuse_place("add_map", insert_at)
        return super().add_map(self.keeping(item_map))

    def add_yield_map(self, item_map: Any, insert_at: Any = None) -> Self:
        """Add a step at the end, as dlt does. If it yields nothing for a table with rows, the load fails."""
        self.refuse_place("add_yield_map", insert_at)
        return super().add_yield_map(self.keeping_all(item_map))

    def refuse_place(self, method: str, insert_at: Any) -> None:
        """Raise `SettingsError` for a step before our own steps, which build the tables."""
        if insert_at is not None:
            raise SettingsError(
                f"{self.name}: {method} adds steps at the end only; leave insert_at out.", key="insert_at"
            )

    def keeping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a step of `add_map` to fail if it drops a table with rows."""

        @wraps(step)
        def call(item: Any, *meta: Any) -> Any:
            with self.explained("add_map", item):
                result = step(item, *meta)
            if has_rows(item) and is_nothing(result):
                raise self.dropped("add_map")
            return result

        return call

    def keeping_all(self, step: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Wrap a step of `add_yield_map` to fail if it drops a table with rows."""

        @wraps(step)
        def call(item: Any, *meta: Any) -> Iterator[Any]:
            is_dropped = has_rows(item)
            with self.explained("add_yield_map", item):
                for result in step(item, *meta):
                    is_dropped = is_dropped and is_nothing(result)
                    yield result
            if is_dropped:
                raise self.dropped("add_yield_map")

        return call

    @contextmanager
    def explained(self, method: str, item: Any) -> Iterator[None]:
        """Explain by a `SettingsError` why a step fails that expects rows and gets an Arrow table."""
        try:
            yield
        except (TypeError, AttributeError) as error:
            if not isinstance(item, pa.Table):
                raise
            what = f"{self.name}: a step of {method} failed on an Arrow table"
            raise SettingsError(f"{what}: {error}; {IDIOMS}.", key="item_map") from error

    def dropped(self, method: str) -> SettingsError:
        """Return the error for a step that dropped a table with rows."""
        return SettingsError(
            f"{self.name}: a step of {method} dropped a whole Arrow table with rows; {IDIOMS}.", key="item_map"
        )


class HiddenResource(DltResource):
    """A resource that reads pages for several tables and accepts no steps."""

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `SettingsError`: hidden resources accept no steps."""
        raise SettingsError(
            f"{self.name} accepts no steps, because it reads for several tables; add them to a table's resource."
        )

    add_filter = add_map = add_yield_map = refuse


class LettersSource(DltSource):
    """A source that loads the tables of a listing together, so that parents and children come from one load."""

    only_changes = False
    """Whether it yields only rows that the destination does not hold, which all tables must receive at once."""

    def with_resources(self, *resource_names: str) -> DltSource:
        """Select resources and all others of their listings: children, rejected rows and the audit."""
        listings = {listing_of(name) for name in resource_names}
        together = [name for name in self.resources if listing_of(name) in listings]
        return super().with_resources(*dict.fromkeys((*resource_names, *together)))

    def clone(self, with_name: Any = None) -> "LettersSource":
        """Return a copy of this class."""
        source = LettersSource(self.schema.clone(with_name=with_name), self.section, list(self.resources.values()))
        source.only_changes = self.only_changes
        return source


def only_changes() -> bool:
    """Return whether the running load writes only changes."""
    return bool(getattr(dlt.current.source(), "only_changes", False))


def check_selected_resources(listing: str, mode: WriteMode) -> None:
    """Check that the running load includes all tables of a listing, or of mailings, each complete."""
    source = dlt.current.source()
    names = dict.fromkeys((*resources_of(listing), *(name for name in source.resources if listing_of(name) == listing)))
    missing = [name for name in names if name not in source.selected_resources]
    if missing:
        raise SettingsError(
            f"{listing}: not selected: {', '.join(missing)}; tables of a listing load together, or rows of two loads "
            f"would be mixed. Use letters().with_resources({listing!r}), or run(only=({listing!r},)).",
            key="resource_names",
        )
    for name in names:
        check_disposition(source.selected_resources[name], mode)


def check_disposition(resource: DltResource, mode: WriteMode) -> None:
    """Check that a resource's write disposition keeps its table complete, or raise `SettingsError`."""
    given: Any = resource.write_disposition
    # dlt accepts a string or a dict
    wanted = given if isinstance(given, dict) else {"disposition": given}
    strategy = "skip" if wanted["disposition"] == "skip" else wanted.get("strategy", DELETE_INSERT)
    if mode == "replace" and strategy != DELETE_INSERT:
        raise SettingsError(
            f'{resource.name}: {strategy} is not supported; write_disposition must be "replace", "append" or "merge". '
            "To write only changed rows, set sync; to keep row history, set history.",
            key="write_disposition",
        )
    if resource.incremental and (mode in ("sync", "history") or wanted["disposition"] == "replace"):
        raise SettingsError(
            f"{resource.name}: incremental keeps only new rows, so replace, sync and history would delete or close all "
            'others; set write_disposition to "merge" or "append", or remove incremental.',
            key="incremental",
        )


def resources_of(listing: str) -> list[str]:
    """Return the names of the resources that a listing, or mailings, requires."""
    rows = [MAILINGS.name] if listing == MAILINGS.name else [table.name for table in tables_of(listing)]
    shared = [LISTING_AUDIT] if listing == MAILINGS.name else [REJECTED_ROWS, LISTING_AUDIT]
    return [*rows, *(f"{listing}__{table.name}" for table in shared)]


def listing_of(resource: str) -> str:
    """Return the listing that a resource belongs to, or `mailings`; for a hidden resource, its own name."""
    return resource.partition("__")[0]


def has_rows(item: Any) -> bool:
    """Return whether an item is an Arrow table with rows."""
    return isinstance(item, pa.Table) and item.num_rows > 0


def is_nothing(result: Any) -> bool:
    """Return whether a step dropped its item."""
    return result is None or (isinstance(result, list) and all(map(is_nothing, result)))
