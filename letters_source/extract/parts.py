"""Read a listing in ranges, each into a Parquet file with the evidence of its range.

The folder may be a path, or the URL of a bucket for `pyarrow.fs`. A plan is in `contacts.json`, its files are in
`contacts/<plan>/`, so files of an earlier plan are never taken for those of a later one. Writing a range again
replaces its file.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TypeVar, cast
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from letters_source.decode.row_schema import Notes, row_schema, to_counter
from letters_source.errors import LoadFailed, SettingsError, UnusableFile
from letters_source.extract.listing import open_reader
from letters_source.extract.one_table import rows_of
from letters_source.extract.task import ListingRows, Task, selection_text
from letters_source.pagination.chain import read_range
from letters_source.pagination.evidence import Evidence, Range
from letters_source.pagination.ranges import plan_ranges
from letters_source.pagination.spool import Spool
from letters_source.pagination.verdicts import incomplete, keep_once
from letters_source.pagination.walk import begin_walk
from letters_source.pagination.windows import SMALLEST_PAGE, NotContinuous
from letters_source.service.listings import LISTINGS, SECTION
from letters_source.tables import REJECTED_ROWS, tables_of
from letters_source.wording import reason

T = TypeVar("T")
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
        try:
            files, path = FileSystem.from_uri(url)
        except pa.ArrowInvalid as error:
            raise SettingsError(f"{url} is not a folder for parts: {reason(error)}.", key=f"{SECTION}.parts") from None
        return cls(task, files, path.rstrip("/"), url.rstrip("/"))

    @property
    def plan_file(self) -> str:
        """The file of the plan."""
        return f"{self.folder}/{self.task.name}.json"

    def check_planned(self) -> None:
        """Raise SettingsError if no listing has a plan in the folder: then it is not the one that was planned for."""
        if not any(self.exists(f"{self.folder}/{listing}.json") for listing in LISTINGS):
            raise SettingsError(
                f"{self.url} has no plan of any listing",
                advice="plan one first, or set $parts to the folder with it.",
                key=f"{SECTION}.parts",
            )

    def plan(self) -> Plan | None:
        """Return the plan, or None if there is none; raise SettingsError if it selects other rows."""
        if not self.exists(self.plan_file):
            return None
        plan = self.decode(self.plan_file, Plan)
        if plan.selection != selection_text(self.task):
            raise SettingsError(
                f"{self.plan_file} was planned for another service, account, filters or privacy policies; "
                "plan again, or load with the same settings.",
                key=f"{SECTION}.parts",
            )
        return plan

    def file_of(self, plan: Plan, name: str) -> str:
        """Return the file of a part."""
        return f"{self.folder}/{self.task.name}/{plan.number}/{name}.parquet"

    def exists(self, path: str) -> bool:
        """Return whether there is a file, or raise `LoadFailed`."""
        try:
            return bool(self.files.get_file_info(path).type == FileType.File)
        except OSError as error:
            raise unreadable(path, error) from None

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self.files.open_input_file(path) as file:
            return bytes(file.read())

    def decode(self, path: str, kind: type[T]) -> T:
        """Return what a JSON file holds, or raise UnusableFile if it is missing or of another version."""
        try:
            return msgspec.json.decode(self.read(path), type=kind)
        except FileNotFoundError:
            raise UnusableFile(f"{path} is missing; write it again.", file=path) from None
        except OSError as error:
            raise unreadable(path, error) from None
        except msgspec.MsgspecError:
            raise UnusableFile(
                f"{path} is damaged, or was written by another version; write it again.", file=path
            ) from None

    def keep(self, paths: Collection[str]) -> None:
        """Delete all files in the folder but these."""
        for found in self.files.get_file_info(FileSelector(self.folder, recursive=True)):
            if found.type == FileType.File and found.path not in paths:
                self.files.delete_file(found.path)

    def remove(self) -> None:
        """Delete the folder, if there is one."""
        if self.files.get_file_info(self.folder).type == FileType.Directory:
            self.files.delete_dir(self.folder)

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """Write a file so that readers see all of it or nothing, or raise `LoadFailed`."""
        # buckets show a file only once it is whole
        draft = f"{path}.{uuid4().hex}" if isinstance(self.files, LocalFileSystem) else path
        try:
            self.files.create_dir(path.rpartition("/")[0])
            with self.files.open_output_stream(draft) as file:
                file.write(content)
            if draft != path:
                self.files.move(draft, path)
        except OSError as error:
            advice = "try again, or set $parts to another folder."
            raise LoadFailed(f"{path} cannot be written: {reason(error)}", advice=advice) from None


def check_proof(task: Task) -> None:
    """Raise SettingsError if the settings ask for more than parts can prove."""
    if task.settings.proof == "exact":
        raise SettingsError(
            f"{task.title}: parts cannot be proven exact",
            advice="set $proof to continuous, or load it as a whole.",
            key=f"{SECTION}.proof",
        )


def plan_listing(task: Task, number: int) -> list[Range]:
    """Return a number of ranges to read, after a look at the listing's first and last page."""
    check_proof(task)
    with open_reader(task) as (reader, _):
        walk = begin_walk(reader.read, task.title, 1)
    size = len(walk.readings[0].keys)
    if walk.last_page and size < SMALLEST_PAGE:
        raise SettingsError(
            f"{task.title}: pages of {size} rows are too small for ranges; load it as a whole.",
            key=f"{SECTION}.page_size",
        )
    # an empty listing has no page to measure
    return plan_ranges(walk.count, size or task.page_size.rows, number)


