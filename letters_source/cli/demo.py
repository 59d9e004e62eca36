"""What does the demo load, and where may it?"""

import os
from pathlib import Path

import duckdb

from letters_source.cli.display import load_shown
from letters_source.destination.pipeline import make_pipeline
from letters_source.emulator import Emulator
from letters_source.errors import DestinationError
from letters_source.tables import DATASET

NAME = "letters_demo"


def load_demo(contacts: int, file: Path, *, quiet: bool) -> None:
    """Serve the emulator, load it into a DuckDB file, and show what is there.

    Raises:
        LettersError: as `run` does, or the file holds what is not the demo's.
    """
    check_ours(file)
    emulator = Emulator(contacts)
    with emulator.serve() as base_url:
        tokens = {"access_token": emulator.access_token, "refresh_token": emulator.refresh_token}
        pipeline = make_pipeline("duckdb", file, name=NAME)
        # another number of contacts than last time is what was asked for
        guards = {"allow_empty": True, "max_shrink": 1.0}
        load_shown(pipeline, (), {"base_url": base_url, **tokens, **guards}, quiet=quiet)


def check_ours(file: Path) -> None:
    """See that invented rows do not take the place of others.

    Raises:
        DestinationError: another pipeline loaded the file's dataset.
    """
    # DuckDB would wait at a pipe for ever
    if not (os.path.exists(file) and file.is_file()):
        return
    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            found = connection.sql(f"SELECT DISTINCT pipeline_name FROM {DATASET}._dlt_pipeline_state").fetchall()
    except duckdb.Error:
        # no such dataset; and what else may be wrong with the file, the load's own preflight tells
        return
    if any(name != NAME for [name] in found):
        raise DestinationError(f"{file} holds what is not the demo's, which would be replaced: choose another --to.")
