"""In which format does a folder hold a table?"""

import os
from pathlib import Path
from typing import Literal

Format = Literal["parquet", "delta", "iceberg"]

SIGNS: dict[Format, str] = {"delta": "_delta_log", "iceberg": "metadata"}
"""What Delta and Iceberg keep beside their Parquet files, of which some may be outdated."""


def format_of(table: Path) -> Format | None:
    """The format of the table in a folder, None where there is none."""
    for name, sign in SIGNS.items():
        if os.path.isdir(table / sign):
            return name
    return "parquet" if any(table.glob("*.parquet")) else None
