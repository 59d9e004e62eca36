"""Saves the windows of a listing to a file as they are read, so that a later load can continue after a crash.

The file is private. It consists of records, each with a digest; what follows the last whole record is cut off. The
first record tells when reading began, and by a digest which settings and version the rows depend on.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from pathlib import Path
from struct import Struct
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from letters_source.decode.known import Known
from letters_source.decode.row_schema import DIGEST, Notes, row_schema, to_counter
from letters_source.extract.task import Task, selection_digest, storage_key
from letters_source.pagination.reader import PageReader
from letters_source.pagination.readings import Reading, Window, all_keys
from letters_source.pagination.resumption import EARLIER, ReadAgain, continue_pass
from letters_source.pagination.spool import Spool
from letters_source.pagination.verdicts import Verdict
from letters_source.results import Audit

logger = logging.getLogger("letters_source")

FRAME = Struct("<QQ16s")
"""The start of a record: how long its figures and its rows are, and a digest of both."""
# destinations may store times less precisely
PRECISION = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Origin:
    """When reading a listing began, and a digest of what its saved rows depend on."""

    started_at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class SavedWindow:
    """A saved response without its decoded rows, and what decoding noticed."""

    page: int
    size: int
    count: int
    asked: int
    answered: int
    notes: Notes
    places: list[int] | None  # as in `Reading`


@dataclass(slots=True)
class SavedWindows:
    """The file with the windows of a listing, those of an earlier load first."""

    file: BinaryIO
    schema: pa.Schema
    origin: Origin
    known: Known | None = None
    readings: dict[Window, Reading] = field(default_factory=dict)
    places: dict[Window, tuple[int, int, Notes]] = field(default_factory=dict)

    def restore(self, records: Iterator[tuple[bytes, int, bytes]]) -> None:
        """Take the windows that an earlier load has saved."""
        for record, start, rows in records:
            figures = msgspec.msgpack.decode(record, type=SavedWindow, dec_hook=to_counter)
            ids = pa.ipc.read_record_batch(pa.py_buffer(rows), self.schema)["id"]
            # a copy, as Arrow would keep all rows in memory for the sake of their ids
            keys = pa.array(ids.to_pylist(), pa.string())
            places = None if figures.places is None else np.array(figures.places, np.int32)
            if self.known and places is not None:
                keys = all_keys(self.known.ids, places, keys)
            times = figures.asked, figures.answered
            reading = Reading(figures.page, EARLIER, figures.count, keys, 0, *times, figures.size, places=places)
            self.readings.setdefault(reading.window, reading)
            self.places.setdefault(reading.window, (start, len(rows), figures.notes))

    def save(self, reading: Reading, rows: pa.Buffer, notes: Notes) -> None:
        """Add a window of the first pass; the text of a row without an id may be personal, so such windows are not."""
        if reading.walk == 1 and reading.size and not reading.rejected:
            place = reading.page, reading.size, reading.count
            places = None if reading.places is None else reading.places.tolist()
            self._write(SavedWindow(*place, reading.asked, reading.answered, notes, places), rows)

    @property
    def rows_counted(self) -> int:
        """The largest count of the saved windows; 0 if there are none."""
        return max((reading.count for reading in self.readings.values()), default=0)

    def clock(self) -> Iterator[int]:
        """Return a clock that goes on after the saved windows."""
        return count(1 + max((reading.answered for reading in self.readings.values()), default=-1))

    def rows(self, window: Window) -> pa.Buffer:
        """Return the serialized rows of a saved window."""
        start, size, _ = self.places[window]
        self.file.seek(start)
        return pa.py_buffer(self.file.read(size))

    def clear(self) -> None:
        """Remove all windows, and note that reading begins now."""
        self.readings, self.places = {}, {}
        self.file.truncate(0)
        self.origin = Origin(datetime.now(UTC), self.origin.state)
        self._write(self.origin, pa.py_buffer(b""))

    def _write(self, figures: Origin | SavedWindow, rows: pa.Buffer) -> None:
        encoded = msgspec.msgpack.encode(figures)
        # writes append, wherever the file was read last
        self.file.write(FRAME.pack(len(encoded), rows.size, digest_of(encoded, rows)))
        self.file.write(encoded)
        self.file.write(rows)
        self.file.flush()


@dataclass(frozen=True, slots=True)
class Reused:
    """Saved windows, as a pass over the listing uses them."""

    saved: SavedWindows
    reader: PageReader
    spool: Spool

    @property
    def readings(self) -> Mapping[Window, Reading]:
        """The responses."""
        return self.saved.readings

    def shows(self, again: Reading) -> bool:
        """Return whether a saved window has the rows and the count of the newest response."""
        batch = pa.ipc.read_record_batch(self.saved.rows(again.window), self.saved.schema)
        saved = self.readings[again.window]
        is_same = saved.count == again.count and saved.keys.equals(again.keys)
        return is_same and batch.equals(self.spool.read(len(self.reader.readings) - 1))

    def reuse(self, window: Window) -> Reading:
        """Add a saved window to what was read."""
        return self.reader.keep(self.readings[window], self.saved.rows(window), self.saved.places[window][2])


def saved_file(working_dir: Path, listing: str) -> Path:
    """Return where a listing's windows are saved: next to the pipeline's working directory, which each load empties."""
    return working_dir.with_name(f"{working_dir.name}.{listing}.pages")


@contextmanager
def open_saved(task: Task, path: Path, audits: Sequence[Audit], known: Known | None = None) -> Iterator[SavedWindows]:
    """Open a listing's file, with the windows of an earlier load if this load can use them; log why if it cannot."""
    with open(path, "a+b", opener=private) as file:
        schema, origin = row_schema(task.listing.name), Origin(datetime.now(UTC), state_of(task, known))
        saved = SavedWindows(file, schema.append(DIGEST) if known else schema, origin, known)
        records = read_records(file)
        first, *_ = next(records, (b"",))
        reason = why_unusable(first, saved.origin, task, audits) if first else ""
        if first and not reason:
            saved.origin = msgspec.msgpack.decode(first, type=Origin)
            saved.restore(records)
        else:
            saved.clear()
        if reason:
            log_unused(task, reason)
        yield saved


