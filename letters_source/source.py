"""Defines the dlt source: its settings, its resources, and their hints."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Concatenate, ParamSpec, Unpack

import dlt
import pyarrow as pa
from dlt.common.configuration.specs.base_configuration import NotResolved
from dlt.common.schema import Schema
from dlt.common.schema.typing import TTableSchemaColumns, TWriteDispositionConfig
from dlt.common.schema.utils import new_table
from dlt.extract import DltResource
from dlt.extract.decorators import ResourceFactory
from dlt.extract.exceptions import CurrentSourceNotAvailable

from letters_source.config.messages import report_misspelled_sections
from letters_source.config.providers import present_providers
from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides, Settings
from letters_source.destination.modes import replace_days, write_disposition
from letters_source.extract.task import LoadContext, Task, listing_task
from letters_source.guarded_source import HiddenResource, LettersSource, TableResource
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.resources import Yielded, read_mailings, read_pages, take_audit, take_rejected, take_table
from letters_source.service.listings import LISTINGS, given
from letters_source.tables import LISTING_AUDIT, MAILINGS, REJECTED_ROWS, TABLES, Table, facets_of, tables_of

P = ParamSpec("P")


@dlt.source(name="letters", section="letters", _impl_cls=LettersSource)
def letters(
    progress: Annotated[ProgressCallback, NotResolved()] = no_progress,
    shared_ids: Annotated[Mapping[str, int] | None, NotResolved()] = None,
    **settings: Unpack[Overrides],
) -> list[DltResource]:
    """Return a dlt source with templates and contacts of the letter mailing service, complete or an error.

    Each listing has resources for its tables (`templates`, `templates__creator`, `templates__product`; `contacts`,
    `contacts__contact_labels`), its facets if `facets` is set, its rejected rows, and its audit. `mailings` and their
    audit are selected if `mailings` is set. The pages of a listing are read once for all its tables except facets:
    each value of a facet takes a separate pass.

    Args:
        progress: a callback, called for each response with the listing, the number of the pass, the rows in it, and
            the service's count; for mailings, with the days of a window, and of all windows.
        shared_ids: for the audit: by listing, how many ids on its first page other accounts list on theirs, too.
        **settings: as in `Settings`; the rest comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: a setting is invalid, or a listing cannot be shown to be complete; nothing is loaded then.
    """
    logging.getLogger("dlt").addFilter(is_other_warning)
    report_misspelled_sections(present_providers())
    resolved = resolve_settings(settings)
    declare_tables(dlt.current.source_schema(), resolved)
    context = replace(LoadContext.of(resolved, token_source(resolved, settings), progress), shared_ids=shared_ids or {})
    tasks = {name: listing_task(listing, context) for name, listing in LISTINGS.items()}
    resources = [resource for task in tasks.values() for resource in listing_resources(task)]
    return [*resources, *mailings_resources(replace(tasks[MAILINGS.listing], name=MAILINGS.name))]


def is_other_warning(record: logging.LogRecord) -> bool:
    """Filter out dlt's warning about our JSON columns, which Arrow stores as text."""
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
    return {"facet": facets, "dates": mailings}.get(table.origin, True)


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
        yield with_description(pages | take(table, settings.mode), table)
    yield shared_resource(pages, REJECTED_ROWS, take_rejected, name)
    yield shared_resource(pages, LISTING_AUDIT, take_audit, name)


def mailings_resources(task: Task) -> Iterator[DltResource]:
    """Yield a hidden resource that reads mailings by date ranges, and transformers for their table and audit."""
    settings = task.settings
    days = dlt.sources.incremental[date](
        "day",
        initial_value=settings.mailings_since,
        lag=settings.mailings_lag,
        primary_key=(),
        on_cursor_value_missing="include",
    )
    read = hidden_resource(read_mailings, "mailings_windows")(task, days)
    yield read
    take = table_transformer(take_table, MAILINGS, write_disposition=replace_days(), selected=settings.mailings)
    yield with_description(read | take(MAILINGS), MAILINGS)
    audit = shared_resource(read, LISTING_AUDIT, take_audit, MAILINGS.name)
    audit.selected = settings.mailings
    yield audit


def shared_resource(
    pages: DltResource, table: Table, take: Callable[[Yielded], pa.Table | None], name: str
) -> DltResource:
    """Return the transformer for a table that all listings share."""
    return with_description(pages | table_transformer(take, table, name, write_disposition="append"), table)


def hidden_resource(read: Callable[P, Iterator[Yielded]], name: str) -> ResourceFactory[P, HiddenResource]:
    """Return a resource that reads pages, the input of the tables' transformers."""
    return dlt.resource(read, name=name, selected=False, _impl_cls=HiddenResource)


def table_transformer(
    take: Callable[Concatenate[Yielded, P], list[pa.Table] | pa.Table | None],
    table: Table,
    listing: str = "",
    *,
    write_disposition: TWriteDispositionConfig,
    selected: bool = True,
) -> ResourceFactory[P, TableResource]:
    """Return the transformer that takes a table's rows from the pages.

    A table that listings share has a transformer for each `listing`, named after both.
    """
    # dlt's type hints lack `_impl_cls` here, and the dictionaries of `write_disposition`
    make: Any = dlt.transformer
    parent = {"referenced_table": table.listing, "columns": list(table.key[:1]), "referenced_columns": ["id"]}
    made: ResourceFactory[P, TableResource] = make(
        take,
        name=f"{listing}__{table.name}" if listing else table.name,
        table_name=table.name,
        columns=column_hints(table),
        primary_key=table.key or None,
        references=[parent] if table.is_child else None,
        write_disposition=write_disposition,
        selected=selected,
        _impl_cls=TableResource,
    )
    return made


def with_description(resource: DltResource, table: Table) -> DltResource:
    """Return the resource with the table's description in its schema."""
    return resource.apply_hints(additional_table_hints={"description": table.description})


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
