"""How often is a walk over a changing listing accepted, refused, or wrong?

    python tests/benchmarks/simulate_walks.py [--walks N] [--processes N] [--write]

A wrong continuous or exact verdict is printed on stderr at once, with its scenario. `--write` puts the table between
the markers of the README.md next to this file. The same number of walks always gives the same table.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).parents[1]))

from letters_source.pagination.passes import pages_of
from letters_source.pagination.verdicts import VerdictName
from letters_source.pagination.wanted import Proof
from report import write_block
from simulated_service import Drift, Kind, Outcome, Place, Scenario, simulate

CHANGES = (0, 1, 3, 10)
"""Changes while as many responses come as there are pages."""
RATES = (0.25, 1.0)
"""Changes before each response."""
WINDOWS = (1, 2, 4, 8, 16)
# pages and page size, taken in turn; each meets each window once in as many walks as both have in all
SHAPES = (
    *((1, 100), (2, 50), (4, 100), (8, 30), (11, 500), (16, 50), (24, 500), (32, 100), (48, 500)),
    *((100, 30), (100, 50), (100, 100), (100, 500), (160, 50), (240, 100), (350, 30), (500, 50), (1_000, 30)),
)
SHAPES_IN_WORDS = "Listings have 1 to 1,000 pages of 30 to 500 rows; half of them have 100 pages or more."
LONG = 100
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)

HEAD = (
    "| requested proof | kind | place | changes | walks | stable | continuous | exact | refused "
    "| wrong stable | wrong continuous | wrong exact | requests / n | after a change |\n" + "|---" * 14 + "|"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A line of the table: the proof requested of its walks, and how the listing changes.

    That is `changes` times while n responses come, or `rate` times before each.
    """

    number: int
    proof: Proof
    kind: Kind
    place: Place
    changes: int | None
    rate: float = 0

    @property
    def frequency(self) -> str:
        """The changes, as the table shows them."""
        return f"{self.rate:g} per response" if self.changes is None else f"{self.changes} in n"

    def scenarios(self, walks: int) -> Iterator[Scenario]:
        """The walks of this cell, windows and shapes taken in turn, no seed used twice."""
        for index in range(walks):
            seed = self.number * 1_000_000 + index
            pages, page_size = SHAPES[index % len(SHAPES)]
            rate = self.rate if self.changes is None else min(1, self.changes / pages)
            # the last page is short, as most are
            rows = pages * page_size - page_size // 3
            window = WINDOWS[index % len(WINDOWS)]
            # in every other round, the previous load saw a change, if the listing changes
            expects_change = rate > 0 and index // len(SHAPES) % 2 == 1
            drift = Drift(self.kind, self.place, rate)
            yield Scenario(drift, self.proof, seed, window, rows, page_size, expects_change)


@dataclass(frozen=True, slots=True)
class Walked:
    """A simulated walk, and how it ended."""

    scenario: Scenario
    outcome: Outcome

    @property
    def pages(self) -> int:
        """The number of pages at the beginning."""
        return pages_of(self.scenario.rows, self.scenario.page_size)


@dataclass(frozen=True, slots=True)
class Tally:
    """A cell and its walks."""

    cell: Cell
    walked: list[Walked]

    def line(self) -> str:
        """The cell's line of the table."""
        cell = self.cell
        endings = [count(self.walked, ending) for ending in (*VERDICTS, "refused")]
        wrong = [count(self.walked, ending, wrong=True) for ending in VERDICTS]
        requests = [
            requests_a_page(one for one in self.walked if one.scenario.expects_change is past) for past in (False, True)
        ]
        words = [cell.proof, cell.kind, cell.place, cell.frequency, len(self.walked), *endings, *wrong, *requests]
        return "| " + " | ".join(map(str, words)) + " |"


def requests_a_page(walked: Iterable[Walked]) -> str:
    """Return the requests for each page of the listings, empty if there is none."""
    figures = [(one.outcome.requests, one.pages) for one in walked]
    requests, pages = map(sum, zip(*figures, strict=True)) if figures else (0, 0)
    return f"{requests / pages:.2f}" if pages else ""


