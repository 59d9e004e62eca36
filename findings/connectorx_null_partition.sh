#!/usr/bin/env bash
# connectorx 0.4.6 (2026-11-28) reads a query in parts with partition_on and partition_num. Guess: that changes how fast it is, and not
# what it returns. Seen: rows whose partition column is null are in no part, and are missing without a word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

uv run --quiet --isolated --no-project --with connectorx==0.4.6 --with pyarrow==26.0.0 python - <<'PYTHON'
import sqlite3
from importlib.metadata import version

import connectorx

connection = sqlite3.connect("orders.db")
connection.execute("CREATE TABLE orders (id INTEGER, shop INTEGER)")
connection.executemany("INSERT INTO orders VALUES (?, ?)", [(number, number if number % 3 else None) for number in range(1, 10)])
connection.commit()
connection.close()

query = "SELECT * FROM orders"
whole = connectorx.read_sql("sqlite://orders.db", query, return_type="arrow")
parts = connectorx.read_sql("sqlite://orders.db", query, return_type="arrow", partition_on="shop", partition_num=2)
print("connectorx", version("connectorx"), "rows:", whole.num_rows, "in two parts:", parts.num_rows)
assert (whole.num_rows, parts.num_rows) == (9, 6)
assert parts.column("shop").null_count == 0
PYTHON
