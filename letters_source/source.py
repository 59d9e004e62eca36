"""What can be loaded? The dlt source and its resources; wiring only."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Unpack

import dlt
import pyarrow as pa
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs.base_configuration import NotResolved
from dlt.common.pipeline import PipelineContext
from dlt.common.schema import Schema
from dlt.common.schema.typing import TTableSchemaColumns
from dlt.common.schema.utils import new_table
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.extract import DltResource

from letters_source.errors import SettingsError
from letters_source.extract import Audit, Job, Rows, read_listing, report_ignored
from letters_source.facets import Members, read_facet
from letters_source.flatten import to_rejected, to_table
from letters_source.listing import LAST_MAILED_STATUSES, LISTINGS, given, unknown_statuses
from letters_source.lookup import where_to_set
from letters_source.mailings import plan_windows, read_window
from letters_source.reader import Watch, ignore
from letters_source.selection import check_selection
from letters_source.settings import Mode, Overrides, Settings, read_tokens_again, resolve_settings
from letters_source.tables import (
    LISTING_AUDIT,
    LOAD_ID,
    MAILINGS,
    REJECTED_ROWS,
    TABLES,
    Table,
    facets_of,
    tables_of,
)
from letters_source.tokens import TokenSource, check_tokens
from letters_source.versions import merge_key, with_hash, write_disposition

logger = logging.getLogger("letters_source")
SHARED = (REJECTED_ROWS, LISTING_AUDIT)
JSON_COLUMNS = {column.name for table in TABLES for column in table.columns if column.kind == "json"}
Item = Rows | Members | Audit
WORDS = {"sync": "sync", "history": "history", "merge": "loading mailings"}
DOCUMENTED = ", ".join(LAST_MAILED_STATUSES)


@dlt.source(name="letters", section="letters")
def letters(watch: Annotated[Watch, NotResolved()] = ignore, **settings: Unpack[Overrides]) -> list[DltResource]:
    """Templates and contacts of the letter mailing service, complete or an error.

    Resources: for each listing its tables (`templates`, `templates__creator`, `templates__product`; `contacts`,
    `contacts__contact_labels`), its rows without a usable id, and its audit. Pages are read once for all of them.

    Args:
        watch: told of each response: listing, number of the walk, rows in it, the service's count.
        **settings: as in `Settings`; what is not given comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: a setting is wrong, or a listing cannot be shown to be whole; nothing is loaded then.
    """
    resolved = resolve_settings(settings)
    declare_tables(dlt.current.source_schema(), resolved)
    tokens = TokenSource(check_tokens(resolved.tokens), partial(read_tokens_again, resolved, settings))
    jobs = [Job(name, LISTINGS[name], resolved, tokens, resolved.filters(name), watch) for name in LISTINGS]
    resources = [resource for job in jobs for resource in listing_resources(job)]
    return [*resources, *mailings_resources(replace(jobs[-1], name=MAILINGS.name))]


def declare_tables(schema: Schema, settings: Settings) -> None:
    """Put all tables into the schema, so that their columns have one order whatever comes first.

    Only tables that are loaded reach the destination.
    """
    for table in TABLES:
        if is_wanted(table, settings):
            schema.update_table(new_table(table.name, columns=list(column_hints(table).values())))


def is_wanted(table: Table, settings: Settings) -> bool:
    """Whether the settings ask for a table."""
    return {"facet": settings.facets, "window": settings.mailings}.get(table.part, True)


def listing_resources(job: Job) -> Iterator[DltResource]:
    """A hidden resource that reads the listing, and for each table a transformer that takes its part of that."""
    name, settings = job.name, job.settings
    pages = dlt.resource(read_pages, name=f"{name}_pages", selected=False)(job)
    yield pages
    facets = facets_of(name) if settings.facets else ()
    how = {"write_disposition": write_disposition(settings.mode)}
    for table in (*tables_of(name), *facets):
        key = merge_key(table, settings.mode, filtered=bool(given(job.filters).keys() - {"account_id"}))
        take = dlt.transformer(take_table, **hints(table), **how, merge_key=key)
        yield described(pages | take(table, settings.mode), table)
    yield shared_resource(pages, REJECTED_ROWS, take_rejected, name)
    yield shared_resource(pages, LISTING_AUDIT, take_audit, name)


def mailings_resources(job: Job) -> Iterator[DltResource]:
    """The same for the mailings, which are asked for by windows of days and grow from load to load."""
    settings = job.settings
    days = dlt.sources.incremental[date](
        "day", initial_value=settings.mailings_since, lag=settings.mailings_lag, primary_key=()
    )
    windows = dlt.resource(read_mailings, name="mailings_windows", selected=False)(job, days)
    yield windows
    take = dlt.transformer(take_table, **hints(MAILINGS), write_disposition="merge", selected=settings.mailings)
    yield described(windows | take(MAILINGS, "replace"), MAILINGS)
    audit = shared_resource(windows, LISTING_AUDIT, take_audit, MAILINGS.name)
    audit.selected = settings.mailings
    yield audit


def shared_resource(pages: DltResource, table: Table, take: Callable[[Any], pa.Table | None], name: str) -> DltResource:
    """The transformer for a table that all listings share."""
    return described(pages | dlt.transformer(take, **hints(table, name), write_disposition="append"), table)


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
        "references": [reference] if table.listing and table.part != "row" else None,
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
        for column in (*table.columns, LOAD_ID)
    }


def read_pages(job: Job) -> Iterator[Item]:
    """The listing's rows once they are shown to be whole, then those of its facets.

    Raises:
        SettingsError: `add_limit` was set, which would make a part look like the whole, or the dataset holds rows that
            were chosen otherwise.
    """
    check_load(job, job.settings.mode)
    count = yield from read_listing(job, working_folder())
    report_ignored(job, count)
    for table in facets_of(job.name) if job.settings.facets else ():
        yield from read_facet(job, table, count)


def read_mailings(job: Job, days: dlt.sources.incremental[date]) -> Iterator[dict[str, Any]]:
    """The mailings of each window since the last load, each item with the day that it brings the mailings up to.

    Raises:
        SettingsError: no first day is set, or as for `read_pages`.
    """
    check_load(job, "merge")
    start: date | None = days.start_value
    if start is None:
        raise SettingsError(f"sources.letters.mailings_since is not set: {where_to_set('mailings_since')}.")
    end: date = days.end_value or datetime.now(UTC).date() + timedelta(days=1)
    windows = plan_windows(start, end, job.settings.mailings_window)
    for window in windows:
        day = min(window.last, end - timedelta(days=1))
        for item in read_window(job, window):
            yield {"day": day, "item": item}
        job.watch(job.name, 1, 1, len(windows))


def check_load(job: Job, mode: str) -> None:
    """See that the listing may be loaded to where the pipeline loads, before the service is asked for anything.

    Raises:
        SettingsError: a limit is set, the destination cannot merge, or the dataset holds rows of another choice.
    """
    if dlt.current.resource().limit:
        raise SettingsError(
            f"add_limit would load a part of {job.name} as if it were the whole, so it is refused; "
            "to try things out, load from the emulator: letters serve."
        )
    context = Container()[PipelineContext]
    if context.is_active() and mode != "replace" and is_files(context.pipeline()):
        raise SettingsError(
            f"{job.name}: plain files cannot be merged into, which {WORDS[mode]} needs; choose another destination."
        )
    check_selection(job)
    for status in unknown_statuses(job.filters):
        logger.warning("%s: last_mailed_status %s is not one of the documented %s", job.name, status, DOCUMENTED)


def is_files(pipeline: Any) -> bool:
    """Whether the destination is plain files; dlt appends to those where it is told to merge."""
    return bool(pipeline.destination.destination_type.endswith(".filesystem"))


def working_folder() -> Path | None:
    """The running pipeline's working folder: on a disk for data, which the system's folder for files may not be."""
    context = Container()[PipelineContext]
    return Path(context.pipeline().working_dir) if context.is_active() else None


def take_table(item: Item | dict[str, Any], table: Table, mode: Mode) -> pa.Table | None:
    """A table's part of what was read."""
    item = unwrapped(item)
    if isinstance(item, Rows) and table.part in ("row", "object", "list"):
        return stamped(with_hash(to_table(item.rows, table), table, mode))
    if isinstance(item, Members) and item.table == table.name:
        return stamped(with_hash(item.rows, table, mode))
    return None


