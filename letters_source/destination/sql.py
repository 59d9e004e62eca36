"""Opens a SQL client on a destination, and quotes SQL literals."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dlt


@contextmanager
def open_sql(pipeline: "dlt.Pipeline") -> Iterator[Any]:
    """Open a SQL client: dlt's own, or ours for tables in files."""
    # imported here, so that the report, which only quotes text, does not import dlt
    from letters_source.destination.kinds import is_files

    if is_files(pipeline):
        from letters_source.destination.file_tables import open_files

        with open_files(pipeline.destination_client()) as files:
            yield files
    else:
        with pipeline.sql_client() as client:
            yield client


def literal(text: str) -> str:
    """Return a SQL string literal, for statements that do not accept parameters."""
    return "'" + text.replace("'", "''") + "'"
