"""Terminal output of loads, of the ledger of runs and of the emulator, with progress and log."""

import logging
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from letters_source.cli.output import silence_output
from letters_source.config.installation import letters_command, python_command
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.results import Audit, Result, Run
from letters_source.tables import TABLES

if TYPE_CHECKING:
    # imported at run time, a web server and rich would delay every load, and dlt a check
    import dlt
    from rich.console import Console
    from rich.table import Table

    from letters_source.destination.place import Place
    from letters_source.emulator import Emulator

PADDING = 3
"""The width of the frame and the spaces around a cell."""
LARGEST_STATES = "select state, count(*) as contacts group by state order by contacts desc limit 5"
NARROW = 72
"""The width from which a table of runs folds its outcomes and datasets; below, it would fold each word."""
LEAST_PLACE = 20
"""The characters without which places are not shown."""


@cache
def console(*, stderr: bool = False) -> "Console":
    """Return the console of results, or of progress and log."""
    from rich.console import Console

    class ResultConsole(Console):
        """A console whose reader may leave: `letters load | head -1` is not a failed load."""

        def on_broken_pipe(self) -> None:
            """Stop printing; by default, rich would end the process with exit code 1."""
            silence_output()

    # without a terminal, rich would cut tables at 80 columns
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream is not None and stream.isatty() else 200
    return ResultConsole(stderr=stderr, width=width, soft_wrap=True, markup=False, emoji=False, highlight=False)


def is_watched() -> bool:
    """Return whether stderr is a terminal; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def start_logging(*, quiet: bool, debug: bool) -> None:
    """Log to stderr: warnings; a line per listing where no progress is shown; with `debug` a line per page."""
    logger = logging.getLogger("letters_source")
    usual = logging.WARNING if quiet or is_watched() else logging.INFO
    logger.setLevel(logging.DEBUG if debug else usual)
    logger.addHandler(log_handler(show_time=debug))


def log_handler(*, show_time: bool) -> logging.Handler:
    """Return a handler that keeps log lines clear of the progress bars; plain and unwrapped without a terminal."""
    if is_watched():
        from rich.logging import RichHandler

        return RichHandler(console=console(stderr=True), show_path=False, show_time=show_time, markup=False)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    return handler


def show_loads(
    results: Mapping[str, Result], pipelines: "Mapping[str, dlt.Pipeline]", settings: Mapping[str, Any]
) -> None:
    """Print what was loaded for each account, and where the published copy is."""
    from letters_source.destination.kinds import place_of

    for account, result in results.items():
        if len(results) > 1:
            console().print(f"Account {account}:")
        show_result(result, place_of(pipelines[account]))
    if file := settings.get("publish"):
        console().print(f"Published for readers: {file.absolute()}")


@contextmanager
def shown_progress(*, quiet: bool, unit: str = "rows") -> Iterator[ProgressCallback]:
    """Show progress on stderr while the block runs, if stderr is a terminal."""
    if quiet or not is_watched():
        yield no_progress
        return
    from letters_source.cli.progress import progress_on

    with progress_on(console(stderr=True), unit) as progress:
        yield progress


def show_result(result: Result, place: "Place") -> None:
    """Print the tables, how each listing was read, where the data is, and a query to try."""
    table = make_table("table", "rows", "verdict", "seconds", "requests")
    for name, rows in result.tables.items():
        own = [audit for audit in result.audits if audit["listing"] == name]
        verdicts = " and ".join(sorted({verdict_of(audit) for audit in own}))
        seconds, requests = sum(audit["seconds"] for audit in own), sum(audit["requests"] for audit in own)
        table.add_row(name, f"{rows:,}", *((verdicts, f"{seconds:.1f}", f"{requests:,}") if own else ()))
    print_table(table)
    console().print(f"Loaded and verified in {result.seconds:.1f} s: {place.address}, dataset {place.dataset}")
    # audits of mailings have a mode of their own
    is_history = any(audit["mode"] == "history" for audit in result.audits)
    code = place.kind.example_code(place, "contacts_current" if is_history else "contacts", LARGEST_STATES)
    if code and result.tables.get("contacts"):
        console().print(f"Try: {python_command()} -c {shlex.quote(code)}")


def show_query(file: Path, query: str) -> None:
    """Print the command that runs a query on a file."""
    console().print(f"Or: {letters_command()} query {shlex.quote(query)} --from {shlex.quote(str(file))}")


def verdict_of(audit: Audit) -> str:
    """Return the verdict of an audit, or `ignored` for a facet whose filter the service ignores: nothing is loaded."""
    is_facet = any(table.name == audit["listing"] for table in TABLES if table.origin == "facet")
    return "ignored" if is_facet and audit["count_last"] and not audit["rows_yielded"] else audit["verdict"]


def show_service(base_url: str, emulator: "Emulator") -> None:
    """Print how to use the emulator, as lines to paste into a shell."""
    console().print(
        f"export SOURCES__LETTERS__BASE_URL={base_url}\n"
        f"export SOURCES__LETTERS__ACCESS_TOKEN={emulator.access_token}\n"
        f"export SOURCES__LETTERS__REFRESH_TOKEN={emulator.refresh_token}\n"
        f"# {emulator.contacts.count:,} contacts and {emulator.templates.count:,} templates until Ctrl-C; "
        "set these in another shell, then run: letters load"
    )


def make_table(first: str, *figures: str) -> "Table":
    """Return a table with names in the first column and right-aligned figures in the others."""
    from rich.table import Table

    table = Table()
    table.add_column(first, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_table(table: "Table") -> None:
    """Print a table; on a narrow terminal without its last columns, so that no figure is cut."""
    screen = console()
    while screen.is_terminal and len(table.columns) > 2 and full_width(table) > screen.width:
        table.columns.pop()
    screen.print(table)


def full_width(table: "Table") -> int:
    """Return how many characters wide a table is where nothing folds."""
    screen = console()
    return screen.measure(table, options=screen.options.update(width=1_000)).maximum


def show_runs(runs: Sequence[Run], *, as_json: bool) -> None:
    """Print runs of the ledger, as a JSON array or a table; narrow terminals get no places, or two lines a run."""
    if as_json:
        click.echo(msgspec.json.encode(runs).decode())
        return
    table, screen = runs_table(runs), console()
    room = screen.width - full_width(table) - PADDING
    if screen.is_terminal and room < -PADDING and screen.width < NARROW:
        print_run_lines(runs)
    else:
        screen.print(table if room < LEAST_PLACE else runs_table(runs, place_width=room))


def print_run_lines(runs: Sequence[Run]) -> None:
    """Print two lines for each run: when it began and how it ended, then the figures and the dataset."""
    for each in runs:
        rows = f"{each.rows:,} rows, " if each.load_id else ""
        console().print(f"{each.started_at:%Y-%m-%d %H:%M:%S}  {each.ending}", soft_wrap=False)
        console().print(f"  {rows}{each.seconds:.1f} s, {each.dataset}", soft_wrap=False)


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
