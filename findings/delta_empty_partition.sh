#!/usr/bin/env bash
# deltalake 1.6.6 and Polars 2.1.0 (2026-11-28) on one Delta table that is partitioned by a text column with an empty text and a null.
# Guess: both read back what was written. Seen: Polars reads the empty text, deltalake's PyArrow table has a second null in its place;
# so a count of rows without a state depends on the reader. Delta's protocol takes an empty partition value for null.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

uv run --quiet --isolated --no-project --with deltalake==1.6.6 --with polars==2.1.0 --with pyarrow==26.0.0 python - <<'PYTHON'
from importlib.metadata import version

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

write_deltalake("people", pa.table({"id": [1, 2, 3], "state": ["Texas", "", None]}), partition_by=["state"])
by_arrow = DeltaTable("people").to_pyarrow_table().sort_by("id")["state"].to_pylist()
by_polars = pl.scan_delta("people").sort("id").collect()["state"].to_list()
print("deltalake", version("deltalake"), by_arrow, "polars", version("polars"), by_polars)
assert by_arrow == ["Texas", None, None]
assert by_polars == ["Texas", "", None]
PYTHON
