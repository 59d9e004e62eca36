"""One Spark job of a snapshot: its tasks write files, and the job lists the files that Spark commits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

import msgspec
import pyarrow as pa

from letters_source.config.installation import importing_extra
from letters_source.config.settings import Overrides
from letters_source.errors import LoadFailed
from letters_source.extract.parts.reading import read_into, write_tables
from letters_source.extract.parts.storage import Parts
from letters_source.extract.parts.tasks import task_of
from letters_source.pagination.evidence import Range

with importing_extra("spark"):
    from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage


@dataclass(frozen=True)
class Stage:
    """A job of a snapshot: reads ranges, or splits staged rows into tables if there are none."""

    listing: str
    folder: str
    committed: str  # the name of the file that lists those of the attempts that Spark commits
    ranges: tuple[Range, ...] = ()
    at_once: int = 1


@dataclass
class Staged(WriterCommitMessage):
    """Files that a task has written, each after the place of its range or the name of its table."""

    files: list[tuple[str, str]]


@dataclass(frozen=True)
class StageWriter(DataSourceArrowWriter):
    """Writes files in each task; Spark commits one attempt of each task, whatever the others have written."""

    stage: Stage
    overrides: Overrides

    @property
    def parts(self) -> Parts:
        """Where the files go."""
        return parts_of(self.stage.listing, self.stage.folder, self.overrides, self.stage.at_once)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Read the range whose place is in the only row, or write the rows of each table."""
        parts = self.parts
        if not self.stage.ranges:
            return Staged(write_tables(parts, iterator))
        [place] = (place for batch in iterator for place in batch["id"].to_pylist())
        path = f"{parts.folder}/{uuid4().hex}.parquet"
        read_into(parts, path, self.stage.ranges[place])
        return Staged([(f"{place:06}", path)])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """List the files; Spark calls this once, in a process of its own."""
        files = sorted(file for message in messages for file in cast("Staged", message).files)
        places = [f"{place:06}" for place in range(len(self.stage.ranges))]
        if places and places != [name for name, _ in files]:
            raise LoadFailed("Spark did not read each range once; nothing was published.", advice="Run it again.")
        self.parts.write(f"{self.parts.folder}/{self.stage.committed}", msgspec.json.encode(files))


def parts_of(listing: str, folder: str, overrides: Overrides, at_once: int = 1) -> Parts:
    """Return where the files of a listing go."""
    return Parts.of(task_of(listing, overrides, at_once), folder)
