"""Folders with the files of many loads can be read."""

import shutil
import subprocess
import sys

from worlds import Begin

from letters_source.destination.kinds import place_of
from letters_source.destination.sql import fetch_rows
from programmable_emulator import Emulator

READ_AGAIN_AND_AGAIN = """
import sys
from letters_source import make_pipeline
from letters_source.destination.audits import finished_audits, open_held
from letters_source.destination.kinds import place_of
# threads take turns so often that two which wait for each other meet within seconds
sys.setswitchinterval(1e-6)
pipeline = make_pipeline("parquet", sys.argv[1])
pipeline.sync_destination()
found = []
for _ in range(25):
    with open_held(place_of(pipeline)) as client:
        found.append(len(finished_audits(client, "contacts")))
print(found)
"""


def test_reading_many_files_never_waits_for_itself(begin: Begin) -> None:
    """Reading a table of many small files cannot deadlock between DuckDB and Python's lock."""
    world = begin(Emulator(30, 7), "parquet")
    world.load()
    [audit] = (world.place / "letters_data/listing_audit").glob("*.parquet")
    for number in range(150):
        shutil.copy(audit, audit.with_stem(f"{audit.stem}.{number}"))
    read = [sys.executable, "-c", READ_AGAIN_AND_AGAIN, str(world.place)]
    done = subprocess.run(read, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == f"{[151] * 25}\n"


def test_duckdb_opens_the_files_of_a_table_itself(begin: Begin) -> None:
    """DuckDB reads Parquet folders itself, so that its threads never wait for Python's lock."""
    world = begin(Emulator(30, 7), "parquet")
    world.load()
    place = place_of(world.pipeline)
    with place.kind.open_sql(place, "") as client:
        [[_, plan]] = fetch_rows(client, f"EXPLAIN FROM {client.make_qualified_table_name('contacts')}")
    assert "PARQUET" in plan
    assert "ARROW" not in plan