def count(walked: Iterable[Walked], ending: str, *, wrong: bool | None = None) -> int:
    """How many walks ended so; only the wrong or the right ones if requested."""
    return sum(one.outcome.ending == ending and wrong in (None, one.outcome.wrong) for one in walked)


def plan_cells() -> list[Cell]:
    """Every line of the table; deletes need no place, as rows leave anywhere."""
    weathers = [*((changes, 0.0) for changes in CHANGES), *((None, rate) for rate in RATES)]
    cells = product(get_args(Proof), get_args(Kind), get_args(Place), weathers)
    wanted = (cell for cell in cells if cell[1] != "delete" or cell[2] == "anywhere")
    return [
        Cell(number, proof, kind, place, changes, rate)
        for number, (proof, kind, place, (changes, rate)) in enumerate(wanted)
    ]


def walk_cell(cell: Cell, walks: int) -> Tally:
    """Simulate the walks of one cell."""
    walked = []
    for scenario in cell.scenarios(walks):
        outcome = simulate(scenario)
        walked.append(Walked(scenario, outcome))
        if outcome.wrong and outcome.ending != "stable":
            print(f"wrong {outcome.ending}: {scenario}", file=sys.stderr, flush=True)
    return Tally(cell, walked)


def summary(tallies: list[Tally]) -> str:
    """The totals that the table is about, in a few sentences."""
    walked = [one for tally in tallies for one in tally.walked]
    wrong = {ending: count(walked, ending, wrong=True) for ending in VERDICTS}
    swapped, moved, mixed, missed = (
        count((one for one in walked if one.scenario.drift.kind == kind), ending, wrong=True)
        for kind, ending in (("swap", "stable"), ("move", "stable"), ("mixture", "stable"), ("mixture", "continuous"))
    )
    return (
        f"{len(walked):,} walks. Continuous: {count(walked, 'continuous'):,}, wrong {missed} in a mixture "
        f"and {wrong['continuous'] - missed} elsewhere. "
        f"Exact: {count(walked, 'exact'):,}, wrong {wrong['exact']}. "
        f"Stable: {count(walked, 'stable'):,}, wrong {swapped} where rows are swapped, {moved} where they are "
        f"moved, {mixed} in a mixture, and {wrong['stable'] - swapped - moved - mixed} elsewhere. "
        f"Refused of the listings of {LONG} pages or more with proof continuous, at 10 changes: "
        f"{refused_shares(tallies, changes=10)}; at a change in four responses: {refused_shares(tallies, rate=0.25)}. "
        f"{SHAPES_IN_WORDS}"
    )


def refused_shares(tallies: list[Tally], *, changes: int | None = None, rate: float = 0) -> str:
    """The shares of long listings refused at one frequency of changes, without proof exact, by kind of change."""
    found = []
    for kind in get_args(Kind):
        cells = [tally for tally in tallies if (tally.cell.proof, tally.cell.kind) == ("continuous", kind)]
        these = [tally for tally in cells if (tally.cell.changes, tally.cell.rate) == (changes, rate)]
        long = [one for tally in these for one in tally.walked if one.pages >= LONG]
        found.append(f"{kind} {count(long, 'refused') / len(long):.1%}")
    return ", ".join(found)


def main() -> None:
    """Simulate, print the table, and write it if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", type=int, default=50_000, help="walks in all (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="processes to simulate in (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into the README.md next to this file")
    arguments = parser.parse_args()
    cells = plan_cells()
    each = -(-arguments.walks // len(cells))
    with ProcessPoolExecutor(arguments.processes) as pool:
        tallies = list(pool.map(walk_cell, cells, [each] * len(cells)))
    text = "\n".join([summary(tallies), "", HEAD, *(tally.line() for tally in tallies)])
    print(text)
    if arguments.write:
        write_block("simulation", text)


if __name__ == "__main__":
    main()
