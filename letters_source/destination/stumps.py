"""Which files did a load leave half written? Parquet files that nobody can read, and that would stop all others."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from letters_source.tables import LOADS, TABLES

LOAD_OF_FILE = re.compile(r"\d+\.\d+(?=\.)")
"""The load's id, with which dlt begins the names of its files."""


def remove_stumps(dataset: Path) -> None:
    """Delete the Parquet files that a load was writing when it was ended, or its disk was full.

    A file that cannot be read of a load that `_dlt_loads` lists, or of nobody knows whom, is for people to look at.

    Args:
        dataset: the folder of its tables.
    """
    finished = set(noted_loads(dataset / LOADS))
    for table in TABLES:
        for file in (dataset / table.name).glob("*.parquet"):
            load_id = LOAD_OF_FILE.match(file.name)
            if load_id and load_id[0] not in finished and is_cut_off(file):
                file.unlink()


def noted_loads(folder: Path) -> list[str]:
    """The loads that finished, by dlt's list in plain files: each has one, named after its schema and itself."""
    return [file.stem.rpartition("__")[2] for file in folder.glob("*.jsonl")]


def is_cut_off(file: Path) -> bool:
    """Whether a Parquet file does not end as one: what it is known by comes last."""
    try:
        pq.read_metadata(file)
    except pa.ArrowInvalid:
        return True
    except OSError:
        # it has its end, and cannot be read for another reason
        return False
    return False
