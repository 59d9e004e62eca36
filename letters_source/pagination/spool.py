"""A temporary file where decoded pages wait for the verdict. It has no name, so a killed process leaves nothing."""

from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

import numpy as np
import pyarrow as pa

from letters_source.pagination.readings import Mask

# enough rows for dlt's work per batch not to matter, few enough for flat memory
BATCH_ROWS = 40_000
# fewer large rows: Arrow's lists and strings are limited to 2 GiB
BATCH_BYTES = 64 * 2**20


class Spool:
    """Batches of one schema, written in order of arrival and read by their number."""

    def __init__(self, schema: pa.Schema, folder: Path | None = None) -> None:
        self.schema, self.folder = schema, folder
        self._places: list[tuple[int, int]] = []
        self._end = 0

    def __enter__(self) -> Self:
        # a write buffer would copy each batch once more
        self._file = TemporaryFile("a+b", dir=self.folder, buffering=0)
        self._reader = BufferedReader(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def append(self, batch: pa.Buffer) -> None:
        """Add a batch as `RecordBatch.serialize` writes it; the first has the number 0."""
        self._places.append((self._end, batch.size))
        self._end += batch.size
        rest = memoryview(batch)
        while rest:
            rest = rest[self._file.write(rest) :]

    def read(self, number: int) -> pa.RecordBatch:
        """Return a batch."""
        start, size = self._places[number]
        self._reader.seek(start)
        return pa.ipc.read_record_batch(pa.py_buffer(self._reader.read(size)), self.schema)

    def tables(self, wanted: Sequence[tuple[int, Mask | bool]]) -> Iterator[pa.Table]:
        """Yield the wanted rows of the numbered batches in tables of about `BATCH_ROWS` rows; at least one table."""
        gathered: list[pa.RecordBatch] = []
        size = 0
        for number, rows in wanted:
            batch = self.read(number)
            gathered.append(batch if np.all(rows) else batch.filter(pa.array(rows)))
            size += self._places[number][1]
            if size >= BATCH_BYTES or sum(batch.num_rows for batch in gathered) >= BATCH_ROWS:
                yield pa.Table.from_batches(gathered)
                gathered, size = [], 0
        # an empty table with the right types creates the destination's table, even if there are no rows
        yield pa.Table.from_batches(gathered, self.schema)
