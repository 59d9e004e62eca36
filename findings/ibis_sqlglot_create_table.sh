#!/usr/bin/env bash
# ibis 12.0.0 (2026-11-28) asks for sqlglot 23.4 or later, without an upper bound; pip installs 30.30.0. Guess: create_table() of a data
# frame works on all its databases. Seen: with sqlglot 30.30.0 it is a syntax error in DuckDB 1.5.6 and in SQLite, while queries and
# create_table() of a memtable work; with sqlglot 28.6.0 it works.
set -euo pipefail

for sqlglot in 30.30.0 28.6.0; do
    uv run --quiet --isolated --no-project --with 'ibis-framework[duckdb,sqlite]==12.0.0' --with duckdb==1.5.6 --with pandas==3.1.1 \
        --with "sqlglot==$sqlglot" python - <<'PYTHON'
import ibis
import pandas as pd
import sqlglot

frame = pd.DataFrame({"x": [1]})
seen = {}
for name, connection in (("duckdb", ibis.duckdb.connect()), ("sqlite", ibis.sqlite.connect())):
    connection.create_table("from_memtable", ibis.memtable(frame))
    try:
        connection.create_table("from_frame", frame)
        seen[name] = "works"
    except Exception as error:
        seen[name] = f"{type(error).__name__}: {error}"
print("ibis", ibis.__version__, "sqlglot", sqlglot.__version__, seen)
new = int(sqlglot.__version__.partition(".")[0]) >= 30
expected = ["Parser Error: syntax error", "incomplete input"] if new else ["works"] * 2
assert all(text in one for text, one in zip(expected, seen.values(), strict=True)), seen
PYTHON
done
