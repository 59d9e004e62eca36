"""Reads listings and mailings in hidden resources, and takes the rows of each table from them."""

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import NotRequired, TypedDict

import dlt
import pyarrow as pa
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state

from letters_source.compatibility import check_new_account, check_ours, check_selection
from letters_source.config.messages import unusable
from letters_source.decode.known import Known
from letters_source.decode.row_schema import DIGEST
from letters_source.destination.audits import finished_audits, open_held
from letters_source.destination.held_digests import held_digests
from letters_source.destination.kinds import running_place
from letters_source.destination.loaded_columns import check_whole
from letters_source.destination.modes import check_mode, has_delete_insert
from letters_source.destination.place import Place
from letters_source.errors import SettingsError
from letters_source.extract.audit import level
from letters_source.extract.facets import read_facet
from letters_source.extract.listing import read_listing
from letters_source.extract.mailings import (
    first_day,
    plan_mailings,
    read_date_ranges,
    read_or_warn,
    replaced_days,
)
from letters_source.extract.parts.joined import planned_parts, read_parts
from letters_source.extract.probe import report_ignored
from letters_source.extract.task import ListingRows, Superseded, TableRows, Task, storage_key
from letters_source.guarded_source import check_selected_resources, listing_of, only_changes
from letters_source.results import Audit
from letters_source.service.listings import LAST_MAILED_STATUSES, LISTINGS, meant, unknown_statuses
from letters_source.tables import (
    LISTING_AUDIT,
    LOAD_ID,
    MAILINGS,
    MERGE,
    REJECTED_ROWS,
    Mode,
    Table,
    WriteMode,
    facets_of,
    tables_of,
)
from letters_source.transform.flatten import accepted, to_rejected, to_table
from letters_source.transform.row_hash import listed_rows, with_hash

logger = logging.getLogger("letters_source")

Item = ListingRows | TableRows


class DatedItem(TypedDict):
    """An item of mailings, with the day by which dlt loads them incrementally."""

    day: NotRequired[date]
    item: Item


Yielded = Item | DatedItem
MOST_GATHERED = 100
"""The most windows of mailings in one item."""
NOTHING = TableRows("", MAILINGS.schema.empty_table())
"""An item that no table uses: yielding it lets every resource run its checks before the first request."""

DOCUMENTED = ", ".join(LAST_MAILED_STATUSES)


def read_pages(task: Task) -> Iterator[Item]:
    """Yield the listing's rows once they are shown to be complete, then those of its facets."""
    audits = check_load(task, task.settings.mode)
    yield NOTHING
    # unlike the system's temporary folder, the working directory is on a disk meant for data
    place = running_place()
    folder = place.working_dir if place else None
    planned = planned_parts(task)
    known = held_rows(place, task) if place and only_changes() else None
    count = yield from read_parts(*planned, audits) if planned else read_listing(task, folder, audits, known)
    report_ignored(task, count, is_first=not audits)
    for table in facets_of(task.name) if task.settings.facets else ():
        yield from read_facet(task, table, count, facet_audits(table))


def read_mailings(task: Task, days: dlt.sources.incremental[date]) -> Iterator[DatedItem]:
    """Yield the mailings of all date ranges since the last load, with the day up to which they are complete."""
    audits = check_load(task, MERGE)
    today = datetime.now(UTC).date()
    end: date = days.end_value or today + timedelta(days=1)
    if days.start_value is None:
        raise unusable("mailings_since", "is not set")
    # a backfill names both of its ends
    start = days.start_value if days.end_value else first_day(task, days.start_value, end, audits)
    # an empty table, so that it exists with the right types even if there is no day to request
    yield {"item": TableRows(LISTING_AUDIT.name, LISTING_AUDIT.schema.empty_table())}
    date_ranges = plan_mailings(task.settings, start, days.end_value, today)
    found = read_date_ranges(task, date_ranges, today)
    if task.settings.allow_failed_mailings and loads_listings():
        date_ranges, found = read_or_warn(task, date_ranges, found)
    yield {"item": TableRows(MAILINGS.name, replaced_days(date_ranges, today) if replace_or_merge() else NOTHING.rows)}
    # dlt takes 8 ms for an item, whatever its size
    while gathered := list(islice(found, MOST_GATHERED)):
        ranges, *tables = zip(*gathered, strict=True)
        # dlt drops items dated before its start value
        day = max(days.start_value, min(ranges[-1].last, end - timedelta(days=1)))
        for same in tables:
            yield {"day": day, "item": TableRows(same[0].table, pa.concat_tables([each.rows for each in same]))}


def replace_or_merge() -> bool:
    """Have dlt merge mailings by their key where it cannot replace days; return whether it replaces them."""
    place = running_place()
    if place and not has_delete_insert(place):
        dlt.current.source().resources[MAILINGS.name].apply_hints(write_disposition="merge")
        return False
    return place is not None


def loads_listings() -> bool:
    """Return whether the running load also reads a listing."""
    return running_place() is not None and any(
        listing_of(name) in LISTINGS for name in dlt.current.source().selected_resources
    )


