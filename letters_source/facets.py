"""What can a listing be filtered by that its rows do not show? Each such filter becomes a table."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.audit import Audit, Loaded, Outcome, audit_row, report
from letters_source.evidence import NUL
from letters_source.extract import ask_count, walk
from letters_source.job import Job
from letters_source.listing import ADDRESS_STATUSES, LAST_MAILED_STATUSES, given, refined
from letters_source.tables import (
    CONTACTS__ADDRESS_STATUSES,
    CONTACTS__LAST_MAILED_STATUSES,
    CONTACTS__RETURN_ADDRESSES,
    TEMPLATES__SHARED,
    Table,
)
from letters_source.walk import Verdict

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


@dataclass(frozen=True, slots=True)
class Members:
    """Rows of a facet's table, or of the mailings, ready to be loaded."""

    table: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Answer:
    """What the listing gave for one value of a filter."""

    job: Job
    value: Any
    outcome: Outcome
    ids: pa.ChunkedArray


def read_facet(job: Job, table: Table, whole: int) -> Iterator[Members | Audit]:
    """The rows of a facet's table, and an audit of each value's walk.

    A filter that the service ignores would make a table of untruths: it is reported, and the table is left empty.

    Args:
        job: the listing that was read.
        table: the facet's table.
        whole: the listing's count.

    Raises:
        LettersError: as `read_listing` does.
    """
    facet = FACETS[table.name]
    answers = [read_value(replace(job, name=table.name), facet, value) for value in values_of(facet, job)]
    counts = [answer.outcome.count for answer in answers]
    ignored = is_ignored(job, facet, answers, whole)
    if ignored:
        logger.warning(
            "%s: the service gives all %d rows for every %s; it ignores that filter, so nothing is loaded",
            table.name,
            whole,
            facet.filter,
        )
    adds_up = sum(counts) == whole if len(counts) > 1 else None
    # also when there is no value to ask for: an empty table of the right types creates its table in the destination
    yield Members(table.name, table.schema.empty_table())
    for answer in answers:
        ids = answer.ids.slice(0, 0) if ignored else answer.ids
        yield Members(table.name, facet_rows(table, ids, answer.value))
        yield Audit(audit_row(answer.job, answer.outcome, loaded_ids(answer.outcome, ids, adds_up=adds_up)))


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


def read_value(job: Job, facet: Facet, value: Any) -> Answer:
    """The ids that the listing gives for one value."""
    asked = replace(narrowed(job, facet, value), detail=str(value))
    outcome = walk(asked)
    ids = kept_ids(outcome.verdict)
    report(asked, outcome, loaded_ids(outcome, ids))
    return Answer(asked, value, outcome, ids)


def narrowed(job: Job, facet: Facet, value: Any) -> Job:
    """The job for the rows of one value alone."""
    chosen = value if isinstance(value, bool) else (value,)
    return replace(job, filters=refined(job.filters, **{facet.filter: chosen}))


def kept_keys(verdict: Verdict) -> pa.ChunkedArray:
    """The keys of a listing that was shown to be whole."""
    keys = (
        reading.keys if rows is True else reading.keys.filter(pa.array(np.broadcast_to(rows, len(reading.keys))))
        for reading, rows in zip(verdict.readings, verdict.keep, strict=True)
    )
    return pa.chunked_array(keys, pa.string())


def kept_ids(verdict: Verdict) -> pa.ChunkedArray:
    """The ids of a listing that was shown to be whole; rows without one are left out."""
    keys = kept_keys(verdict)
    return keys.filter(pc.invert(pc.starts_with(keys, NUL)))


def loaded_ids(outcome: Outcome, ids: pa.ChunkedArray, *, mode: str = "", adds_up: bool | None = None) -> Loaded:
    """What became of a walk that was made for ids."""
    rejected = len(kept_keys(outcome.verdict)) - len(kept_ids(outcome.verdict))
    return Loaded(len(ids), rejected, mode=mode, adds_up=adds_up)


def is_ignored(job: Job, facet: Facet, answers: list[Answer], whole: int) -> bool:
    """Whether every value gives the whole listing, as it was when it was read or as it is now.

    A single value is compared with another one, asked for one row, unless the listing itself is filtered by it: then
    `report_ignored` has told.
    """
    counts = [answer.outcome.count for answer in answers]
    if len(counts) == 1 and 2 * counts[0] > whole and facet.filter not in given(job.filters):
        counts.append(ask_count(narrowed(job, facet, another(answers[0].value))))
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
