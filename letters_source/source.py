"""Defines the dlt source, its resources, and how each takes its rows from what was read."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, Unpack

import dlt
import pyarrow as pa
from dlt.common.configuration.specs.base_configuration import NotResolved
from dlt.common.schema import Schema
from dlt.common.schema.typing import TTableSchemaColumns
from dlt.common.schema.utils import new_table
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.extract import DltResource
from dlt.extract.exceptions import CurrentSourceNotAvailable

from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides, Settings
from letters_source.destination.audits import running_pipeline
from letters_source.destination.kinds import is_files, table_format
from letters_source.destination.write_modes import write_disposition
from letters_source.extract.task import ListingRows, LoadContext, TableRows, Task, listing_task
from letters_source.guarded_source import HiddenResource, LettersSource, TableResource
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.resources import Item, read_mailings, read_pages
from letters_source.service.listings import LISTINGS, given
from letters_source.service.throttle import Throttle
from letters_source.tables import (
    LISTING_AUDIT,
    LOAD_ID,
    MAILINGS,
    REJECTED_ROWS,
    TABLES,
    Mode,
    Table,
    facets_of,
    tables_of,
)
from letters_source.transform.flatten import accepted, to_rejected, to_table
from letters_source.transform.row_hash import listed_rows, with_hash


@dlt.source(name="letters", section="letters", _impl_cls=LettersSource)
def letters(
    watch: Annotated[ProgressCallback, NotResolved()] = no_progress, **settings: Unpack[Overrides]
) -> list[DltResource]:
    """Return a dlt source with templates and contacts of the letter mailing service, complete or an error.

    Each listing has resources for its tables (`templates`, `templates__creator`, `templates__product`; `contacts`,
    `contacts__contact_labels`), its facets if `facets` is set, its rejected rows, and its audit. `mailings` and their
    audit are selected if `mailings` is set. The pages of a listing are read once for all its tables except facets:
    each value of a facet takes a separate pass.

    Args:
        watch: progress callback, called for each response with the listing, the number of the pass, the rows in it, and
            the service's count.
        **settings: as in `Settings`; the rest comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: a setting is invalid, or a listing cannot be shown to be complete; nothing is loaded then.
    """
    logging.getLogger("dlt").addFilter(is_no_hint_of_ours)
    resolved = resolve_settings(settings)
    declare_tables(dlt.current.source_schema(), resolved)
    throttle = Throttle(resolved.max_workers, resolved.requests_per_second)
    context = LoadContext(resolved, token_source(resolved, settings), throttle, watch)
    tasks = {name: listing_task(listing, context) for name, listing in LISTINGS.items()}
    resources = [resource for task in tasks.values() for resource in listing_resources(task)]
    return [*resources, *mailings_resources(replace(tasks[MAILINGS.listing], name=MAILINGS.name))]


def is_no_hint_of_ours(record: logging.LogRecord) -> bool:
    """Return False for dlt's warning about our JSON columns, which Arrow stores as text; a logging filter."""
    if "several column hints were different" not in record.getMessage():
        return True
    try:
        return not isinstance(dlt.current.source(), LettersSource)
    except CurrentSourceNotAvailable:
        return True


def declare_tables(schema: Schema, settings: Settings) -> None:
    """Declare all tables in the schema, so that the order of columns does not depend on which rows arrive first."""
    for table in TABLES:
        if is_wanted(table, facets=settings.facets, mailings=settings.mailings):
            schema.update_table(new_table(table.name, columns=list(column_hints(table).values())))


def is_wanted(table: Table, *, facets: bool, mailings: bool) -> bool:
    """Return whether a table is part of a load with these settings."""
    return {"facet": facets, "window": mailings}.get(table.part, True)


def listing_resources(task: Task) -> Iterator[DltResource]:
    """Yield a hidden resource that reads the listing, and a transformer for each of its tables."""
    name, settings = task.name, task.settings
    pages = hidden_resource(read_pages, f"{name}_pages")(task)
    yield pages
    facets = facets_of(name) if settings.facets else ()
    filtered = settings.mode == "history" and bool(given(task.filters))
    for table in (*tables_of(name), *facets):
        how = write_disposition(table, settings.mode, filtered=filtered)
        take = table_transformer(take_table, table, write_disposition=how)
        yield described(pages | take(table, settings.mode, filtered=filtered), table)
    yield shared_resource(pages, REJECTED_ROWS, take_rejected, name)
    yield shared_resource(pages, LISTING_AUDIT, take_audit, name)


def mailings_resources(task: Task) -> Iterator[DltResource]:
    """Yield the same for mailings, which are requested by windows of days and loaded incrementally."""
    settings = task.settings
    days = dlt.sources.incremental[date](
        "day",
        initial_value=settings.mailings_since,
        lag=settings.mailings_lag,
        primary_key=(),
        on_cursor_value_missing="include",
    )
    windows = hidden_resource(read_mailings, "mailings_windows")(task, days)
    yield windows
    take = table_transformer(take_table, MAILINGS, write_disposition="merge", selected=settings.mailings)
    yield described(windows | take(MAILINGS), MAILINGS)
    audit = shared_resource(windows, LISTING_AUDIT, take_audit, MAILINGS.name)
    audit.selected = settings.mailings
    yield audit


