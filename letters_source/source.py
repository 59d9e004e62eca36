"""What can be loaded? The dlt source and its resources; wiring only."""

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
from letters_source.extract.audit import Audit
from letters_source.extract.ids import Members
from letters_source.extract.listing import Rows
from letters_source.extract.task import Job
from letters_source.guarded_source import HiddenResource, LettersSource, TableResource
from letters_source.pagination.reader import Watch, ignore
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

HINTS_DIFFER = "several column hints were different"
"""What dlt warns of for each Arrow table with a JSON column: Arrow has no JSON type, so it comes as text."""


@dlt.source(name="letters", section="letters", _impl_cls=LettersSource)
def letters(watch: Annotated[Watch, NotResolved()] = ignore, **settings: Unpack[Overrides]) -> list[DltResource]:
    """Templates and contacts of the letter mailing service, complete or an error.

    Resources: for each listing its tables (`templates`, `templates__creator`, `templates__product`; `contacts`,
    `contacts__contact_labels`), with `facets` those of its facets, its rows without a usable id, and its audit;
    `mailings` and their audit, selected where the setting says so. The pages of a listing are read once for all its
    tables but the facets, each value of which has a walk of its own.

    Args:
        watch: told of each response: listing, number of the walk, rows in it, the service's count.
        **settings: as in `Settings`; what is not given comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: a setting is wrong, or a listing cannot be shown to be whole; nothing is loaded then.
    """
    logging.getLogger("dlt").addFilter(is_no_hint_of_ours)
    resolved = resolve_settings(settings)
    declare_tables(dlt.current.source_schema(), resolved)
    tokens = token_source(resolved, settings)
    throttle = Throttle(resolved.max_workers, resolved.requests_per_second)
    jobs = {
        name: Job(name, listing, resolved, tokens, throttle, resolved.filters(name), watch)
        for name, listing in LISTINGS.items()
    }
    resources = [resource for job in jobs.values() for resource in listing_resources(job)]
    return [*resources, *mailings_resources(replace(jobs[MAILINGS.listing], name=MAILINGS.name))]


def is_no_hint_of_ours(record: logging.LogRecord) -> bool:
    """Whether a line of dlt's log is about anything but the hints of our JSON columns, which are right."""
    if HINTS_DIFFER not in record.getMessage():
        return True
    try:
        return not isinstance(dlt.current.source(), LettersSource)
    except CurrentSourceNotAvailable:
        return True


def declare_tables(schema: Schema, settings: Settings) -> None:
    """Put all tables into the schema, so that their columns have one order whatever comes first.

    Only tables that are loaded reach the destination.
    """
    for table in TABLES:
        if is_wanted(table, facets=settings.facets, mailings=settings.mailings):
            schema.update_table(new_table(table.name, columns=list(column_hints(table).values())))


def is_wanted(table: Table, *, facets: bool, mailings: bool) -> bool:
    """Whether a table is loaded, where facets and mailings are or are not."""
    return {"facet": facets, "window": mailings}.get(table.part, True)


def listing_resources(job: Job) -> Iterator[DltResource]:
    """A hidden resource that reads the listing, and for each table a transformer that takes its part of that."""
    name, settings = job.name, job.settings
    pages = hidden_resource(read_pages, f"{name}_pages")(job)
    yield pages
    facets = facets_of(name) if settings.facets else ()
    filtered = settings.mode == "history" and bool(given(job.filters))
    for table in (*tables_of(name), *facets):
        how = write_disposition(table, settings.mode, filtered=filtered)
        take = table_transformer(take_table, table, write_disposition=how)
        yield described(pages | take(table, settings.mode, filtered=filtered), table)
    yield shared_resource(pages, REJECTED_ROWS, take_rejected, name)
    yield shared_resource(pages, LISTING_AUDIT, take_audit, name)


def mailings_resources(job: Job) -> Iterator[DltResource]:
    """The same for the mailings, which are asked for by windows of days and grow from load to load."""
    settings = job.settings
    days = dlt.sources.incremental[date](
        "day",
        initial_value=settings.mailings_since,
        lag=settings.mailings_lag,
        primary_key=(),
        on_cursor_value_missing="include",
    )
    windows = hidden_resource(read_mailings, "mailings_windows")(job, days)
    yield windows
    take = table_transformer(take_table, MAILINGS, write_disposition="merge", selected=settings.mailings)
    yield described(windows | take(MAILINGS), MAILINGS)
    audit = shared_resource(windows, LISTING_AUDIT, take_audit, MAILINGS.name)
    audit.selected = settings.mailings
    yield audit


