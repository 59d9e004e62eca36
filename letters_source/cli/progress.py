"""Progress at a terminal: a bar for each pass over a listing, and the phase of the load below them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from letters_source.pagination.reader import ProgressCallback
from letters_source.tables import MAILINGS
from letters_source.telemetry import PHASES


class Name(ProgressColumn):
    """The name of a bar; a long one loses its beginning, because the names of a facet's bars differ at their ends."""

    def __init__(self, width: int) -> None:
        super().__init__(Column(no_wrap=True))
        self.width = width

    def render(self, task: Task) -> Text:
        """Return the name, or its end."""
        name = task.description
        return Text(name if len(name) <= self.width else f"…{name[1 - self.width :]}")


class Rate(ProgressColumn):
    """How much is done per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


class PhaseProgress(Progress):
    """Progress bars with the phase of the load below them, which wraps where it is longer than a line."""

    def __init__(self, console: Console) -> None:
        # before rich draws for the first time
        self.phase, self.spinner = "", Spinner("dots")
        super().__init__(*columns(console.width), console=console)

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, then the phase; rich calls this."""
        yield from super().get_renderables()
        if self.phase:
            line = Table.grid(padding=(0, 1))
            line.add_row(self.spinner, Text(self.phase))
            yield line


class Bars:
    """A progress bar for each pass over a listing: rows read of the service's count; days for mailings."""

    def __init__(self, progress: Progress, unit: str) -> None:
        self.progress, self.unit = progress, unit
        self.tasks: dict[tuple[str, int], TaskID] = {}

    def advance(self, listing: str, walk: int, rows: int, count: int) -> None:
        """Advance by one response, but not past the count, because some rows are read twice."""
        if (listing, walk) not in self.tasks:
            words = listing if walk == 1 else f"{listing}, pass {walk}"
            unit = "days" if listing == MAILINGS.name else self.unit
            self.tasks[listing, walk] = self.progress.add_task(words, total=count, unit=unit)
        task = self.progress.tasks[self.tasks[listing, walk]]
        self.progress.update(task.id, total=count, completed=min(task.completed + rows, count))


class PhaseLine(logging.Handler):
    """Shows the newest phase below the bars."""

    def __init__(self, progress: PhaseProgress) -> None:
        super().__init__()
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Replace the phase that is shown."""
        self.progress.phase = record.getMessage()


def columns(width: int) -> list[ProgressColumn]:
    """Return the columns that fit into a terminal of this width: amounts always, names cut short if need be."""
    amount = TextColumn(
        "{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}", table_column=Column(no_wrap=True)
    )
    # for each column, the least width of a terminal that shows it, and its own width
    before = [(50, 2, SpinnerColumn())]
    after = [(80, 15, BarColumn(14)), (0, 25, amount), (90, 10, Rate()), (60, 7, TimeRemainingColumn(compact=True))]
    room = width - sum(own for least, own, _ in (*before, *after) if width >= least)
    return [
        *(column for least, _, column in before if width >= least),
        Name(max(room, 2)),
        *(column for least, _, column in after if width >= least),
    ]


@contextmanager
def progress_on(console: Console, unit: str) -> Iterator[ProgressCallback]:
    """Show progress on a console while the block runs."""
    with PhaseProgress(console) as bars:
        line = PhaseLine(bars)
        PHASES.addHandler(line)
        level, PHASES.propagate = PHASES.level, False
        PHASES.setLevel(logging.DEBUG)
        try:
            yield Bars(bars, unit).advance
            bars.phase = ""
        finally:
            PHASES.removeHandler(line)
            PHASES.setLevel(level)
            PHASES.propagate = True
