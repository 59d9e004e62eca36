"""What can a listing be filtered by that its rows do not show? Each such filter becomes a table."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.errors import ServiceRejected
from letters_source.extract.audit import Audit, Loaded, audit_row
from letters_source.extract.ids import Members, read_ids
from letters_source.extract.probe import ask_count
from letters_source.extract.task import Job
from letters_source.service.listings import ADDRESS_STATUSES, LAST_MAILED_STATUSES, NOBODY, given, refined
from letters_source.tables import (
    CONTACTS__ADDRESS_STATUSES,
    CONTACTS__LAST_MAILED_STATUSES,
    CONTACTS__RETURN_ADDRESSES,
    TEMPLATES__SHARED,
    Table,
)

DOCUMENTED_STATUSES = (*ADDRESS_STATUSES, *LAST_MAILED_STATUSES)

logger = logging.getLogger("letters_source")


@dataclass(frozen=True, slots=True)
class Facet:
    """A filter, and the values to ask for; without values, those of the settings."""

    filter: str
    values: tuple[Any, ...] = ()


FACETS = {
    TEMPLATES__SHARED.name: Facet("is_shared", (True, False)),
    CONTACTS__ADDRESS_STATUSES.name: Facet("address_status", ADDRESS_STATUSES),
    CONTACTS__LAST_MAILED_STATUSES.name: Facet("last_mailed_status"),
    CONTACTS__RETURN_ADDRESSES.name: Facet("is_return_address", (True,)),
}


def read_facet(job: Job, table: Table, whole: int) -> Iterator[Members | Audit]:
    """The rows of a facet's table, and an audit of each value's walk.

    A filter or a value that the service ignores would make a table of untruths: it is reported, and not loaded.

    Args:
        job: the listing that was read.
        table: the facet's table.
        whole: the listing's count.

    Raises:
        LettersError: as `read_listing` does.
    """
    facet = FACETS[table.name]
    values = values_of(facet, job)
    asked = (narrowed(replace(job, name=table.name, detail=str(value)), facet, value) for value in values)
    answers = [read_ids(each) for each in asked]
    counts = [found.outcome.count for found in answers]
    ignored = ignored_values(job, facet, dict(zip(values, counts, strict=True)), whole)
    if ignored:
        logger.warning(
            "%s: the service gives all %d rows for %s %s; it ignores that, so nothing is loaded for it",
            table.name,
            whole,
            facet.filter,
            ", ".join(map(str, ignored)),
        )
    members = [
        found.ids.slice(0, 0) if value in ignored else found.ids for value, found in zip(values, answers, strict=True)
    ]
    # where the value is no part of the key
    if len(table.key) == 1:
        members = each_once(members)
    adds_up = sum(counts) == whole if len(counts) > 1 else None
    # also when there is no value to ask for: an empty table of the right types creates its table in the destination
    yield Members(table.name, table.schema.empty_table())
    for value, found, ids in zip(values, answers, members, strict=True):
        yield Members(table.name, facet_rows(table, ids, value))
        yield Audit(audit_row(found.job, found.outcome, Loaded(len(ids), found.rejected, adds_up=adds_up)))


def values_of(facet: Facet, job: Job) -> tuple[Any, ...]:
    """The values to ask for; where the listing is filtered by the same filter, those of its values that there are."""
    values = facet.values or job.settings.last_mailed_statuses
    chosen = given(job.filters).get(facet.filter)
    if isinstance(chosen, list):
        values = tuple(chosen)
    elif chosen is not None:
        values = tuple(value for value in values if value == chosen)
    # each once: a status that is set twice would tell its contacts twice
    return tuple(dict.fromkeys(values))


def narrowed(job: Job, facet: Facet, value: Any) -> Job:
    """The job for the rows of one value alone."""
    chosen = value if isinstance(value, bool) else (value,)
    return replace(job, filters=refined(job.filters, **{facet.filter: chosen}))


def ignored_values(job: Job, facet: Facet, counted: Mapping[Any, int], whole: int) -> list[Any]:
    """The values that the service does not heed: all of them, or single ones.

    A single one gives the whole listing. An undocumented status is compared with one that nobody has, as all rows may
    really have it, unless the listing itself is filtered so; a flag is asked for again where others have rows, too, as
    one more may have come meanwhile.
    """
    if is_ignored(job, facet, counted, whole):
        return list(counted)
    suspects = [value for value, count in counted.items() if 2 * count > whole and value not in DOCUMENTED_STATUSES]
    if sum(counted.values()) <= whole:
        is_chosen = facet.filter in given(job.filters)
        suspects = [value for value in suspects if isinstance(value, str) and counted[value] == whole and not is_chosen]
    return [value for value in suspects if gives_all(job, facet, NOBODY if isinstance(value, str) else value)]


def gives_all(job: Job, facet: Facet, value: Any) -> bool:
    """Whether a value gives the whole listing, as it is now."""
    try:
        return ask_count(narrowed(job, facet, value)) == ask_count(job)
    except ServiceRejected:
        return False


def each_once(found: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Each id where it was found last: a row may have changed its value between the walks."""
    newest: list[pa.ChunkedArray] = []
    for ids in reversed(found):
        later = pa.chunked_array([chunk for kept in newest for chunk in kept.chunks], pa.string())
        newest.append(ids.filter(pc.invert(pc.is_in(ids, later))))
    return newest[::-1]


def is_ignored(job: Job, facet: Facet, counted: Mapping[Any, int], whole: int) -> bool:
    """Whether every value gives the whole listing, as it was when it was read or as it is now.

    A single value is compared with another one, asked for one row, unless the listing itself is filtered by it: then
    `report_ignored` has told.
    """
    counts = list(counted.values())
    if len(counts) == 1 and 2 * counts[0] > whole and facet.filter not in given(job.filters):
        counts.append(ask_count(narrowed(job, facet, another(next(iter(counted))))))
    # values exclude each other: where they are heeded, no two of them have more than half of the rows each
    if len(counts) < 2 or 2 * min(counts) <= whole:
        return False
    few, many = sorted((whole, whole if set(counts) == {whole} else ask_count(job)))
    return all(few <= count <= many for count in counts)


def another(value: Any) -> Any:
    """A value that a row of this one does not have."""
    return not value if isinstance(value, bool) else next(status for status in LAST_MAILED_STATUSES if status != value)


def facet_rows(table: Table, ids: pa.ChunkedArray, value: Any) -> pa.Table:
    """The facet's rows: an id each, and the value where the table has a column for it."""
    values = [pa.repeat(pa.scalar(value, field.type), len(ids)) for field in list(table.schema)[1:]]
    return pa.Table.from_arrays([ids, *values], schema=table.schema)