def private(path: str, flags: int) -> int:
    """Open a file; a new one is readable by its owner only."""
    return os.open(path, flags, 0o600)


def read_records(file: BinaryIO) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the figures of each whole record, where its rows are, and its rows; then truncate the file after them."""
    file.seek(0)
    end, size = 0, os.fstat(file.fileno()).st_size
    while size - end >= FRAME.size:
        length, width, digest = FRAME.unpack(file.read(FRAME.size))
        start = end + FRAME.size + length
        if start + width > size:
            break
        figures, rows = file.read(length), file.read(width)
        if digest_of(figures, rows) != digest:
            break
        yield figures, start, rows
        end = start + width
    file.truncate(end)


def digest_of(figures: bytes, rows: bytes | pa.Buffer) -> bytes:
    """Return the digest of a record."""
    digest = blake2b(figures, digest_size=16)
    digest.update(rows)
    return digest.digest()


def state_of(task: Task, known: Known | None = None) -> str:
    """Return a digest of what saved rows depend on."""
    settings, state = task.settings, known.state if known else ""
    return selection_digest(task, storage_key(task), settings.form, settings.page_size, state)


def why_unusable(first: bytes, now: Origin, task: Task, audits: Sequence[Audit]) -> str:
    """Return why a load cannot use saved windows, by their first record; an empty string if it can."""
    try:
        saved = msgspec.msgpack.decode(first, type=Origin)
    except msgspec.MsgspecError:
        return "they are of another version"
    age = now.started_at - saved.started_at
    if saved.state != now.state:
        return "they are of another version, or of other settings"
    if not timedelta(0) <= age <= timedelta(hours=task.settings.resume_for):
        return f"they are older than {task.settings.resume_for:g} hours"
    if audits and audits[0]["started_at"] >= saved.started_at - PRECISION:
        return "a load has finished since"
    return ""


def continue_listing(task: Task, saved: SavedWindows, reader: PageReader, spool: Spool) -> Verdict | None:
    """Return the verdict of a listing of which windows were saved; None if all has to be read again, and log why."""
    if not saved.readings:
        return None
    try:
        verdict = continue_pass(reader.read, task.title, Reused(saved, reader, spool))
    except ReadAgain as error:
        saved.clear()
        log_unused(task, str(error))
        return None
    logger.info("%s: continued with %d pages saved by an earlier load", task.title, len(saved.readings))
    return verdict


def log_unused(task: Task, reason: str) -> None:
    """Log why saved windows are not used."""
    logger.info("%s: reading all pages again instead of using saved ones: %s", task.title, reason)
