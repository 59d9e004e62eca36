"""Opens SQL on a destination, and quotes text in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dlt


@contextmanager
def open_sql(pipeline: "dlt.Pipeline") -> Iterator[Any]:
    """A SQL client while the block runs: dlt's own, or ours where tables are files."""
    # the report, which quotes text, need not wait for dlt
    from letters_source.destination.kinds import is_files

    if is_files(pipeline):
        from letters_source.destination.file_tables import open_files

        with open_files(pipeline.destination_client()) as files:
            yield files
    else:
        with pipeline.sql_client() as client:
            yield client


def literal(text: str) -> str:
    """A SQL string literal, for statements that take no bound values."""
    return "'" + text.replace("'", "''") + "'"
