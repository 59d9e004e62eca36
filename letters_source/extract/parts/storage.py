"""The plan and the files of a listing in parts: each file has the rows of a range and its evidence.

The folder may be a path, or the URL of a bucket for `pyarrow.fs`. A plan is in `contacts.json`, its files are in
`contacts/<plan>/`, so files of an earlier plan are never taken for those of a later one. Writing a range again
replaces its file.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from letters_source.decode.row_schema import Notes, to_counter
from letters_source.errors import LoadFailed, SettingsError, UnusableFile
from letters_source.extract.task import Task, selection_digest
from letters_source.pagination.evidence import Evidence, Range
from letters_source.service.listings import LISTINGS, SECTION
from letters_source.wording import reason

T = TypeVar("T")
METADATA = b"letters"
"""The key of a part's figures in its file's metadata, so that rows and evidence are written at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges of a listing, and a digest of what selects its rows: parts of another selection must not be loaded."""

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
    stated: int | None = None  # the service's own count, if more rows were seen


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
        if plan.selection != selection_digest(self.task, plan.number):
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
