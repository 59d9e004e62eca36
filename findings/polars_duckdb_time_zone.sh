#!/usr/bin/env bash
# Polars 2.1.0, DuckDB 1.5.6, PyArrow 26.0.1; 2026-11-28.
# Guess: read_database gives a TIMESTAMPTZ of DuckDB the zone UTC, or the zone that was set on the connection.
# Seen: it has the zone of the machine, though SET TimeZone changed the connection's: only the connection's own .pl() follows that.
# Joining both is an error, though they are the same instants, so a query that works on one machine fails on another.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uv venv --quiet environment
uv pip install --quiet --python environment polars==2.1.0 duckdb==1.5.6 pyarrow==26.0.1
TZ=Europe/Berlin environment/bin/python - <<'PYTHON'
import duckdb
import polars as pl
import pyarrow as pa

print("polars", pl.__version__, "duckdb", duckdb.__version__, "pyarrow", pa.__version__)
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
query = "SELECT TIMESTAMPTZ '2024-01-31 12:00:00+00' AS at"
through_polars, through_duckdb = pl.read_database(query, connection), connection.sql(query).pl()
zones = through_polars.schema["at"].time_zone, through_duckdb.schema["at"].time_zone
print("read_database:", zones[0], ".pl():", zones[1])
assert zones == ("Europe/Berlin", "UTC"), zones
try:
    through_polars.join(through_duckdb, on="at")
except pl.exceptions.SchemaError as error:
    print("join:", str(error).splitlines()[0])
else:
    raise SystemExit("join: works")
PYTHON
