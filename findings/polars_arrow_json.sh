#!/usr/bin/env bash
# Polars 2.1.0 (2026-11-28) and Arrow's own types for JSON and UUID, in a table of PyArrow 26.0.0. Guess: JSON becomes text, a UUID
# binary. Seen: a UUID does, but JSON becomes an extension type on which text functions, comparison, a cast to text, and write_csv
# all fail; `.ext.storage()` gives the text. A list of UUIDs cannot be converted at all.
set -euo pipefail

uv run --quiet --isolated --no-project --with polars==2.1.0 --with pyarrow==26.0.0 python - <<'PYTHON'
import uuid

import polars as pl
import pyarrow as pa

key = uuid.UUID(int=1).bytes
frame = pl.from_arrow(pa.table({"id": pa.array([key], pa.uuid()), "meta": pa.array(['{"a":1}'], pa.json_())}))
print("polars", pl.__version__, "pyarrow", pa.__version__, frame.schema)
assert frame.schema["id"] == pl.Binary and frame.schema["meta"] != pl.String
attempts = {
    "json_path_match": lambda: frame["meta"].str.json_path_match("$.a"),
    "cast": lambda: frame["meta"].cast(pl.String),
    "compare": lambda: frame.filter(pl.col("meta") == '{"a":1}'),
    "write_csv": frame.select("meta").write_csv,
    "list of UUIDs": lambda: pl.from_arrow(pa.table({"ids": pa.array([[key]], pa.list_(pa.uuid()))})),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    else:
        raise AssertionError(f"{name} worked")
assert frame["meta"].ext.storage().str.json_path_match("$.a").to_list() == ["1"]
PYTHON
