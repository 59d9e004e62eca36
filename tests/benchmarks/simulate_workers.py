"""How long do 1 to 1,000 workers take to read up to a billion contacts, and what limits them?

    python tests/benchmarks/simulate_workers.py [--processes N] [--check] [--write]

Workers that read ranges of the contacts are simulated in virtual time: pages without keys where rows do not change,
and rows where they do. `--check` also reads six cases over HTTP, each three times, in processes of their own, and
`--only-check` does nothing else. `--write` puts the tables between the markers of the README.md next to this file.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from read_ranges import Measured, read_ranges

from report import show_blocks, table_of
from service import Service, serve
from simulated_service import Drift, Kind, Place
from virtual_service import Profile
from virtual_workers import Costs, Fleet, Run, count_pages, read_rows, rows_added

ROWS = (1_000_000, 100_000_000, 1_000_000_000)
WORKERS = (1, 10, 100, 1_000)
SERVICES = (
    Profile(latency=0.2, at_once=16),
    Profile(latency=0.2, at_once=256),
    Profile(latency=0.2, at_once=10_000),
    Profile(latency=0.2, at_once=10_000, rate_limit=20, retry_after=1),
)
# of a process, and of each row that it reads: the slope between 50,000 and 200,000 rows read by read_ranges.py
WORKER_MB, WORKER_BYTES = 215, 400

DRIFT: tuple[tuple[Kind, Place], ...] = (("insert", "front"), ("delete", "anywhere"), ("swap", "end"))
# smaller pages than real ones: rows may shift by more of them
DRIFTING = Fleet(profile=Profile(latency=0.2, rows=100_000), workers=4, page_size=50, at_once=1)
SHIFTS = (1, 2, 4, 8, 16)
"""How many rows change while all ranges are read, in pages."""
WALKS = 10

HEAD = (
    "| latency ms | served at once | limit a second | workers | 1e6, s | 1e8, min | 1e9, h | bottleneck "
    "| requests for 1e9 | memory a worker for 1e9, GB |"
)
DRIFT_HEAD = "| changes | place |" + " 1 page |" + "".join(f" {pages} pages |" for pages in SHIFTS[1:])
CHECK_HEAD = "| case | latency ms | rows | workers | simulated s | over HTTP s | ratio | the three ratios |"


@dataclass(frozen=True, slots=True)
class Line:
    """A service, a number of workers, and what they take for each number of rows."""

    profile: Profile
    workers: int
    runs: Sequence[Run]

    def cells(self) -> list[str]:
        """The line of the table."""
        last, limit = self.runs[-1], self.profile.rate_limit
        hours = [duration_of(run, unit) for run, unit in zip(self.runs, (1, 60, 3_600), strict=True)]
        service = f"{1000 * self.profile.latency:g}", f"{self.profile.at_once:,}", f"{limit:,g}" if limit else "none"
        memory = (WORKER_MB * 1e6 + WORKER_BYTES * ROWS[-1] / self.workers) / 1e9
        end = "" if last.fault else last.bottleneck, f"{last.requests:,}"
        return [*service, f"{self.workers:,}", *hours, *end, f"{memory:,.1f}"]


def duration_of(run: Run, unit: float) -> str:
    """How long a run took, or why it ended."""
    length = run.seconds / unit
    return run.fault or (f"{length:,.1f}" if length >= 1 else f"{length:.2f}")


def fleet_of(profile: Profile, workers: int, rows: int) -> Fleet:
    """Workers that share the service's limit."""
    rate = profile.rate_limit and profile.rate_limit / workers
    return Fleet(profile=replace(profile, rows=rows), workers=workers, rate=rate)


def line_of(service: tuple[Profile, int]) -> Line:
    """Simulate workers at a service."""
    return Line(*service, [count_pages(fleet_of(*service, rows)) for rows in ROWS])


def refusals(kind: Kind, place: Place) -> list[str]:
    """A line of the table of walks in ranges that were refused, by how much changes meanwhile."""
    still = count_pages(DRIFTING)
    cells = []
    for pages in SHIFTS:
        profile = replace(DRIFTING.profile, drift=Drift(kind, place, 0))
        fleet = replace(DRIFTING, profile=profile, changes=pages * DRIFTING.page_size / still.seconds)
        runs = [read_rows(fleet, seed) for seed in range(WALKS)]
        cells.append(f"{sum(bool(run.fault) for run in runs)} of {WALKS}")
    return [kind, place, *cells]


