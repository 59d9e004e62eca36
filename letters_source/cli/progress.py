"""Progress at a terminal: the phase of a load, and a bar for each pass over a listing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
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
from rich.table import Column
from rich.text import Text

from letters_source.pagination.reader import ProgressCallback
from letters_source.tables import MAILINGS
from letters_source.telemetry import PHASES


class Amount(ProgressColumn):
    """How much is done, of how much."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """Return both numbers and their unit; nothing for a phase, whose extent is unknown."""
        text = "" if task.total is None else f"{task.completed:,.0f}/{task.total:,.0f} {task.fields['unit']}"
        return Text(text, no_wrap=True)


class Rate(ProgressColumn):
    """How much is done per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None or task.total is None else f"{speed:,.0f}/s")


class Bars:
    """A progress bar for each pass over a listing: rows read of the service's count; days for mailings."""

    def __init__(self, progress: Progress, unit: str) -> None:
        self.progress, self.unit = progress, unit
        self.tasks: dict[tuple[str, int], TaskID] = {}
        self.done: dict[TaskID, int] = {}

    def watch(self, listing: str, walk: int, rows: int, count: int) -> None:
        """Advance by one response, but not past the count, because some rows are read twice."""
        if (listing, walk) not in self.tasks:
            words = listing if walk == 1 else f"{listing}, pass {walk}"
            unit = "days" if listing == MAILINGS.name else self.unit
            self.tasks[listing, walk] = self.progress.add_task(words, total=count, unit=unit)
        task = self.tasks[listing, walk]
        # rich removes phases from its list of tasks, so a task's id is not its index there
        self.done[task] = min(self.done.get(task, 0) + rows, count)
        self.progress.update(task, total=count, completed=self.done[task])


class PhaseLine(logging.Handler):
    """Shows the newest phase below the bars."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress
        self.task: TaskID | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Replace the phase that is shown."""
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(record.getMessage(), total=None, unit="")


def columns(width: int) -> list[ProgressColumn]:
    """Return the columns that fit into a terminal of this width: amounts always, names cut short if need be."""
    # for each column, the least width of a terminal that shows it, and its own width
    before = [(50, 2, SpinnerColumn())]
    after = [(80, 15, BarColumn(14)), (0, 25, Amount()), (90, 10, Rate()), (60, 7, TimeRemainingColumn(compact=True))]
    room = width - sum(own for least, own, _ in (*before, *after) if width >= least)
    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=room))
    return [
        *(column for least, _, column in before if width >= least),
        name,
        *(column for least, _, column in after if width >= least),
    ]


@contextmanager
def progress_on(console: Console, unit: str) -> Iterator[ProgressCallback]:
    """Show progress on a console while the block runs."""
    with Progress(*columns(console.width), console=console) as bars:
        line = PhaseLine(bars)
        PHASES.addHandler(line)
        level, PHASES.propagate = PHASES.level, False
        PHASES.setLevel(logging.DEBUG)
        try:
            yield Bars(bars, unit).watch
        finally:
            PHASES.removeHandler(line)
            PHASES.setLevel(level)
            PHASES.propagate = True
