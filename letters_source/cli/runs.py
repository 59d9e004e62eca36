"""Prints the last loads on this machine: a table, or a JSON array."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from letters_source.cli.display import console, full_width, print_table
from letters_source.results import Run

if TYPE_CHECKING:
    # imported at run time, rich would delay the JSON array
    from rich.table import Table

PADDING = 3
"""The width of the frame and the spaces around a cell."""
LEAST_PLACE = 20
"""The characters without which places are not shown."""


def show_runs(runs: Sequence[Run], *, as_json: bool) -> None:
    """Print runs of the ledger, as a JSON array or a table; places fold, and narrow terminals do without them."""
    if as_json:
        click.echo(msgspec.json.encode(runs).decode())
        return
    table = runs_table(runs)
    room = console().width - full_width(table) - PADDING
    print_table(table if room < LEAST_PLACE else runs_table(runs, place_width=room))


def runs_table(runs: Sequence[Run], *, place_width: int = 0) -> "Table":
    """Return a row for each run; places wrap in a column of the given width, and 0 leaves the column out."""
    from rich.table import Table

    table = Table()
    table.add_column("started (UTC)", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for name in ("rows", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("dataset", overflow="fold")
    if place_width:
        table.add_column("where", overflow="fold", max_width=place_width)
    for each in runs:
        rows = f"{each.rows:,}" if each.load_id else ""
        started = f"{each.started_at:%Y-%m-%d %H:%M:%S}"
        cells = started, each.ending, rows, f"{each.seconds:.1f}", each.dataset, each.place or each.destination
        table.add_row(*cells[: len(table.columns)])
    return table
