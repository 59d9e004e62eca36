"""Loads an emulator of the service, so that `letters demo` works without settings."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from letters_source.cli.display import show_loads, show_query, shown_progress
from letters_source.destination.pipeline import make_pipeline
from letters_source.emulator import Emulator
from letters_source.errors import DestinationError
from letters_source.load import run
from letters_source.tables import DATASET

NAME = "letters_demo"
MAILINGS = timedelta(weeks=12)
LABELS = "SELECT title, count(*) AS contacts FROM contacts__contact_labels GROUP BY ALL ORDER BY ALL"


def load_demo(contacts: int, file: Path, *, quiet: bool) -> None:
    """Serve the emulator, load it with facets and mailings into a DuckDB file, and show the tables."""
    check_ours(file)
    today = datetime.now(UTC).date()
    emulator = Emulator(contacts, today=today)
    with emulator.serve() as base_url:
        tokens = {"access_token": emulator.access_token, "refresh_token": emulator.refresh_token}
        pipeline = make_pipeline("duckdb", file, name=NAME)
        # a demo may have fewer contacts than the one before, and has another port
        guards = {"allow_empty": True, "max_shrink": 1.0, "allow_other_service": True}
        extras = {"facets": True, "mailings": True, "mailings_since": today - MAILINGS, "mailings_window": 7}
        # the emulator is on this machine
        own = {"base_url": base_url, "proxy": "", **tokens}
        settings: dict[str, Any] = {**own, **guards, **extras}
        with shown_progress(quiet=quiet) as progress:
            result = run(pipeline, progress=progress, **settings)
        if not quiet:
            show_loads({"": result}, {"": pipeline}, settings)
            show_query(file, LABELS)


def check_ours(file: Path) -> None:
    """Raise `DestinationError` if another pipeline loaded the file's dataset, whose rows the demo would replace."""
    # DuckDB waits forever at a named pipe
    if not (os.path.exists(file) and file.is_file()):
        return
    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            found = connection.sql(f"SELECT DISTINCT pipeline_name FROM {DATASET}._dlt_pipeline_state").fetchall()
    except duckdb.Error:
        # no such dataset; the preflight of the load reports anything else
        return
    if any(name != NAME for [name] in found):
        raise DestinationError(f"{file} contains data that the demo would replace", advice="choose another $to.")