@dataclass(frozen=True, slots=True)
class Case:
    """A fleet to simulate, and to measure at the emulator."""

    name: str
    fleet: Fleet

    @property
    def is_still(self) -> bool:
        """Whether its rows do not change."""
        return not self.fleet.changes

    def simulate(self, costs: Costs) -> Run:
        """Simulate it with costs measured just before."""
        fleet = replace(self.fleet, costs=costs)
        return count_pages(fleet) if self.is_still else read_rows(fleet)

    def measure(self, service: Service, run: Run) -> Measured:
        """Read it over HTTP; rows change as often as in the run simulated."""
        profile, fleet = self.fleet.profile, self.fleet
        rate = 0 if self.is_still else fleet.changes * run.seconds / run.requests
        drift = profile.drift
        service.behave(
            latency_ms=1000 * profile.latency,
            at_once=profile.at_once,
            rate_limit=profile.rate_limit,
            retry_after=profile.retry_after,
            drift=[{"kind": drift.kind, "place": drift.place, "rate": rate}] if rate else [],
        )
        own = {"page_size": fleet.page_size, "max_workers": fleet.at_once, "requests_per_second": fleet.rate}
        return read_ranges({**service.settings, **own}, fleet.workers)


HELD = 40_000
AT_ONCE = Profile(latency=0, rows=HELD)
SLOW = replace(AT_ONCE, latency=1)
CASES = (
    Case("one worker, latency", Fleet(profile=SLOW, page_size=200)),
    Case("two workers, latency", Fleet(profile=SLOW, page_size=200, workers=2)),
    Case("four served at once", Fleet(profile=replace(AT_ONCE, latency=0.2, at_once=4), page_size=200, workers=2)),
    Case(
        "20 requests a second",
        Fleet(profile=replace(AT_ONCE, latency=0.1, rate_limit=20), page_size=200, workers=2, rate=10),
    ),
    Case(
        "20 changes a second",
        Fleet(
            profile=replace(AT_ONCE, latency=0.2, drift=Drift("swap", "end", 0)),
            page_size=200,
            workers=2,
            at_once=2,
            changes=20,
        ),
    ),
    # a tenth of the rows takes half a second, much of it start-up costs of each process
    Case("one worker, CPU", Fleet(profile=replace(AT_ONCE, rows=10 * HELD), page_size=300)),
)


def calibrate(service: Service, held: int) -> Costs:
    """What a page and a row cost at the moment, without latency, with pages of two sizes."""
    cases = [Case("", Fleet(profile=replace(AT_ONCE, rows=held), page_size=size)) for size in (1_000, 100)]
    large, small = (case.measure(service, case.simulate(Costs())) for case in cases)
    pages = [round(held / rows_added(case.fleet.page_size)) for case in cases]
    rows = [count * case.fleet.page_size for count, case in zip(pages, cases, strict=True)]
    page = (small.reading - large.reading * rows[1] / rows[0]) / (pages[1] - pages[0] * rows[1] / rows[0])
    row = (large.reading - pages[0] * page) / rows[0]
    return Costs(page, row, large.writing / held, large.judging / held)


def check(times: int) -> list[list[str]]:
    """The cases simulated and measured some times in turn, each time with costs of the minute."""
    runs: dict[str, list[tuple[float, float]]] = {case.name: [] for case in CASES}
    for held in sorted({case.fleet.profile.rows for case in CASES}):
        cases = [case for case in CASES if case.fleet.profile.rows == held]
        with serve(held, 1) as service:
            for _ in range(times):
                costs = calibrate(service, held)
                for case in cases:
                    run = case.simulate(costs)
                    measured = case.measure(service, run)
                    print(case.name, run, measured, costs, sep="\n", file=sys.stderr, flush=True)
                    runs[case.name].append((run.seconds, measured.seconds))
    return [check_line(case, runs[case.name]) for case in CASES]


def check_line(case: Case, runs: Sequence[tuple[float, float]]) -> list[str]:
    """A line of the table of cases that were measured."""
    fleet, ratios = case.fleet, sorted(measured / simulated for simulated, measured in runs)
    shape = f"{1000 * fleet.profile.latency:g}", f"{fleet.profile.rows:,}", str(fleet.workers)
    seconds = [f"{median(column):.1f}" for column in zip(*runs, strict=True)]
    return [case.name, *shape, *seconds, f"{median(ratios):.2f}", ", ".join(f"{ratio:.2f}" for ratio in ratios)]


def main() -> None:
    """Simulate, measure if requested, print the tables, and write them if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2, help="processes to simulate in (default %(default)s)")
    parser.add_argument("--check", action="store_true", help="also read six cases over HTTP")
    parser.add_argument("--only-check", action="store_true", help="simulate nothing else")
    parser.add_argument("--write", action="store_true", help="put the tables into the README.md next to this file")
    arguments = parser.parse_args()
    texts = {}
    if arguments.check or arguments.only_check:
        texts["workers_http"] = table_of(CHECK_HEAD, check(3))
    if not arguments.only_check:
        with ProcessPoolExecutor(arguments.processes) as pool:
            lines = pool.map(line_of, product(SERVICES, WORKERS))
            texts["refusals"] = table_of(DRIFT_HEAD, list(pool.map(refusals, *zip(*DRIFT, strict=True))))
            texts["workers"] = table_of(HEAD, [line.cells() for line in lines])
    show_blocks(texts, write=arguments.write)


if __name__ == "__main__":
    main()
