"""Progress at a terminal: bars continue while phases come and go."""

import io
import logging
import re
from contextlib import suppress

import pytest
from rich.console import Console

from letters_source.cli.progress import progress_on
from letters_source.telemetry import PHASES


@pytest.mark.parametrize("width", [40, 60, 100])
def test_phases_that_are_replaced_leave_bars_alone(width: int) -> None:
    """Progress bars reach their totals after phases have replaced one another."""
    out = io.StringIO()
    screen = Console(file=out, force_terminal=True, width=width)
    with progress_on(screen, "rows") as progress:
        for phase in ("waiting", "reading the service"):
            PHASES.info(phase)
        for listing in ("templates", "contacts"):
            progress(listing, 1, 7, 14)
            progress(listing, 1, 9, 14)
    # what rich draws last, because it redraws all bars each time
    assert out.getvalue().rpartition("templates")[2].count("14/14 rows") == 2
    assert (PHASES.handlers, PHASES.level, PHASES.propagate) == ([], logging.NOTSET, True)


STATUSES = "contacts__last_mailed_statuses"
FACETS = (f"{STATUSES} In Transit", f"{STATUSES} Mailed", "templates__shared True")
WAITING = "waiting: A load of dlt's pipeline letters is already running, pid 12345"


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (40, ["…ses In Transit", "…tatuses Mailed", "…s__shared True"]),
        (60, ["…ailed_statuses In Transit", "…st_mailed_statuses Mailed", "templates__shared True"]),
        (100, list(FACETS)),
    ],
)
def test_bars_and_phases_can_be_distinguished_at_any_width(width: int, names: list[str]) -> None:
    """Bars of facets keep the ends of their names, where they differ; a long phase wraps instead of being cut."""
    out = io.StringIO()
    with suppress(KeyboardInterrupt), progress_on(Console(file=out, width=width), "rows") as progress:
        for name in FACETS:
            progress(name, 1, 1_000_000, 1_000_000)
        PHASES.info(WAITING)
        raise KeyboardInterrupt
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert [re.split(" [━1]", line)[0].strip() for line in lines[:3]] == names
    assert all("1,000,000/1,000,000 rows" in line for line in lines[:3])
    # after the spinner
    assert " ".join(lines[3:])[2:] == WAITING