def held_rows(place: Place, task: Task) -> Known:
    """Return the rows of a listing that a dataset holds."""
    with open_held(place) as client:
        return Known.of(held_digests(client, task.name), storage_key(task))


def check_load(task: Task, mode: WriteMode) -> list[Audit]:
    """Check that the listing may be loaded into the running pipeline's dataset, or raise `SettingsError`.

    Return the listing's audits from finished loads, newest first; none outside a load.
    """
    if dlt.current.resource().limit:
        raise SettingsError(
            f"add_limit is not supported: it would load part of {task.name} as if it were complete; "
            "to experiment, load from the emulator: letters serve.",
            key="max_items",
        )
    place = running_place()
    audits = check_dataset(place, task, mode) if place else []
    for status in unknown_statuses(task.filters):
        near = meant(status, LAST_MAILED_STATUSES)
        message = "%s: last_mailed_status %s is not one of the documented %s%s"
        # a dataset keeps its filters
        logger.log(level(is_news=not audits), message, task.name, status, DOCUMENTED, near)
    return audits


def check_dataset(place: Place, task: Task, mode: WriteMode) -> list[Audit]:
    """Check that a place's dataset accepts the listing, or raise `SettingsError`; return the listing's audits."""
    check_selected_resources(task.name, mode)
    check_mode(place, task.name, mode)
    facets = facets_of(task.name) if task.settings.facets else ()
    # what keeps rows of earlier loads
    keeping = () if mode == "replace" else (*(tables_of(task.name) or (MAILINGS,)), *facets)
    names = [table.name for table in (*keeping, REJECTED_ROWS, LISTING_AUDIT)]
    check_whole(place, dlt.current.source_schema(), names)
    with open_held(place) as client:
        audits = finished_audits(client, task.name)
        check_selection(client, place.dataset, task, audits)
        check_ours(client, place.dataset, facets)
    if not audits:
        check_new_account(place, task)
    return audits


def facet_audits(table: Table) -> list[Audit]:
    """Return the audits of a facet from finished loads into the running pipeline's dataset; none outside a load."""
    place = running_place()
    if not place:
        return []
    with open_held(place) as client:
        return finished_audits(client, table.name)


def take_table(item: Yielded, table: Table, mode: Mode = "replace") -> list[pa.Table] | pa.Table | None:
    """Return a table's rows from an item, and markers of the contacts or templates whose rows are superseded."""
    item = unwrapped(item)
    if isinstance(item, ListingRows):
        ids = superseded_in(table, item.superseded) if item.superseded else ()
        rows = [listed_rows(ids, table)] if len(ids) else []
        if table.origin != "facet" and (item.rows.num_rows or not rows):
            is_digested = table.origin == "row" and DIGEST.name in item.rows.column_names
            digests = accepted(item.rows)[DIGEST.name] if is_digested else None
            rows.append(with_hash(to_table(item.rows, table), table, mode, digests))
        return [stamped(each, table) for each in rows] or None
    if isinstance(item, TableRows) and item.table == table.name:
        return stamped(with_hash(item.rows, table, mode), table)
    return None


def superseded_in(table: Table, ids: Superseded) -> pa.StringArray:
    """Return the ids whose rows in a table are superseded, other than by a row of the same id."""
    if table.origin == "facet":
        return ids.listed
    return ids.gone if table.origin == "row" else pa.concat_arrays([ids.changed, ids.gone])


def take_rejected(item: Yielded) -> pa.Table | None:
    """Return the rows without a usable id; for the audit, an empty table, so that `rejected_rows` always exists."""
    item = unwrapped(item)
    if isinstance(item, TableRows) and item.table == LISTING_AUDIT.name:
        return stamped(REJECTED_ROWS.schema.empty_table(), REJECTED_ROWS)
    if isinstance(item, ListingRows) and item.rows["id"].null_count:
        return stamped(to_rejected(item.rows, item.listing), REJECTED_ROWS)
    return None


def take_audit(item: Yielded) -> pa.Table | None:
    """Return the audit's row; None for other items."""
    item = unwrapped(item)
    is_audit = isinstance(item, TableRows) and item.table == LISTING_AUDIT.name
    return stamped(item.rows, LISTING_AUDIT) if is_audit else None


def unwrapped(item: Yielded) -> Item:
    """Return the item without its day."""
    return item["item"] if isinstance(item, dict) else item


def stamped(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows with the load id; unchanged outside a pipeline."""
    try:
        load_id = load_package_state()["load_id"]
    except CurrentLoadPackageStateNotAvailable:
        return rows
    loads = pa.repeat(pa.scalar(load_id), rows.num_rows)
    loaded = rows.append_column(pa.field(LOAD_ID.name, loads.type, nullable=False), loads)
    place = running_place()
    return with_descriptions(loaded, table) if place and place.kind.has_schema_metadata else loaded


def with_descriptions(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows with the descriptions of the table and its columns in the metadata of their Arrow schema."""
    metadata = {column.name: {"description": column.description} for column in table.loaded}
    fields = [field.with_metadata(metadata.get(field.name)) for field in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields, {"description": table.description}))
