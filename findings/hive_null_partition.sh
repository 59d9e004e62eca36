#!/usr/bin/env bash
# A Hive-partitioned Parquet folder that PyArrow 26.0.0 wrote, with a null in the partition column (2026-11-28). Guess: all readers that
# know Hive's folders read null. Seen: DuckDB 2.0.1 and Polars 2.1.0 do; DataFusion 55.0.0 and chDB 4.4.0 give the name of the folder,
# __HIVE_DEFAULT_PARTITION__, as the text of the column, which IS NULL does not match.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

with() { # packages, then a program of Python on standard input
    uv run --quiet --isolated --no-project "${@/#/--with=}" python -
}

with pyarrow==26.0.0 <<'PYTHON'
import pyarrow as pa
import pyarrow.dataset as ds

table = pa.table({"id": [1, 2], "state": ["Texas", None]})
by_state = ds.partitioning(pa.schema([("state", pa.string())]), flavor="hive")
ds.write_dataset(table, "people", format="parquet", partitioning=by_state)
PYTHON

with duckdb==2.0.1 polars==2.1.0 <<'PYTHON'
import duckdb
import polars as pl

[by_duckdb] = duckdb.sql("SELECT state FROM read_parquet('people/**/*.parquet', hive_partitioning = true) WHERE id = 2").fetchall()
by_polars = pl.read_parquet("people/**/*.parquet", hive_partitioning=True).filter(pl.col("id") == 2)["state"].to_list()
print("duckdb", duckdb.__version__, by_duckdb, "polars", pl.__version__, by_polars)
assert by_duckdb == (None,) and by_polars == [None]
PYTHON

with datafusion==55.0.0 <<'PYTHON'
import datafusion
import pyarrow as pa

frame = datafusion.SessionContext().read_parquet("people/", table_partition_cols=[("state", pa.string())])
found = frame.filter(datafusion.col("id") == datafusion.lit(2)).to_pydict()
print("datafusion", datafusion.__version__, found)
assert found["state"] == ["__HIVE_DEFAULT_PARTITION__"]
PYTHON

with chdb==4.4.0 <<'PYTHON'
from importlib.metadata import version

import chdb

found = str(chdb.query("SELECT state, state IS NULL FROM file('people/**/*.parquet') WHERE id = 2", "CSV")).strip()
print("chdb", version("chdb"), found)
assert found == '"__HIVE_DEFAULT_PARTITION__",0'
PYTHON