def store_plan(task: Task, folder: str, number: int) -> Plan:
    """Plan a number of ranges, and store the plan."""
    plan = Plan(uuid4().hex[:12], selection_text(task), tuple(plan_listing(task, number)))
    parts = Parts.of(task, folder)
    parts.write(parts.plan_file, msgspec.json.encode(plan))
    return plan


def write_part(task: Task, folder: str, place: int) -> Part:
    """Read the range at a place of the plan, and write its file; a file of the same range is replaced."""
    parts = Parts.of(task, folder)
    plan = parts.plan()
    if plan is None:
        raise UnusableFile(f"{parts.plan_file} is missing: plan first.", file=parts.plan_file)
    if not 0 <= place < len(plan.ranges):
        raise SettingsError(
            f"{parts.plan_file} has the parts 0 to {len(plan.ranges) - 1}, and no part {place}.", key="place"
        )
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


def part_in(parts: Parts, path: str) -> Part:
    """Return the part that a file holds, from its metadata."""
    try:
        metadata = pq.read_metadata(path, filesystem=parts.files).metadata
        return msgspec.json.decode(metadata[METADATA], type=Part, dec_hook=to_counter)
    except (pa.ArrowInvalid, KeyError, TypeError, msgspec.MsgspecError):
        raise UnusableFile(
            f"{path} is damaged, or was written by another version; read this part again.", file=path
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: Exception) -> LoadFailed:
    """Return the error for a part's file that a bucket does not return, or that is damaged inside."""
    return LoadFailed(f"{path} cannot be read: {reason(error)}; load again, or read this part again if it is damaged.")


def write_tables(parts: Parts, batches: Iterator[pa.RecordBatch]) -> list[tuple[str, str]]:
    """Write the rows of each table in staged rows into a file of its own, and return the files by table."""
    listing = parts.task.name
    tables = (*tables_of(listing), REJECTED_ROWS)
    paths = {table.name: f"{parts.folder}/{table.name}/{uuid4().hex}.parquet" for table in tables}
    with ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {}
        for table in tables:
            parts.files.create_dir(f"{parts.folder}/{table.name}")
            writer = pq.ParquetWriter(paths[table.name], table.schema, filesystem=parts.files)
            writers[table.name] = stack.enter_context(writer)
        for batch in batches:
            staged = ListingRows(listing, pa.Table.from_batches([batch]).cast(row_schema(listing)))
            for table in tables:
                writers[table.name].write_table(cast("pa.Table", rows_of(staged, table)))
    return list(paths.items())
