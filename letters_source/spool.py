"""Where do decoded pages wait for the verdict? In a file without a name: whatever ends the process, nothing is left."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

import pyarrow as pa

from letters_source.evidence import Mask

# large enough for dlt's per-batch work not to show, small enough for flat memory
BATCH_ROWS = 20_000


class Spool:
    """Batches of one schema, written in order of arrival, read again by their number."""

    def __init__(self, schema: pa.Schema, folder: Path | None = None) -> None:
        self.schema, self.folder = schema, folder

    def __enter__(self) -> Self:
        self._file = TemporaryFile(dir=self.folder)
        self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self.schema)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch; the first is number 0."""
        self._writer.write_batch(batch)

    def tables(self, wanted: Sequence[tuple[int, Mask | bool]]) -> Iterator[pa.Table]:
        """The wanted rows of the numbered batches, gathered into tables of about `BATCH_ROWS` rows; at least one."""
        self._writer.close()
        reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))
        gathered: list[pa.RecordBatch] = []
        for number, rows in wanted:
            batch = reader.get_batch(number)
            gathered.append(batch if rows is True else batch.filter(pa.array(rows)))
            if sum(batch.num_rows for batch in gathered) >= BATCH_ROWS:
                yield pa.Table.from_batches(gathered)
                gathered = []
        # also when there is nothing: an empty table of the right types creates its table in the destination
        yield pa.Table.from_batches(gathered, self.schema)
