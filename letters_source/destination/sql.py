"""How is a destination asked what it holds?"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import dlt

from letters_source.destination.kinds import is_files

KEPT_OPEN: ContextVar[tuple[dlt.Pipeline | None, Any]] = ContextVar("KEPT_OPEN", default=(None, None))
"""The pipeline whose client stays open, and that client."""


@contextmanager
def open_sql(pipeline: dlt.Pipeline) -> Iterator[Any]:
    """A client for SQL while the block runs: dlt's own, or ours where tables lie in files."""
    kept, client = KEPT_OPEN.get()
    if kept is pipeline:
        yield client
    elif is_files(pipeline):
        from letters_source.destination.file_tables import open_files

        with open_files(pipeline.destination_client()) as files:
            yield files
    else:
        with pipeline.sql_client() as client:
            yield client


@contextmanager
def keep_open(pipeline: dlt.Pipeline) -> Iterator[None]:
    """Have one client for all in this thread who open one while the block runs.

    dlt would look up its whole configuration for each.
    """
    with pipeline.sql_client() as client:
        before = KEPT_OPEN.set((pipeline, client))
        try:
            yield
        finally:
            KEPT_OPEN.reset(before)