def shared_resource(pages: DltResource, table: Table, take: Callable[[Any], pa.Table | None], name: str) -> DltResource:
    """The transformer for a table that all listings share."""
    return described(pages | table_transformer(take, table, name, write_disposition="append"), table)


def hidden_resource(read: Callable[..., Any], name: str) -> Any:
    """A resource that reads pages; the transformers of tables take their parts of them."""
    # dlt's types leave out its parameter for a class
    make: Any = dlt.resource
    return make(read, name=name, selected=False, _impl_cls=HiddenResource)


def table_transformer(take: Callable[..., Any], table: Table, listing: str = "", **more: Any) -> Any:
    """The transformer that takes a table's part of what was read."""
    make: Any = dlt.transformer
    return make(take, **hints(table, listing), **more, _impl_cls=TableResource)


def described(resource: DltResource, table: Table) -> DltResource:
    """The resource with the table's description in its schema."""
    return resource.apply_hints(additional_table_hints={"description": table.description})


def hints(table: Table, listing: str = "") -> dict[str, Any]:
    """dlt's hints of a table; one that all listings share has a resource for each, named after both."""
    reference = {"referenced_table": table.listing, "columns": list(table.key[:1]), "referenced_columns": ["id"]}
    return {
        "name": f"{listing}__{table.name}" if listing else table.name,
        "table_name": table.name,
        "primary_key": table.key or None,
        "references": [reference] if table.is_child else None,
        "columns": column_hints(table),
    }


def column_hints(table: Table) -> TTableSchemaColumns:
    """dlt's hints of a table's columns."""
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
    """A table's part of what was read; for history with filters, a child also takes which rows were listed."""
    item = unwrapped(item)
    if isinstance(item, Rows):
        own = [] if table.part == "facet" else [with_hash(to_table(item.rows, table), table, mode)]
        listed = [listed_rows(accepted(item.rows)["id"], table)] if filtered and table.part != "row" else []
        return [stamped(rows, table) for rows in (*own, *listed)] or None
    if isinstance(item, Members) and item.table == table.name:
        return stamped(with_hash(item.rows, table, mode), table)
    return None


def take_rejected(item: Item | dict[str, Any]) -> pa.Table | None:
    """The rows without a usable id; at the end an empty table, which sees to it that theirs exists."""
    item = unwrapped(item)
    if isinstance(item, Audit):
        return stamped(REJECTED_ROWS.schema.empty_table(), REJECTED_ROWS)
    if isinstance(item, Rows) and item.rows["id"].null_count:
        return stamped(to_rejected(item.rows, item.listing), REJECTED_ROWS)
    return None


def take_audit(item: Item | dict[str, Any]) -> pa.Table | None:
    """The audit."""
    item = unwrapped(item)
    return stamped(item.row, LISTING_AUDIT) if isinstance(item, Audit) else None


def unwrapped(item: Item | dict[str, Any]) -> Item:
    """The item itself where it comes with the day that dlt's incremental loading goes by."""
    inner: Item = item["item"] if isinstance(item, dict) else item
    return inner


def stamped(rows: pa.Table, table: Table) -> pa.Table:
    """The rows with the id of the load that brings them; outside a pipeline there is no load."""
    try:
        load_id = load_package_state()["load_id"]
    except CurrentLoadPackageStateNotAvailable:
        return rows
    loads = pa.repeat(pa.scalar(load_id), rows.num_rows)
    loaded = rows.append_column(pa.field(LOAD_ID.name, loads.type, nullable=False), loads)
    return with_descriptions(loaded, table) if goes_to_plain_files(load_id) else loaded


# to look dlt's configuration up takes 9 ms
@lru_cache(maxsize=1)
def goes_to_plain_files(load_id: str) -> bool:  # noqa: ARG001 -- the answer holds for one load
    """Whether the running load writes plain Parquet files, which describe themselves.

    Delta refuses rows whose metadata differs from the table's, so reworded descriptions would stop loads into it.
    """
    pipeline = running_pipeline()
    return pipeline is not None and is_files(pipeline) and not table_format(pipeline)


def with_descriptions(rows: pa.Table, table: Table) -> pa.Table:
    """The rows with the descriptions of the table and its columns in the metadata of their schema."""
    told = {column.name: {"description": column.description} for column in table.loaded}
    fields = [field.with_metadata(told.get(field.name)) for field in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields, {"description": table.description}))
