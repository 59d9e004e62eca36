"""Judge the parts of a listing together, read what is missing between them, and yield the rows to load."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from letters_source.decode.row_schema import RAW, Notes, row_schema
from letters_source.errors import ServiceRejected, UnusableFile
from letters_source.extract.audit import Outcome
from letters_source.extract.listing import check_outcome, finished, supersede_listed
from letters_source.extract.parts.reading import check_proof, read_into
from letters_source.extract.parts.storage import Part, Parts, Plan, part_in, unreadable
from letters_source.extract.past_end import check_linked
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.pagination.coding import Coded, count_displaced
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault, is_still
from letters_source.pagination.ranges import read_linked
from letters_source.pagination.reader import row_keys
from letters_source.pagination.readings import Reading
from letters_source.pagination.verdicts import incomplete, keep_once, linked_verdict
from letters_source.pagination.windows import NotContinuous
from letters_source.results import Audit


@dataclass(slots=True, eq=False)
class PartReader:
    """Reads ranges of a plan from their files, and what is missing between them from the service; keeps the files."""

    parts: Parts
    plan: Plan
    found: dict[Evidence, tuple[str, Part]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def read(self, ranges: Sequence[Range]) -> list[Evidence]:
        """Read ranges; see `ReadRanges`."""
        read = [self._read(part, place) for place, part in enumerate(ranges)]
        self.found.update((part.evidence, (path, part)) for path, part in read)
        return [part.evidence for _, part in read]

    def _read(self, part: Range, place: int) -> tuple[str, Part]:
        if not self.found:
            path = self.parts.file_of(self.plan, f"{place:04}")
            if not self.parts.exists(path):
                raise UnusableFile(
                    f"part {place} of {self.parts.plan_file} is missing: {path}; read it first.", file=path
                )
            return path, part_in(self.parts, path)
        path = self.parts.file_of(self.plan, f"mend-{next(self.numbers):04}")
        return path, read_into(self.parts, path, part)


@dataclass(frozen=True, slots=True)
class OutcomeOfParts(Outcome):
    """A complete listing that was read in parts; its verdict has one reading for each part."""

    parts: tuple[Part, ...] = ()

    @property
    def counts(self) -> list[int]:
        """The count of each window in the order of the listing, then those of the front, read again last."""
        front, *ranges = self.parts
        return [figures.count for part in (*ranges, front) for figures in part.evidence.windows]

    @property
    def pages(self) -> int:
        """The number of windows."""
        return len(self.counts)

    @property
    def page_size(self) -> int | None:
        """The most rows of a window; None if there is only one."""
        return max(each.rows for part in self.parts for each in part.evidence.windows) if self.pages > 1 else None

    @property
    def received(self) -> int:
        """The number of rows in all windows."""
        return sum(figures.rows for part in self.parts for figures in part.evidence.windows)


def planned_parts(task: Task) -> tuple[Parts, Plan] | None:
    """Return where the parts of a listing are, and their plan; None if the listing is not read in parts."""
    if not task.settings.parts:
        return None
    parts = Parts.of(task, task.settings.parts)
    parts.check_planned()
    plan = parts.plan()
    if not plan:
        return None
    check_proof(task)
    return parts, plan


def read_parts(parts: Parts, plan: Plan, audits: Sequence[Audit]) -> Generator[ListingRows | TableRows, None, int]:
    """Yield the rows of a complete listing in parts, then its audit; as `read_listing` does."""
    outcome, files = judge_parts(parts, plan)
    loaded = check_outcome(outcome, audits)
    for rows in tables_of_parts(parts, outcome, files):
        yield ListingRows(parts.task.listing.name, rows, supersede_listed(parts.task, rows["id"]))
    yield finished(outcome, loaded, audits)
    return outcome.count


def judge_parts(parts: Parts, plan: Plan) -> tuple[OutcomeOfParts, list[str]]:
    """Return the outcome of a listing in parts, and their files; read what is missing between them.

    Raise IncompleteListing if the parts do not prove that no row that stayed was missed.
    """
    reader, task = PartReader(parts, plan), parts.task
    started_at, start = datetime.now(UTC), monotonic()
    try:
        linked = read_linked(reader.read, plan.ranges)
        fault = None
    except (NotContinuous, ServiceRejected) as error:
        linked, fault = tuple(reader.found), str(error)
    files = [reader.found[evidence][0] for evidence in linked]
    read = tuple(reader.found[evidence][1] for evidence in linked)
    # the readers' clocks only decide which version of a row is loaded if two parts show it
    order = sorted(range(len(read)), key=lambda place: (read[place].started_at, place))
    readings = [reading_of(parts, *each) for each in zip(files, linked, np.argsort(order).tolist(), strict=True)]
    coded = Coded.of(readings)
    rows = coded.size
    fault = fault or find_fault(linked, Listed(rows, count_displaced([[reading] for reading in readings[1:]], coded)))
    if fault:
        raise incomplete(task.title, fault, readings)
    looked = check_linked(task, linked)
    keep = keep_once(coded, readings)
    verdict = linked_verdict(linked, len(plan.ranges), readings, keep, is_still=is_still(linked, rows))
    traffic = sum((part.traffic for part in read), looked)
    notes = sum((part.notes for part in read), Notes())
    started_at = min(part.started_at for part in read)
    seconds = sum(part.seconds for part in read) + monotonic() - start
    stated = next((part.stated for part in read if part.stated is not None), None)
    return OutcomeOfParts(task, verdict, notes, traffic, started_at, seconds, stated, read), files


def reading_of(parts: Parts, path: str, evidence: Evidence, tick: int) -> Reading:
    """Return a part as a reading: the keys of all its rows, and its newest count."""
    rows = rows_in(parts, path, columns=["id", RAW]).combine_chunks()
    keys = row_keys(rows)
    page, size = evidence.first.window
    return Reading(page, 1, evidence.count, keys, rows["id"].null_count, tick, tick, size)


def rows_in(parts: Parts, path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a part's file, or raise `LoadFailed`."""
    schema = row_schema(parts.task.listing.name)
    try:
        return pq.read_table(path, columns=columns, schema=schema, filesystem=parts.files)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def tables_of_parts(parts: Parts, outcome: Outcome, files: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows to load, in the order of the listing."""
    for path, rows in zip(files, outcome.verdict.keep, strict=True):
        table = rows_in(parts, path)
        yield table if np.all(rows) else table.filter(pa.array(np.broadcast_to(rows, table.num_rows)))
