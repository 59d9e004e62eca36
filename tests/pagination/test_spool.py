"""Decoded pages come back from the spool unchanged, in batches."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from letters_source.pagination.spool import BATCH_BYTES, BATCH_ROWS, Spool

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batch(*numbers: int) -> pa.RecordBatch:
    """A batch of these numbers."""
    return pa.record_batch({"n": list(numbers), "text": [str(number) for number in numbers]}, SCHEMA)


def spooled(batches: Sequence[pa.RecordBatch], wanted: Sequence[tuple[int, Any]]) -> list[pa.Table]:
    """The tables that a spool of these batches yields."""
    with Spool(SCHEMA) as spool:
        for each in batches:
            spool.append(each.serialize())
        return list(spool.tables(wanted))


def test_wanted_rows_come_back_in_the_requested_order() -> None:
    """A spool returns the wanted rows of the named batches, in the requested order."""
    wanted = [(2, True), (0, np.array([False, True, True]))]
    (table,) = spooled([batch(1, 2, 3), batch(4), batch(5, 6)], wanted)
    assert table.schema == SCHEMA
    assert table.to_pydict() == {"n": [5, 6, 2, 3], "text": ["5", "6", "2", "3"]}


@pytest.mark.parametrize("batches", [[], [batch()], [batch(1)]])
def test_nothing_wanted_is_one_empty_table(batches: list[pa.RecordBatch]) -> None:
    """A spool of which no rows are wanted yields one empty table with its schema."""
    assert spooled(batches, []) == [SCHEMA.empty_table()]


def test_a_batch_of_which_nothing_is_wanted_gives_no_rows() -> None:
    """A mask that leaves out every row of a batch gives an empty table."""
    assert spooled([batch(1, 2)], [(0, np.array([False, False]))]) == [SCHEMA.empty_table()]


def test_rows_are_gathered_into_tables_of_about_batch_rows() -> None:
    """A table ends with the batch that fills it; the rest is the last table."""
    half = BATCH_ROWS // 2
    batches = [batch(*range(size)) for size in (half, half - 1, 5, half, 7)]
    tables = spooled(batches, [(number, True) for number in range(5)])
    assert [table.num_rows for table in tables] == [BATCH_ROWS + 4, half + 7]
    assert [table.schema for table in tables] == [SCHEMA] * 2
    assert tables[1]["n"].to_pylist() == [*range(half), *range(7)]


@pytest.mark.slow
def test_large_rows_are_gathered_into_smaller_tables() -> None:
    """Tables of large rows end at a size in bytes, because Arrow's lists and strings are limited to 2 GiB."""
    large = pa.record_batch({"n": [1], "text": ["x" * (BATCH_BYTES // 2)]}, SCHEMA)
    tables = spooled([large, large, batch(2), large], [(number, True) for number in range(4)])
    assert [table["n"].to_pylist() for table in tables] == [[1, 1], [2, 1]]


def test_the_spool_has_no_name_in_its_folder(tmp_path: Path) -> None:
    """The spool's file has no name in its folder, while it is open and afterwards."""
    with Spool(SCHEMA, tmp_path) as spool:
        spool.append(batch(1).serialize())
        assert list(tmp_path.iterdir()) == []
        assert [table.num_rows for table in spool.tables([(0, True)])] == [1]
    assert list(tmp_path.iterdir()) == []


def test_a_batch_is_read_by_its_number() -> None:
    """Batches can be read by number, any number of times and in any order."""
    batches = [batch(1, 2, 3), batch(), batch(4)]
    with Spool(SCHEMA) as spool:
        for each in batches:
            spool.append(each.serialize())
        assert [spool.read(number) for number in (2, 0, 1, 0)] == [batches[2], batches[0], batches[1], batches[0]]


def test_a_batch_that_was_not_added_cannot_be_read() -> None:
    """Reading a batch that was not added raises IndexError."""
    with Spool(SCHEMA) as spool:
        spool.append(batch(1).serialize())
        with pytest.raises(IndexError):
            spool.read(1)


def test_a_batch_of_another_schema_does_not_come_back() -> None:
    """A batch of another schema is stored unchecked, and reading it fails."""
    with Spool(SCHEMA) as spool:
        spool.append(pa.record_batch({"other": [1]}).serialize())
        with pytest.raises(pa.ArrowInvalid):
            spool.read(0)


def test_an_error_on_the_way_closes_the_spool() -> None:
    """An error inside the block closes the spool and is raised unchanged."""
    spool = Spool(SCHEMA)
    with pytest.raises(IndexError), spool:
        spool.read(0)
    assert spool._file.closed
