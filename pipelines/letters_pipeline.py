"""Load templates and contacts into DuckDB or Parquet. Copy and edit.

Settings come from .dlt/config.toml and .dlt/secrets.toml, or from the environment (SOURCES__LETTERS__BASE_URL, ...).
Run it with `python letters_pipeline.py`, `python letters_pipeline.py parquet` or `... parquet some/folder`.
"""

import sys
from typing import Any

from letters_source import LettersError, make_pipeline, run


def main(destination: Any = "duckdb", to: str | None = None) -> None:
    """Load both listings, and print how many rows each table holds."""
    result = run(make_pipeline(destination, to))
    for table, rows in result.tables.items():
        print(f"{table}: {rows} rows")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except LettersError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
