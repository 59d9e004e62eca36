"""Tells the format of a table in a folder."""

import os
from pathlib import Path
from typing import Literal

Format = Literal["parquet", "delta", "iceberg"]
LAKE_FOLDERS: dict[Format, str] = {"delta": "_delta_log", "iceberg": "metadata"}
"""The folder of Delta's and Iceberg's metadata, beside Parquet files that may be outdated."""


def format_of(table: Path) -> Format | None:
    """The format of the table in a folder; None where there is none."""
    for name, folder in LAKE_FOLDERS.items():
        if os.path.isdir(table / folder):
            return name
    return "parquet" if any(table.glob("*.parquet")) else None
