"""Where do decoded pages wait for the verdict? In a file without a name: whatever ends the process, nothing is left."""

from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

import numpy as np
import pyarrow as pa

from letters_source.pagination.completeness import Mask

# large enough for dlt's per-batch work not to show, small enough for flat memory
BATCH_ROWS = 40_000
# of large rows fewer: Arrow's lists and texts end at 2 GiB
BATCH_BYTES = 64 * 2**20


class Spool:
    """Batches of one schema, written in order of arrival, read again by their number."""

    def __init__(self, schema: pa.Schema, folder: Path | None = None) -> None:
        self.schema, self.folder = schema, folder
        self._places: list[tuple[int, int]] = []
        self._end = 0

    def __enter__(self) -> Self:
        # a buffer for writing would copy each batch once more
        self._file = TemporaryFile("a+b", dir=self.folder, buffering=0)
        self._reader = BufferedReader(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def append(self, batch: pa.Buffer) -> None:
        """Add a batch, as `RecordBatch.serialize` writes it; the first is number 0."""
        self._places.append((self._end, batch.size))
        self._end += batch.size
        rest = memoryview(batch)
        while rest:
            rest = rest[self._file.write(rest) :]

    def read(self, number: int) -> pa.RecordBatch:
        """A batch that was added."""
        start, size = self._places[number]
        self._reader.seek(start)
        return pa.ipc.read_record_batch(pa.py_buffer(self._reader.read(size)), self.schema)

    def tables(self, wanted: Sequence[tuple[int, Mask | bool]]) -> Iterator[pa.Table]:
        """The wanted rows of the numbered batches, gathered into tables of `BATCH_ROWS` rows or so; at least one."""
        gathered: list[pa.RecordBatch] = []
        size = 0
        for number, rows in wanted:
            batch = self.read(number)
            gathered.append(batch if np.all(rows) else batch.filter(pa.array(rows)))
            size += self._places[number][1]
            if size >= BATCH_BYTES or sum(batch.num_rows for batch in gathered) >= BATCH_ROWS:
                yield pa.Table.from_batches(gathered)
                gathered, size = [], 0
        # also when there is nothing: an empty table of the right types creates its table in the destination
        yield pa.Table.from_batches(gathered, self.schema)
