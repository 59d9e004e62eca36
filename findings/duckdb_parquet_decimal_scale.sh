#!/usr/bin/env bash
# DuckDB 2.0.1 (2026-11-28) and two Parquet files of a folder, amounts with two decimals in the first, with four in the second. Guess: it
# refuses, or reads all with four. Seen: the first file's type holds for all, and amounts of the second are rounded without a word, as
# are doubles behind integers; union_by_name = true keeps them. PyArrow 26.0.0 refuses the same folder, because data would be lost.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

uv run --quiet --isolated --no-project --with duckdb==2.0.1 --with pyarrow==26.0.0 python - <<'PYTHON'
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

amounts = [("amounts", "1.25", pa.decimal128(10, 2)), ("amounts", "1.2345", pa.decimal128(12, 4))]
for number, (name, value, kind) in enumerate(amounts):
    Path(name).mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": pa.array([Decimal(value)], kind)}), f"{name}/{number}.parquet")
for number, (value, kind) in enumerate([(1, pa.int32()), (2.5, pa.float64())]):
    Path("counts").mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": pa.array([value], kind)}), f"counts/{number}.parquet")


def read(name, options=""):
    """Return the values of a folder as text."""
    return [row[0] for row in duckdb.sql(f"SELECT x::TEXT FROM read_parquet('{name}/*.parquet'{options})").fetchall()]


print("duckdb", duckdb.__version__, read("amounts"), read("counts"), read("amounts", ", union_by_name = true"))
assert read("amounts") == ["1.25", "1.23"]
assert read("counts") == ["1", "2"]
assert read("amounts", ", union_by_name = true") == ["1.2500", "1.2345"]
assert read("counts", ", union_by_name = true") == ["1.0", "2.5"]
try:
    ds.dataset("amounts").to_table()
except pa.ArrowInvalid as error:
    print("pyarrow", pa.__version__, error)
else:
    raise AssertionError("PyArrow read the folder")
PYTHON
