#!/usr/bin/env bash
# fastparquet 2026.9.0 (2026-11-28) and Parquet columns that hold a time of day. Guess: datetime.time objects, as pandas 3.1.1 has with
# PyArrow. Seen: integers, in the unit of the file, so that one time is a different number in a file with milliseconds and in one with
# microseconds, and nothing in the frame says which.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

uv run --quiet --isolated --no-project --with fastparquet==2026.9.0 --with pandas==3.1.1 --with pyarrow==26.0.0 python - <<'PYTHON'
from datetime import time
from importlib.metadata import version

import fastparquet
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

seen = {}
for unit, kind in (("ms", pa.time32("ms")), ("us", pa.time64("us"))):
    pq.write_table(pa.table({"at": pa.array([time(1, 2, 3), None], kind)}), f"{unit}.parquet")
    column = fastparquet.ParquetFile(f"{unit}.parquet").to_pandas()["at"]
    seen[unit] = str(column.dtype), int(column[0])
    assert pd.read_parquet(f"{unit}.parquet", engine="pyarrow")["at"][0] == time(1, 2, 3)
print("fastparquet", version("fastparquet"), "pandas", pd.__version__, seen)
assert seen == {"ms": ("Int32", 3_723_000), "us": ("Int64", 3_723_000_000)}
PYTHON
