"""Detects the format of a table in a folder."""

import os
from pathlib import Path
from typing import Literal

Format = Literal["parquet", "delta", "iceberg"]
LAKE_FOLDERS: dict[Format, str] = {"delta": "_delta_log", "iceberg": "metadata"}
"""The metadata folders of Delta and Iceberg, next to Parquet files that may be outdated."""


def format_of(table: Path) -> Format | None:
    """Return the format of the table in a folder; None if there is no table."""
    for name, folder in LAKE_FOLDERS.items():
        if os.path.isdir(table / folder):
            return name
    return "parquet" if any(table.glob("*.parquet")) else None