def shared_resource(pages: DltResource, table: Table, take: Callable[[Any], pa.Table | None], name: str) -> DltResource:
    """Return the transformer for a table that all listings share."""
    return described(pages | table_transformer(take, table, name, write_disposition="append"), table)


def hidden_resource(read: Callable[..., Any], name: str) -> Any:
    """Return a resource that reads pages, the input of the tables' transformers."""
    # dlt's type hints lack `_impl_cls`
    make: Any = dlt.resource
    return make(read, name=name, selected=False, _impl_cls=HiddenResource)


def table_transformer(take: Callable[..., Any], table: Table, listing: str = "", **more: Any) -> Any:
    """Return the transformer that extracts a table's rows from the pages."""
    make: Any = dlt.transformer
    return make(take, **hints(table, listing), **more, _impl_cls=TableResource)


def described(resource: DltResource, table: Table) -> DltResource:
    """Return the resource with the table's description in its schema."""
    return resource.apply_hints(additional_table_hints={"description": table.description})


def hints(table: Table, listing: str = "") -> dict[str, Any]:
    """Return dlt's hints for a table; a table that listings share has a resource per listing, named after both."""
    reference = {"referenced_table": table.listing, "columns": list(table.key[:1]), "referenced_columns": ["id"]}
    return {
        "name": f"{listing}__{table.name}" if listing else table.name,
        "table_name": table.name,
        "primary_key": table.key or None,
        "references": [reference] if table.is_child else None,
        "columns": column_hints(table),
    }


def column_hints(table: Table) -> TTableSchemaColumns:
    """Return dlt's hints for a table's columns."""
    return {
        column.name: {
            "name": column.name,
            "data_type": column.kind,
            "description": column.description,
            "nullable": column.nullable,
        }
        for column in table.loaded
    }


def take_table(
    item: Item | dict[str, Any], table: Table, mode: Mode = "replace", *, filtered: bool = False
) -> list[pa.Table] | pa.Table | None:
    """Return a table's rows from an item; for history with filters, a child also gets markers of the listed rows."""
    item = unwrapped(item)
    if isinstance(item, ListingRows):
        own = [] if table.part == "facet" else [with_hash(to_table(item.rows, table), table, mode)]
        listed = [listed_rows(accepted(item.rows)["id"], table)] if filtered and table.part != "row" else []
        return [stamped(rows, table) for rows in (*own, *listed)] or None
    if isinstance(item, TableRows) and item.table == table.name:
        return stamped(with_hash(item.rows, table, mode), table)
    return None


def take_rejected(item: Item | dict[str, Any]) -> pa.Table | None:
    """Return the rows without a usable id; for the audit, an empty table, so that `rejected_rows` always exists."""
    item = unwrapped(item)
    if isinstance(item, TableRows) and item.table == LISTING_AUDIT.name:
        return stamped(REJECTED_ROWS.schema.empty_table(), REJECTED_ROWS)
    if isinstance(item, ListingRows) and item.rows["id"].null_count:
        return stamped(to_rejected(item.rows, item.listing), REJECTED_ROWS)
    return None


def take_audit(item: Item | dict[str, Any]) -> pa.Table | None:
    """Return the audit's row; None for other items."""
    item = unwrapped(item)
    is_audit = isinstance(item, TableRows) and item.table == LISTING_AUDIT.name
    return stamped(item.rows, LISTING_AUDIT) if is_audit else None


def unwrapped(item: Item | dict[str, Any]) -> Item:
    """Return the item without the day that dlt's incremental loading uses."""
    inner: Item = item["item"] if isinstance(item, dict) else item
    return inner


def stamped(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows with the load id; unchanged outside a pipeline."""
    try:
        load_id = load_package_state()["load_id"]
    except CurrentLoadPackageStateNotAvailable:
        return rows
    loads = pa.repeat(pa.scalar(load_id), rows.num_rows)
    loaded = rows.append_column(pa.field(LOAD_ID.name, loads.type, nullable=False), loads)
    return with_descriptions(loaded, table) if goes_to_plain_files(load_id) else loaded


# looking up dlt's configuration takes 9 ms
@lru_cache(maxsize=1)
def goes_to_plain_files(load_id: str) -> bool:  # noqa: ARG001 -- the cache key: the answer holds for one load
    """Return whether the running load writes plain Parquet files, whose schemas contain descriptions."""
    pipeline = running_pipeline()
    # Delta rejects rows whose metadata differs from the table's, so a changed description would make loads fail
    return pipeline is not None and is_files(pipeline) and not table_format(pipeline)


def with_descriptions(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows with the descriptions of the table and its columns in the metadata of their Arrow schema."""
    metadata = {column.name: {"description": column.description} for column in table.loaded}
    fields = [field.with_metadata(metadata.get(field.name)) for field in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields, {"description": table.description}))
