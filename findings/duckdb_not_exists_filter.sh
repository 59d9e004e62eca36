#!/usr/bin/env bash
# DuckDB 1.5.6 and 2.0.1; 2026-11-29.
# Guess: NOT EXISTS (SELECT ... WHERE inner.h = outer.h AND inner.h <> 'x') is planned as an anti join, as without the second condition.
# Seen: DuckDB 1.5.6 plans it with a delim join over all distinct values of the outer table, more than three times as slow, though the
# condition is on the inner table alone; the same rows by NOT IN, ANTI JOIN, or without the condition have none. DuckDB 2.0.1 has none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > plans.py <<'PYTHON'
import sys
import time

import duckdb

connection = duckdb.connect(config={"threads": 1})
print("duckdb", duckdb.__version__)
connection.execute("CREATE TABLE held AS SELECT md5(i::VARCHAR) AS h FROM range(500_000) AS r(i)")
connection.execute("CREATE TABLE staged AS SELECT md5('new' || i) AS h FROM range(50) AS r(i)")
conditions = {
    "NOT IN, filtered": "WHERE h NOT IN (SELECT h FROM staged WHERE h <> 'x')",
    "NOT EXISTS": "WHERE NOT EXISTS (SELECT 1 FROM staged AS s WHERE s.h = held.h)",
    "NOT EXISTS, filtered": "WHERE NOT EXISTS (SELECT 1 FROM staged AS s WHERE s.h = held.h AND s.h <> 'x')",
    "ANTI JOIN, filtered": "ANTI JOIN (SELECT h FROM staged WHERE h <> 'x') AS s USING (h)",
}
delim, seconds = set(), {}
for name, condition in conditions.items():
    query = f"SELECT count(*) FROM held {condition}"
    assert connection.execute(query).fetchall() == [(500_000,)]
    if "DELIM" in connection.execute(f"EXPLAIN {query}").fetchall()[0][1]:
        delim.add(name)
    measured = []
    for _ in range(5):
        began = time.process_time()
        connection.execute(query).fetchall()
        measured.append(time.process_time() - began)
    seconds[name] = min(measured)
    print(f"{name}: {'delim join' if name in delim else 'no delim join'}, {seconds[name] / seconds['NOT IN, filtered']:.1f} times NOT IN")
expected = {"NOT EXISTS, filtered"} if sys.argv[1] == "1.5.6" else set()
assert delim == expected, delim
assert (seconds["NOT EXISTS, filtered"] > 3 * seconds["NOT IN, filtered"]) == bool(expected), seconds
PYTHON
for release in 1.5.6 2.0.1; do
    uv venv --quiet "./duckdb-$release"
    uv pip install --quiet --python "./duckdb-$release" "duckdb==$release"
    "./duckdb-$release/bin/python" plans.py "$release"
done
