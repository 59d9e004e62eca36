"""How often is a walk over a changing listing accepted, refused, or wrong?

    python tests/benchmarks/simulate_walks.py [--walks N] [--write]

`--write` puts the table between the markers of README.md beside this file. The same N always gives the same table.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).parents[1]))

from letters_source.pagination.walk import Proof
from report import write_block
from simulated_service import Kind, Outcome, Place, Scenario, Weather, simulate

RATES = (0, 0.01, 0.05, 0.1, 0.2)
WINDOWS = (1, 4, 8)
ROWS = (320, 320, 320, 320, 320, 320, 317, 20, 13, 7)
SHAPES = "Of ten walks six are over 32 full pages of 10 rows, one has a short last page, two have 2 pages, one has 1."

HEAD = (
    "| proof asked | kind | place | rate | walks | fenced | certified | refused "
    "| wrong fenced | wrong certified | mean requests |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A line of the table: what is asked of its walks, and in which weather."""

    number: int
    proof: Proof
    weather: Weather

    def scenarios(self, walks: int) -> Iterator[Scenario]:
        """The walks of this cell, windows and shapes taken in turn, no seed used twice."""
        for index in range(walks):
            seed = self.number * 1_000_000 + index
            window, rows = WINDOWS[index % 3], ROWS[index // 3 % 10]
            yield Scenario(self.weather, self.proof, seed, window, rows)


@dataclass(frozen=True, slots=True)
class Tally:
    """A cell and the outcomes of its walks."""

    cell: Cell
    outcomes: list[Outcome]

    def count(self, ending: str, *, wrong: bool | None = None) -> int:
        """How many walks ended so; only the wrong or the right ones if asked."""
        return sum(one.ending == ending and wrong in (None, one.wrong) for one in self.outcomes)

    def line(self) -> str:
        """The cell's line of the table."""
        weather = self.cell.weather
        place = "" if weather.kind == "delete" else weather.place
        endings = [self.count("fenced"), self.count("certified"), self.count("refused")]
        wrong = [self.count("fenced", wrong=True), self.count("certified", wrong=True)]
        requests = round(sum(one.requests for one in self.outcomes) / len(self.outcomes))
        words = [self.cell.proof, weather.kind, place, f"{weather.rate:g}", len(self.outcomes)]
        return "| " + " | ".join(str(word) for word in [*words, *endings, *wrong, requests]) + " |"


def plan_cells() -> list[Cell]:
    """Every line of the table; deletes need no place, as rows leave anywhere."""
    kinds: list[tuple[Kind, Place]] = [
        (kind, place)
        for kind, place in product(get_args(Kind), get_args(Place))
        if kind != "delete" or place == "anywhere"
    ]
    cells = product(get_args(Proof), kinds, RATES)
    return [Cell(number, proof, Weather(*kind, rate)) for number, (proof, kind, rate) in enumerate(cells)]


def walk_cell(cell: Cell, walks: int) -> Tally:
    """Simulate the walks of one cell."""
    return Tally(cell, [simulate(scenario) for scenario in cell.scenarios(walks)])


def summary(tallies: list[Tally]) -> str:
    """The totals that the table is about, in a sentence."""
    enter_anywhere = [
        tally for tally in tallies if tally.cell.weather.place == "anywhere" and tally.cell.weather.kind != "delete"
    ]
    walks = sum(len(tally.outcomes) for tally in tallies)
    certified = sum(tally.count("certified") for tally in tallies)
    wrong_certified = sum(tally.count("certified", wrong=True) for tally in tallies)
    fenced, wrong_fenced = fenced_figures(tallies)
    fenced_anywhere, wrong_anywhere = fenced_figures(enter_anywhere)
    return (
        f"{walks:,} walks. Certified: {certified:,}, wrong {wrong_certified}. "
        f"Fenced where rows enter at one end or only leave: {fenced - fenced_anywhere:,}, "
        f"wrong {wrong_fenced - wrong_anywhere}. "
        f"Fenced where rows enter anywhere: {fenced_anywhere:,}, wrong {wrong_anywhere}. {SHAPES}"
    )


def fenced_figures(tallies: list[Tally]) -> tuple[int, int]:
    """How many walks ended fenced, and how many of them were wrong."""
    return sum(tally.count("fenced") for tally in tallies), sum(tally.count("fenced", wrong=True) for tally in tallies)


def main() -> None:
    """Simulate, print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", type=int, default=21_000, help="walks in all (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into README.md beside this file")
    asked = parser.parse_args()
    cells = plan_cells()
    each = -(-asked.walks // len(cells))
    with ProcessPoolExecutor(2) as pool:
        tallies = list(pool.map(walk_cell, cells, [each] * len(cells)))
    text = "\n".join([summary(tallies), "", HEAD, *(tally.line() for tally in tallies)])
    print(text)
    if asked.write:
        write_block("simulation", text)


if __name__ == "__main__":
    main()
