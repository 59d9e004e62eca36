#!/usr/bin/env bash
# pyiceberg 0.12.0 (2026-11-28) and rows whose column is null, in filters that are written as SQL. Guess: no filter of `state` matches
# them, as in SQL. Seen: `state != 'Texas'` leaves them out, but a scan with `state not in ('Texas', 'Ohio')` returns them, while
# delete() with the same filter keeps them. With a single value in the list, the scan leaves them out, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

uv run --quiet --isolated --no-project --with 'pyiceberg[sql-sqlite,pyarrow]==0.12.0' --with pyarrow==26.0.0 python - <<'PYTHON'
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

catalog = SqlCatalog("local", uri="sqlite:///catalog.db", warehouse=Path.cwd().as_uri())
catalog.create_namespace("shop")
rows = pa.table({"id": [1, 2, 3, 4], "state": ["Texas", "Ohio", None, "Utah"]})
table = catalog.create_table("shop.people", rows.schema)
table.append(rows)


def found(condition):
    """Return the ids of rows that match a condition."""
    return table.scan(row_filter=condition).to_arrow()["id"].to_pylist()


conditions = ["state != 'Texas'", "not state = 'Texas'", "state not in ('Texas')", "state not in ('Texas', 'Ohio')"]
seen = [found(condition) for condition in conditions]
table.delete("state not in ('Texas', 'Ohio')")
left = table.scan().to_arrow()["id"].to_pylist()
print("pyiceberg", version("pyiceberg"), "pyarrow", version("pyarrow"), dict(zip(conditions, seen)), "left:", left)
assert seen == [[2, 4], [2, 4], [2, 4], [3, 4]], seen
assert left == [1, 2, 3]
PYTHON
