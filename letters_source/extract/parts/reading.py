"""Read a listing in ranges, each into a file with the evidence of its range."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from time import monotonic
from typing import cast
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from letters_source.decode.row_schema import Notes, row_schema
from letters_source.errors import SettingsError, UnusableFile, WrongCount
from letters_source.extract.listing import open_reader
from letters_source.extract.one_table import rows_of
from letters_source.extract.parts.storage import METADATA, Part, Parts, Plan
from letters_source.extract.task import ListingRows, Task, selection_digest
from letters_source.pagination.chain import evidence_of, read_range
from letters_source.pagination.coding import Coded
from letters_source.pagination.evidence import Range
from letters_source.pagination.ranges import plan_ranges
from letters_source.pagination.spool import Spool
from letters_source.pagination.verdicts import incomplete, keep_once
from letters_source.pagination.walk import begin_walk
from letters_source.pagination.windows import SMALLEST_PAGE, NotContinuous, PastCount, moved_row
from letters_source.service.listings import SECTION
from letters_source.tables import REJECTED_ROWS, tables_of


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
    name = uuid4().hex[:12]
    plan = Plan(name, selection_digest(task, name), tuple(plan_listing(task, number)))
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
    with Spool(schema) as spool, open_reader(parts.task, spool, rows=part.count) as (reader, traffic):
        try:
            chain = read_range(reader.read, part, 1)
        except PastCount as error:
            count = reader.readings[-1].count
            raise WrongCount(parts.task.title, str(error), count=count, received=error.rows, walks=1) from None
        except NotContinuous as error:
            raise incomplete(parts.task.title, str(error), reader.readings) from None
        shown, coded = chain.readings(), Coded.of(reader.readings)
        evidence, keep = evidence_of(chain, moved_row(shown, coded)), keep_once(coded, shown)
        wanted = [(number, rows) for number, rows in enumerate(keep) if np.any(rows)]
        notes = sum((reader.notes[number] for number, _ in wanted), Notes())
        rows_in = sum(int(np.sum(np.broadcast_to(rows, len(reader.readings[number].keys)))) for number, rows in wanted)
        stated = reader.end.stated if reader.end else None
        done = Part(evidence, notes, traffic, rows_in, started_at, monotonic() - start, stated)
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, schema) as writer:
            for rows in spool.tables(wanted):
                writer.write_table(rows)
            writer.add_key_value_metadata({METADATA: msgspec.json.encode(done)})
    parts.write(path, sink.getvalue())
    return done


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