def take_rejected(item: Item | dict[str, Any]) -> pa.Table | None:
    """The rows without a usable id; at the end an empty table, which sees to it that theirs exists."""
    item = unwrapped(item)
    if isinstance(item, Audit):
        return stamped(REJECTED_ROWS.schema.empty_table())
    if isinstance(item, Rows) and item.rows["id"].null_count:
        return stamped(to_rejected(item.rows, item.listing))
    return None


def take_audit(item: Item | dict[str, Any]) -> pa.Table | None:
    """The audit."""
    item = unwrapped(item)
    return stamped(item.row) if isinstance(item, Audit) else None


def unwrapped(item: Item | dict[str, Any]) -> Item:
    """The item itself where it comes with the day that dlt's incremental loading goes by."""
    inner: Item = item["item"] if isinstance(item, dict) else item
    return inner


def stamped(table: pa.Table) -> pa.Table:
    """The table as dlt shall see it: with the load that brought it, and JSON columns without any value left to dlt.

    dlt knows Arrow's text only and warns, batch by batch, that it keeps our hint of JSON; a column of nulls it takes as
    hinted. Outside a pipeline there is no load.
    """
    for index, field in enumerate(table.schema):
        if field.name in JSON_COLUMNS and table[index].null_count == table.num_rows:
            table = table.set_column(index, field.name, pa.nulls(table.num_rows))
    try:
        load_id = load_package_state()["load_id"]
    except CurrentLoadPackageStateNotAvailable:
        return table
    loads = pa.repeat(pa.scalar(load_id), table.num_rows)
    return table.append_column(pa.field(LOAD_ID.name, loads.type, nullable=False), loads)
