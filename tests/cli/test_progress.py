"""Progress at a terminal: bars go on whatever phases come and go."""

import io
import logging

import pytest
from rich.console import Console

from letters_source.cli.progress import progress_on
from letters_source.telemetry import PHASES


@pytest.mark.parametrize("width", [40, 60, 100])
def test_phases_that_are_replaced_leave_bars_alone(width: int) -> None:
    """Progress bars reach their totals after phases have replaced one another."""
    out = io.StringIO()
    screen = Console(file=out, force_terminal=True, width=width)
    with progress_on(screen, "rows") as watch:
        for phase in ("waiting", "reading the service"):
            PHASES.info(phase)
        for listing in ("templates", "contacts"):
            watch(listing, 1, 7, 14)
            watch(listing, 1, 9, 14)
    # what rich draws last, as it draws all bars anew each time
    assert out.getvalue().rpartition("templates")[2].count("14/14 rows") == 2
    assert (PHASES.handlers, PHASES.level, PHASES.propagate) == ([], logging.NOTSET, True)
