"""How is a destination asked what it holds?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dlt

from letters_source.destination import is_files


@contextmanager
def open_sql(pipeline: dlt.Pipeline) -> Iterator[Any]:
    """A client for SQL while the block runs: dlt's own, or ours where tables lie in files."""
    if is_files(pipeline):
        from letters_source.files import open_files

        with open_files(pipeline.destination_client()) as files:
            yield files
        return
    with pipeline.sql_client() as client:
        yield client
