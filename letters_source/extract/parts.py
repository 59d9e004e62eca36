"""Read a listing in ranges, each into a Parquet file with the evidence of its range; judge and load the files together.

The folder may be a path, or the URL of a bucket for `pyarrow.fs`. A plan is in `contacts.json`, its files are in
`contacts/<plan>/`, so files of an earlier plan are never taken for those of a later one. Writing a range again
replaces its file.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, FileType, LocalFileSystem

from letters_source.decode.row_schema import RAW, Notes, row_schema
from letters_source.errors import ServiceRejected, SettingsError
from letters_source.extract.audit import Outcome
from letters_source.extract.listing import open_reader, yield_rows
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.pagination.chain import read_range
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault, is_still
from letters_source.pagination.ranges import plan_ranges, read_linked
from letters_source.pagination.reader import row_keys
from letters_source.pagination.readings import Reading, count_strays, distinct_keys
from letters_source.pagination.spool import Spool
from letters_source.pagination.verdicts import Verdict, incomplete, keep_once
from letters_source.pagination.walk import begin_walk
from letters_source.pagination.windows import SMALLEST_PAGE, NotContinuous
from letters_source.service.listings import given
from letters_source.service.network import service_of

METADATA = b"letters"
"""The key of a part's figures in its file's metadata, so that rows and evidence are written at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges of a listing, and what selects its rows: parts of another selection must not be loaded."""

    number: str
    selection: str
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A range that was read: its evidence, what decoding noticed, and what it took."""

    evidence: Evidence
    notes: Notes
    traffic: Counter[str]
    rows: int
    started_at: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of a listing are."""

    task: Task
    files: FileSystem
    folder: str
    url: str

    @classmethod
    def of(cls, task: Task, folder: str) -> "Parts":
        """Return where the parts of a listing are, or will be."""
        url = folder if "://" in folder else Path(folder).absolute().as_uri()
        files, path = FileSystem.from_uri(url)
        return cls(task, files, path.rstrip("/"), url.rstrip("/"))

    @property
    def plan_file(self) -> str:
        """The file of the plan."""
        return f"{self.folder}/{self.task.name}.json"

    def plan(self) -> Plan | None:
        """Return the plan, or None if there is none; raise SettingsError if it selects other rows."""
        if not self.exists(self.plan_file):
            return None
        plan = msgspec.json.decode(self.read(self.plan_file), type=Plan)
        if plan.selection != selection_of(self.task):
            raise SettingsError(
                f"{self.plan_file} was planned for another service, account, filters or privacy policies; "
                "plan again, or load with the same settings."
            )
        return plan

    def file_of(self, plan: Plan, name: str) -> str:
        """Return the file of a part."""
        return f"{self.folder}/{self.task.name}/{plan.number}/{name}.parquet"

    def exists(self, path: str) -> bool:
        """Return whether there is a file."""
        return bool(self.files.get_file_info(path).type == FileType.File)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self.files.open_input_file(path) as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """Write a file so that readers see all of it or nothing."""
        # buckets show a file only once it is whole
        draft = f"{path}.{uuid4().hex}" if isinstance(self.files, LocalFileSystem) else path
        self.files.create_dir(path.rpartition("/")[0])
        with self.files.open_output_stream(draft) as file:
            file.write(content)
        if draft != path:
            self.files.move(draft, path)


def selection_of(task: Task) -> str:
    """Return what selects a listing's rows and treats them, as text."""
    settings = task.settings
    service, filters = service_of(settings.base_url), {**given(task.filters), "account_id": task.filters.account_id}
    return repr((service, sorted(filters.items()), settings.privacy.recorded, settings.environment))


def plan_listing(task: Task, number: int) -> list[Range]:
    """Return a number of ranges to read, after a look at the listing's first and last page."""
    with open_reader(task) as (reader, _):
        walk = begin_walk(reader.read, task.title, 1)
    size = len(walk.readings[0].keys)
    if walk.last_page and size < SMALLEST_PAGE:
        raise SettingsError(f"{task.title}: pages of {size} rows are too small for ranges; load it as a whole.")
    return plan_ranges(walk.count, size, number)


def plan_parts(task: Task, folder: str, number: int) -> Plan:
    """Plan a number of ranges, and store the plan."""
    plan = Plan(uuid4().hex[:12], selection_of(task), tuple(plan_listing(task, number)))
    parts = Parts.of(task, folder)
    parts.write(parts.plan_file, msgspec.json.encode(plan))
    return plan


def write_part(task: Task, folder: str, place: int) -> Part:
    """Read the range at a place of the plan, and write its file; a file of the same range is replaced."""
    parts = Parts.of(task, folder)
    plan = parts.plan()
    if plan is None:
        raise SettingsError(f"{parts.plan_file} is missing: plan first.")
    return read_into(parts, parts.file_of(plan, f"{place:04}"), plan.ranges[place])


