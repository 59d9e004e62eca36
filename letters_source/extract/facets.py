"""Read facets: tables of the ids that match each value of a filter, for properties that rows do not contain."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.errors import ServiceRejected
from letters_source.extract.audit import audit_row, level
from letters_source.extract.listing import read_ids
from letters_source.extract.probe import count_listing
from letters_source.extract.task import TableRows, Task
from letters_source.results import Audit
from letters_source.service.listings import ADDRESS_STATUSES, LAST_MAILED_STATUSES, NOBODY, given
from letters_source.tables import (
    CONTACTS__ADDRESS_STATUSES,
    CONTACTS__LAST_MAILED_STATUSES,
    CONTACTS__RETURN_ADDRESSES,
    TEMPLATES__SHARED,
    Table,
)

logger = logging.getLogger("letters_source")

DOCUMENTED_STATUSES = (*ADDRESS_STATUSES, *LAST_MAILED_STATUSES)
Value = str | bool
"""A value of a filter."""
FACETS: Mapping[str, tuple[str, tuple[Value, ...]]] = {
    TEMPLATES__SHARED.name: ("is_shared", (True, False)),
    CONTACTS__ADDRESS_STATUSES.name: ("address_status", ADDRESS_STATUSES),
    CONTACTS__LAST_MAILED_STATUSES.name: ("last_mailed_status", ()),
    CONTACTS__RETURN_ADDRESSES.name: ("is_return_address", (True,)),
}
"""Each facet's filter and the values to ask for; without values, those of the settings."""


def read_facet(task: Task, table: Table, whole: int, audits: Sequence[Audit] = ()) -> Iterator[TableRows]:
    """Yield a facet's rows and an audit for each value; a value that the service ignores has no rows.

    Ignored values are a warning, unless the last load's audits (newest first) show as many.
    """
    name, values = FACETS[table.name]
    found = {
        value: read_ids(narrowed(replace(task, name=table.name, detail=str(value)), name, value))
        for value in chosen_values(task, name, values or task.settings.last_mailed_statuses)
    }
    counts = {value: outcome.count for value, (outcome, _) in found.items()}
    ignored = ignored_values(task, name, counts, whole)
    if ignored:
        message = "%s: the service returns all %d rows for %s %s; it ignores the filter, so nothing is loaded for it"
        is_news = len(ignored) > ignored_before(audits)
        logger.log(level(is_news=is_news), message, table.name, whole, name, ", ".join(map(str, ignored)))
    members = {value: ids.slice(0, 0) if value in ignored else ids for value, (_, ids) in found.items()}
    # the value is not part of the key, so an id may have only one
    if len(table.key) == 1:
        members = newest_values(members)
    adds_up = sum(counts.values()) == whole if len(counts) > 1 else None
    # an empty table with the right types creates the destination's table, even if there is no value to ask for
    yield TableRows(table.name, table.schema.empty_table())
    for value, (outcome, _) in found.items():
        ids = members[value]
        yield TableRows(table.name, facet_rows(table, ids, value))
        yield audit_row(outcome, len(ids), adds_up=adds_up)


def ignored_before(audits: Sequence[Audit]) -> int:
    """Return how many values of a facet the service ignored in the last load."""
    last = [audit for audit in audits if audit["_dlt_load_id"] == audits[0]["_dlt_load_id"]]
    return sum(bool(audit["count_last"]) and not audit["rows_yielded"] for audit in last)


def chosen_values(task: Task, name: str, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the values to ask for, each once; fewer if the task itself filters by the same filter."""
    chosen = given(task.filters).get(name)
    if isinstance(chosen, list):
        values = tuple(chosen)
    elif chosen is not None:
        values = tuple(value for value in values if value == chosen)
    return tuple(dict.fromkeys(values))


def narrowed(task: Task, name: str, value: Value) -> Task:
    """Return the task for the rows with one value of a filter."""
    return task.narrowed(**{name: value if isinstance(value, bool) else (value,)})


def ignored_values(task: Task, name: str, counts: Mapping[Value, int], whole: int) -> list[Value]:
    """Return the values that the service does not honor: all of them, or those that return the whole listing."""
    if is_ignored(task, name, counts, whole):
        return list(counts)
    suspects = [value for value, count in counts.items() if 2 * count > whole and value not in DOCUMENTED_STATUSES]
    if sum(counts.values()) <= whole:
        is_chosen = name in given(task.filters)
        suspects = [value for value in suspects if isinstance(value, str) and counts[value] == whole and not is_chosen]
    # every row may really have this status, so probe a made-up one; flags are probed again, in case a row was added
    return [value for value in suspects if returns_all(task, name, NOBODY if isinstance(value, str) else value)]


def returns_all(task: Task, name: str, value: Value) -> bool:
    """Return whether the filter value now has the same count as the listing."""
    try:
        return count_listing(narrowed(task, name, value)) == count_listing(task)
    except ServiceRejected:
        return False


def is_ignored(task: Task, name: str, counts: Mapping[Value, int], whole: int) -> bool:
    """Return whether each value returns the whole listing: as many rows as it had when it was read, or has now."""
    seen = list(counts.values())
    # compare a single value with another one; if the task filters by it, `report_ignored` has already warned
    if len(seen) == 1 and 2 * seen[0] > whole and name not in given(task.filters):
        seen.append(count_listing(narrowed(task, name, another(next(iter(counts))))))
    # values exclude each other: if they are honored, at most one of them has more than half of the rows
    if len(seen) < 2 or 2 * min(seen) <= whole:
        return False
    few, many = sorted((whole, whole if set(seen) == {whole} else count_listing(task)))
    return all(few <= count <= many for count in seen)


def another(value: Value) -> Value:
    """Return a value that excludes the given one."""
    return not value if isinstance(value, bool) else next(status for status in LAST_MAILED_STATUSES if status != value)


def newest_values(found: dict[Value, pa.ChunkedArray]) -> dict[Value, pa.ChunkedArray]:
    """Return each id only under the value read last: a row may have changed its value between two passes."""
    newest: dict[Value, pa.ChunkedArray] = {}
    for value, ids in reversed(found.items()):
        later = pa.chunked_array([chunk for kept in newest.values() for chunk in kept.chunks], pa.string())
        newest[value] = ids.filter(pc.invert(pc.is_in(ids, later)))
    return newest


def facet_rows(table: Table, ids: pa.ChunkedArray, value: Value) -> pa.Table:
    """Return the facet's rows: an id each, and the value if the table has a column for it."""
    values = [pa.repeat(pa.scalar(value, field.type), len(ids)) for field in list(table.schema)[1:]]
    return pa.Table.from_arrays([ids, *values], schema=table.schema)
