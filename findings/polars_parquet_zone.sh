#!/usr/bin/env bash
# Polars 2.1.0 (2026-11-28) and two Parquet files of a folder, timestamps without a zone in the first, in UTC in the second. Guess: it
# refuses, or takes all for UTC. Seen: it is strict about the unit, and refuses milliseconds beside microseconds, but takes the zone of
# the first file for all: moments lose their UTC, or times of a wall clock become UTC, by the order of the files' names.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

uv run --quiet --isolated --no-project --with polars==2.1.0 python - <<'PYTHON'
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

noon = pl.Series("at", [datetime(2026, 7, 1, 12)], pl.Datetime("us"))
tables = {"wall": noon, "utc": noon.dt.replace_time_zone("UTC"), "milliseconds": noon.cast(pl.Datetime("ms"))}


def read(*names):
    """Return what Polars makes of a folder of these tables."""
    folder = Path("-".join(names))
    folder.mkdir()
    for number, name in enumerate(names):
        tables[name].to_frame().write_parquet(folder / f"{number}.parquet")
    return pl.read_parquet(folder)["at"]


wall, utc = read("wall", "utc"), read("utc", "wall")
print("polars", pl.__version__, wall.dtype, utc.dtype)
assert wall.dtype == pl.Datetime("us") and utc.dtype == pl.Datetime("us", "UTC")
assert wall.to_list() == [datetime(2026, 7, 1, 12)] * 2
assert {moment.utcoffset() for moment in utc} == {timedelta(0)} and len(set(utc)) == 1
try:
    read("milliseconds", "wall")
except pl.exceptions.SchemaError as error:
    print(error)
else:
    raise AssertionError("units were mixed")
PYTHON
