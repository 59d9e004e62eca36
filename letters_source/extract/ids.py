"""How is a listing read for its ids alone, for a value of a facet or a window of days?"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.extract.audit import Loaded, Outcome, log_outcome
from letters_source.extract.listing import read_until_whole
from letters_source.extract.task import Job
from letters_source.pagination.completeness import has_no_id


@dataclass(frozen=True, slots=True)
class Members:
    """Rows of a facet's table, or of the mailings, ready to be loaded."""

    table: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Found:
    """The ids of a listing that was shown to be whole.

    Args:
        job: what was asked.
        outcome: how that went.
        ids: of all rows that have one.
        rejected: how many rows have none.
    """

    job: Job
    outcome: Outcome
    ids: pa.ChunkedArray
    rejected: int


def read_ids(job: Job) -> Found:
    """The ids of the rows that the job's filters choose.

    Raises:
        LettersError: as `read_listing` does.
    """
    outcome = read_until_whole(job)
    keys = pa.chunked_array(
        (
            reading.keys.filter(pa.array(np.broadcast_to(rows, len(reading.keys))))
            for reading, rows in zip(outcome.verdict.readings, outcome.verdict.keep, strict=True)
        ),
        pa.string(),
    )
    ids = keys.filter(pc.invert(has_no_id(keys)))
    found = Found(job, outcome, ids, len(keys) - len(ids))
    log_outcome(job, outcome, Loaded(len(ids), found.rejected))
    return found