def read_into(parts: Parts, path: str, part: Range) -> Part:
    """Read a range into a file, each row once, as it was read last."""
    started_at, start = datetime.now(UTC), monotonic()
    schema = row_schema(parts.task.listing.name)
    with Spool(schema) as spool, open_reader(parts.task, spool) as (reader, traffic):
        try:
            evidence, shown = read_range(reader.read, part, 1)
        except NotContinuous as error:
            raise incomplete(parts.task.title, str(error), reader.readings) from None
        keep = keep_once(reader.readings, shown)
        wanted = [(number, rows) for number, rows in enumerate(keep) if np.any(rows)]
        notes = sum((reader.notes[number] for number, _ in wanted), Notes())
        rows_in = sum(int(np.sum(np.broadcast_to(rows, len(reader.readings[number].keys)))) for number, rows in wanted)
        done = Part(evidence, notes, traffic, rows_in, started_at, monotonic() - start)
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, schema) as writer:
            for rows in spool.tables(wanted):
                writer.write_table(rows)
            writer.add_key_value_metadata({METADATA: msgspec.json.encode(done)})
    parts.write(path, sink.getvalue())
    return done


@dataclass(frozen=True, slots=True)
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
                raise SettingsError(f"part {place} of {self.parts.plan_file} is missing: {path}; read it first.")
            return path, part_in(self.parts, path)
        path = self.parts.file_of(self.plan, f"mend-{next(self.numbers):04}")
        return path, read_into(self.parts, path, part)


def part_in(parts: Parts, path: str) -> Part:
    """Return what a file says of its range."""
    metadata = pq.read_metadata(path, filesystem=parts.files).metadata
    return msgspec.json.decode(metadata[METADATA], type=Part, dec_hook=to_counter)


def to_counter(kind: type[Counter[str]], value: dict[str, int]) -> Counter[str]:
    """Return a JSON object as a `Counter`, the only type of a part that msgspec does not know."""
    return kind(value)


@dataclass(frozen=True, slots=True)
class OutcomeOfParts(Outcome):
    """A complete listing that was read in parts; a reading of its verdict stands for a part."""

    parts: tuple[Part, ...] = ()

    @property
    def counts(self) -> list[int]:
        """The count of each window in the order of the listing, and that of the front, which was read last."""
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


def read_parts(
    parts: Parts, plan: Plan, audits: Sequence[Mapping[str, Any]]
) -> Generator[ListingRows | TableRows, None, int]:
    """Yield the rows of a complete listing in parts, then its audit; as `read_listing` does."""
    outcome, files = judge_parts(parts, plan)
    return (yield from yield_rows(outcome, tables_of_parts(parts, outcome, files), audits))


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
    # which version of a row that two parts show is loaded depends on the clocks of who read them, and nothing else
    order = sorted(range(len(read)), key=lambda place: (read[place].started_at, place))
    readings = [reading_of(parts, *each) for each in zip(files, linked, np.argsort(order).tolist(), strict=True)]
    rows = distinct_keys(readings)
    fault = fault or find_fault(linked, Listed(rows, count_strays([[reading] for reading in readings[1:]])))
    if fault:
        raise incomplete(task.title, fault, readings)
    mended, overlap = sum(one.mended for one in linked), max(one.overlap for one in linked)
    keep = keep_once(readings, readings)
    verdict = Verdict("stable" if is_still(linked, rows) else "continuous", tuple(readings), keep, mended, overlap)
    traffic = sum((part.traffic for part in read), Counter())
    notes = sum((part.notes for part in read), Notes())
    started_at = min(part.started_at for part in read)
    seconds = sum(part.seconds for part in read) + monotonic() - start
    return OutcomeOfParts(task, verdict, notes, traffic, started_at, seconds, read), files


def reading_of(parts: Parts, path: str, evidence: Evidence, tick: int) -> Reading:
    """Return a part as a reading: the keys of all its rows, and its newest count."""
    rows = pq.read_table(path, columns=["id", RAW], filesystem=parts.files).combine_chunks()
    keys = row_keys(rows)
    page, size = evidence.first.window
    return Reading(page, 1, evidence.count, keys, rows["id"].null_count, tick, tick, size)


def tables_of_parts(parts: Parts, outcome: Outcome, files: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows to load, in the order of the listing."""
    for path, rows in zip(files, outcome.verdict.keep, strict=True):
        table = pq.read_table(path, schema=row_schema(parts.task.listing.name), filesystem=parts.files)
        yield table if np.all(rows) else table.filter(pa.array(np.broadcast_to(rows, table.num_rows)))
