"""How often is a walk over a changing listing accepted, refused, or wrong?

    python tests/benchmarks/simulate_walks.py [--walks N] [--processes N] [--write]

A wrong continuous or exact verdict is told on stderr at once, with its scenario. `--write` puts the table between the
markers of README.md beside this file. The same number of walks always gives the same table.
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

from letters_source.pagination.walk import Proof, VerdictName, pages_of
from report import write_block
from simulated_service import Kind, Outcome, Place, Scenario, Weather, simulate

CHANGES = (0, 1, 3, 10, 25)
WINDOWS = (1, 8, 16)
# rows and page size; 20 shapes and 3 windows, taken in turn, give all pairs in 60 walks
LARGE = ((5_000, 50), (10_000, 100), (4_983, 50), (3_000, 100), (9_991, 100), (5_000, 50))
SHAPES = (*LARGE, (250, 100), *LARGE, (100, 50), *LARGE[:5], (70, 100))
SHAPES_TOLD = (
    "Of 20 walks 14 are over 100 pages of 50 or 100 rows, three over 30 pages of 100, and three over 1 to 3 pages."
)
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)

HEAD = (
    "| proof asked | kind | place | changes | walks | stable | continuous | exact | refused "
    "| wrong stable | wrong continuous | wrong exact | requests / n |\n" + "|---" * 13 + "|"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A line of the table: what is asked of its walks, and how the listing changes, `changes` times in n answers."""

    number: int
    proof: Proof
    kind: Kind
    place: Place
    changes: int

    def scenarios(self, walks: int) -> Iterator[Scenario]:
        """The walks of this cell, windows and shapes taken in turn, no seed used twice."""
        for index in range(walks):
            seed = self.number * 1_000_000 + index
            rows, page_size = SHAPES[index % len(SHAPES)]
            weather = Weather(self.kind, self.place, min(1, self.changes / pages_of(rows, page_size)))
            yield Scenario(weather, self.proof, seed, WINDOWS[index % 3], rows, page_size)


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
        requests = sum(one.outcome.requests for one in self.walked) / sum(one.pages for one in self.walked)
        words = [cell.proof, cell.kind, cell.place, cell.changes, len(self.walked), *endings, *wrong, f"{requests:.2f}"]
        return "| " + " | ".join(map(str, words)) + " |"


def count(walked: Iterable[Walked], ending: str, *, wrong: bool | None = None) -> int:
    """How many walks ended so; only the wrong or the right ones if asked."""
    return sum(one.outcome.ending == ending and wrong in (None, one.outcome.wrong) for one in walked)


def plan_cells() -> list[Cell]:
    """Every line of the table; deletes need no place, as rows leave anywhere."""
    cells = product(get_args(Proof), get_args(Kind), get_args(Place), CHANGES)
    wanted = (cell for cell in cells if cell[1] != "delete" or cell[2] == "anywhere")
    return [Cell(number, *cell) for number, cell in enumerate(wanted)]


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
    swapped, moved = (
        count((one for one in walked if one.scenario.weather.kind == kind), "stable", wrong=True)
        for kind in ("swap", "move")
    )
    refused = ", ".join(f"{kind} {refused_share(tallies, kind):.0%}" for kind in get_args(Kind))
    return (
        f"{len(walked):,} walks. Continuous: {count(walked, 'continuous'):,}, wrong {wrong['continuous']}. "
        f"Exact: {count(walked, 'exact'):,}, wrong {wrong['exact']}. "
        f"Stable: {count(walked, 'stable'):,}, wrong {swapped} where rows are swapped and {moved} where they are "
        f"moved, both under an unchanged count, and {wrong['stable'] - swapped - moved} elsewhere. "
        f"Refused of the listings of 30 pages or more, at 10 changes and proof continuous: {refused}. {SHAPES_TOLD}"
    )


def refused_share(tallies: list[Tally], kind: Kind) -> float:
    """The share of large listings refused at 10 changes, if they need not be exact."""
    cells = [tally for tally in tallies if (tally.cell.proof, tally.cell.kind) == ("continuous", kind)]
    large = [one for tally in cells if tally.cell.changes == 10 for one in tally.walked if one.pages >= 30]
    return count(large, "refused") / len(large)


def main() -> None:
    """Simulate, print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", type=int, default=13_000, help="walks in all (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="processes to simulate in (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into README.md beside this file")
    asked = parser.parse_args()
    cells = plan_cells()
    each = -(-asked.walks // len(cells))
    with ProcessPoolExecutor(asked.processes) as pool:
        tallies = list(pool.map(walk_cell, cells, [each] * len(cells)))
    text = "\n".join([summary(tallies), "", HEAD, *(tally.line() for tally in tallies)])
    print(text)
    if asked.write:
        write_block("simulation", text)


if __name__ == "__main__":
    main()
