#!/usr/bin/env bash
# ADBC's SQLite driver 1.9.0 (2026-11-28) and a table without rows. Guess: columns have the types that the table declares, text as
# string and REAL as double. Seen: every column is int64, whatever it declares, and the same query gives other types once there is a
# row; so empty and filled results of one table cannot be concatenated.
set -euo pipefail

uv run --quiet --isolated --no-project --with adbc-driver-sqlite==1.9.0 --with pyarrow==26.0.0 python - <<'PYTHON'
from importlib.metadata import version

import adbc_driver_sqlite.dbapi as sqlite
import pyarrow as pa

with sqlite.connect() as connection, connection.cursor() as cursor:
    cursor.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, picture BLOB)")
    cursor.execute("SELECT * FROM orders")
    before = cursor.fetch_arrow_table()
    cursor.execute("INSERT INTO orders VALUES (1, 'a', 1.5, x'00')")
    cursor.execute("SELECT * FROM orders")
    after = cursor.fetch_arrow_table()
print("adbc-driver-sqlite", version("adbc-driver-sqlite"))
print(*(", ".join(map(str, result.schema.types)) for result in (before, after)), sep="\n")
assert before.schema.types == [pa.int64()] * 4
assert after.schema.types == [pa.int64(), pa.string(), pa.float64(), pa.binary()]
try:
    pa.concat_tables([before, after])
except pa.ArrowInvalid as error:
    print("pyarrow:", str(error).splitlines()[0])
else:
    raise AssertionError("the two were concatenated")
PYTHON
