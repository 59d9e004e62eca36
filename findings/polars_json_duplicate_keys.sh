#!/usr/bin/env bash
# Polars 2.1.0, DuckDB 1.5.6, pandas 3.0.3; 2026-11-28.
# Guess: of the equal keys of a JSON object, which RFC 8259 leaves to the reader, json_path_match takes the first and json_decode the
# last, like Python's json.
# Seen: the other way around, so two functions of one library disagree on the same text: json_path_match takes the last, json_decode
# the first. DuckDB's ->> takes the first, pandas the last.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uv venv --quiet environment
uv pip install --quiet --python environment polars==2.1.0 duckdb==1.5.6 pandas==3.0.3
environment/bin/python - <<'PYTHON'
import io

import duckdb
import pandas as pd
import polars as pl

print("polars", pl.__version__, "duckdb", duckdb.__version__, "pandas", pd.__version__)
text = '{"a": 1, "a": 2}'
found = {
    "polars json_path_match": int(pl.Series([text]).str.json_path_match("$.a")[0]),
    "polars json_decode": pl.Series([text]).str.json_decode(pl.Struct({"a": pl.Int64}))[0]["a"],
    "duckdb ->>": int(duckdb.execute("SELECT ?::JSON ->> 'a'", [text]).fetchall()[0][0]),
    "pandas read_json": int(pd.read_json(io.StringIO(text), lines=True)["a"][0]),
}
print(found)
assert list(found.values()) == [2, 1, 1, 2], found
PYTHON
