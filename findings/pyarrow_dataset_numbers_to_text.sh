#!/usr/bin/env bash
# PyArrow 26.0.1; 2026-11-28.
# Guess: a dataset whose first file has a column of text and whose second has integers there cannot be read, as its reverse cannot.
# Seen: the integers become text without a word; with the integers first, reading is an error. Which of the two a folder is depends on
# the names of its files.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uv venv --quiet environment
uv pip install --quiet --python environment pyarrow==26.0.1
environment/bin/python - <<'PYTHON'
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

print("pyarrow", pa.__version__)
for folder, values in {"text_first": (["x"], [7]), "integers_first": ([7], ["x"])}.items():
    Path(folder).mkdir()
    for number, each in enumerate(values):
        pq.write_table(pa.table({"n": each}), f"{folder}/{number}.parquet")
rows = ds.dataset("text_first").to_table()["n"].to_pylist()
print("text first:", rows)
assert rows == ["x", "7"], rows
try:
    ds.dataset("integers_first").to_table()
except pa.ArrowInvalid as error:
    print("integers first:", error)
else:
    raise SystemExit("integers first: read")
PYTHON
