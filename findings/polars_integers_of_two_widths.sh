#!/usr/bin/env bash
# Polars 2.1.0, DuckDB 1.5.6, PyArrow 26.0.1; 2026-11-28.
# Guess: of Parquet files whose column is int64 in the first and int32 in the second, which fits it, every reader makes int64.
# Seen: Polars refuses them in either order, unless cast_options says otherwise; DuckDB and PyArrow read them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uv venv --quiet environment
uv pip install --quiet --python environment polars==2.1.0 duckdb==1.5.6 pyarrow==26.0.1
environment/bin/python - <<'PYTHON'
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

print("polars", pl.__version__, "duckdb", duckdb.__version__, "pyarrow", pa.__version__)
for number, kind in enumerate((pa.int64(), pa.int32())):
    pq.write_table(pa.table({"n": pa.array([number], kind)}), f"{number}.parquet")
files = ["0.parquet", "1.parquet"]
assert duckdb.sql("SELECT n FROM '*.parquet' ORDER BY n").fetchall() == [(0,), (1,)]
assert ds.dataset(files).to_table()["n"].to_pylist() == [0, 1]
try:
    pl.read_parquet(files)
except pl.exceptions.SchemaError as error:
    print("polars:", str(error).splitlines()[0])
else:
    raise SystemExit("polars: read")
rows = pl.scan_parquet(files, cast_options=pl.ScanCastOptions(integer_cast="upcast")).collect()["n"].to_list()
print("polars, with integer_cast:", rows)
assert rows == [0, 1], rows
PYTHON
