#!/usr/bin/env bash
# pandas 3.0.3, PyArrow 26.0.1, Polars 2.1.0, DuckDB 1.5.6; 2026-11-28.
# Guess: of a folder day=2024-01-01 whose file also has a column day, every reader takes the folder's value.
# Seen: PyArrow's dataset, Polars and DuckDB do, and the file's value is lost; pandas, through PyArrow, cannot read the folder at all,
# because its partition is a dictionary and the file's column is text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uv venv --quiet environment
uv pip install --quiet --python environment pandas==3.0.3 pyarrow==26.0.1 polars==2.1.0 duckdb==1.5.6
environment/bin/python - <<'PYTHON'
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

print("pandas", pd.__version__, "pyarrow", pa.__version__, "polars", pl.__version__, "duckdb", duckdb.__version__)
Path("table/day=2024-01-01").mkdir(parents=True)
pq.write_table(pa.table({"n": [1], "day": ["2023-05-05"]}), "table/day=2024-01-01/0.parquet")
found = {
    "pyarrow": ds.dataset("table", partitioning="hive").to_table()["day"].to_pylist(),
    "polars": pl.scan_parquet("table", hive_partitioning=True).collect()["day"].to_list(),
    "duckdb": [str(day) for [day] in duckdb.sql("SELECT day FROM read_parquet('table/*/*', hive_partitioning=true)").fetchall()],
}
print(found)
assert all(days == ["2024-01-01"] for days in found.values()), found
try:
    pd.read_parquet("table")
except pa.ArrowTypeError as error:
    print("pandas:", error)
else:
    raise SystemExit("pandas: read")
PYTHON
