"""How close do loads without settings come to the best fixed settings, for services of many kinds?

    python tests/benchmarks/simulate_services.py [--processes N] [--http] [--write]

A walk over the contacts is simulated in virtual time with each page size, number of workers and rate of a grid, with
the previous defaults, and without settings. `--http` also reads four of the services over HTTP without settings, from
the emulator in its own process. `--write` puts the tables between the markers of the README.md next to this file.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from letters_source.config.settings import Settings
from letters_source.extract.listing import read_until_whole
from letters_source.service.pacing import ConcurrencyLimit, PageSize, RequestRate
from report import show_blocks, table_of
from service import serve
from simulated_service import Drift
from tasks import contacts_task
from virtual_service import QUIET, Pace, Profile, Timed, fixed_pace, time_walk

CEILING = Settings(base_url="", access_token="", refresh_token="").max_workers
PAGE_SIZES, WORKERS = (10, 100, 1_000), (1, 2, 4, 8, 16)
# what a load without settings used before it chose them itself
PREVIOUS = 100, 8
# a heavy tail makes one walk a matter of chance
WALKS_WITH_TAIL = 5

PROFILES = (
    Profile(latency=0.005),
    Profile(latency=0.005, at_once=2),
    Profile(latency=0.05, at_once=4, drift=Drift("mixed", "anywhere", 0.03)),
    Profile(latency=0.05, at_once=16, max_page_size=1_000, tail=1),
    Profile(latency=0.1, at_once=64, max_page_size=1_000, tail=1),
    Profile(latency=0.2, at_once=8, max_page_size=100, rows=100_000),
    Profile(latency=0.5, at_once=64),
    Profile(latency=0.5, at_once=2, tail=1),
    Profile(latency=0.05, at_once=16, max_page_size=10, rows=30_000),
    Profile(latency=0.05, at_once=64, max_page_size=100, rate_limit=200),
    Profile(latency=0.1, at_once=16, max_page_size=1_000, rate_limit=20, retry_after=1),
    Profile(latency=0.1, at_once=16, max_page_size=1_000, rate_limit=5, rate_style="windows"),
)
OVER_HTTP = (2, 5, 6, 10)
"""The places of those that are also read over HTTP, of each kind one."""

HEAD = (
    "| latency ms | tail | served at once | largest page | limit a second | rows | best fixed settings | s "
    "| previous defaults | no settings | requests refused |"
)
HTTP_HEAD = "| latency ms | served at once | largest page | limit a second | rows | simulated s | over HTTP s | ratio |"


@dataclass(frozen=True, slots=True)
class Compared:
    """A service, and the seconds of walks with the best fixed settings, the previous defaults, and none."""

    profile: Profile
    settings: tuple[int, int, float | None]
    best: float
    previous: float
    own: float
    refused: float

    def line(self) -> list[str]:
        """The service's line of the table."""
        size, workers, rate = self.settings
        chosen = f"{size:,} rows, {workers} workers" + (f", {rate:g} a second" if rate else "")
        shares = f"{self.previous / self.best:.2f}", f"{self.own / self.best:.2f}", f"{self.refused:.1%}"
        return [*traits(self.profile), chosen, f"{self.best:.2f}", *shares]


def traits(profile: Profile) -> list[str]:
    """The first cells of a service's line."""
    limit = f"{profile.rate_limit:g}, {profile.rate_style}" if profile.rate_limit else "none"
    largest = f"{profile.max_page_size:,}" if profile.max_page_size else "any"
    tail = "heavy" if profile.tail else "no"
    return [f"{1000 * profile.latency:g}", tail, str(profile.at_once), largest, limit, f"{profile.rows:,}"]


def compare(profile: Profile) -> Compared:
    """Simulate the walks of one service."""
    grid = {chosen: seconds(profile, *chosen) for chosen in settings_for(profile)}
    chosen = min(grid, key=lambda each: grid[each])
    own = [time_walk(profile, own_pace(), seed) for seed in seeds(profile)]
    refused = max(walk.refused / walk.requests for walk in own)
    return Compared(profile, chosen, grid[chosen], seconds(profile, *PREVIOUS), mean(w.seconds for w in own), refused)


def settings_for(profile: Profile) -> Iterator[tuple[int, int, float | None]]:
    """The grid of fixed settings: page sizes that the service returns, with its own limit and without."""
    for size, workers, limited in product(PAGE_SIZES, WORKERS, (False, True)):
        is_given = size <= (profile.max_page_size or size)
        # pages of 10 rows take ten times the requests or more; they are tried where the service returns no more
        is_small = size == min(PAGE_SIZES) and profile.max_page_size != size
        if is_given and not is_small and (profile.rate_limit or not limited):
            yield size, workers, profile.rate_limit if limited else None


def seconds(profile: Profile, page_size: int, workers: int, rate: float | None = None) -> float:
    """The mean of some walks with fixed settings."""
    return mean(time_walk(profile, fixed_pace(page_size, workers, rate), seed).seconds for seed in seeds(profile))


def seeds(profile: Profile) -> range:
    """A seed for each walk."""
    return range(WALKS_WITH_TAIL if profile.tail else 1)


def own_pace() -> Pace:
    """The pace of a load without settings."""
    limit = ConcurrencyLimit(CEILING)
    limit.restart(0)
    return Pace(PageSize("auto").rows, limit, RequestRate())


def read_over_http(profile: Profile) -> float:
    """The seconds that a walk over the contacts of the emulator takes without settings."""
    with serve(profile.rows, 1) as service:
        service.behave(
            latency_ms=1000 * profile.latency,
            at_once=profile.at_once,
            max_page_size=profile.max_page_size,
            rate_limit=profile.rate_limit,
            rate_style=profile.rate_style,
            retry_after=profile.retry_after,
        )
        reached: Any = service.settings
        settings = Settings(**reached)
        return read_until_whole(contacts_task(settings)).seconds


def http_line(profile: Profile) -> list[str]:
    """A service's line of the table of walks over HTTP, where its rows stay as they are."""
    still = replace(profile, drift=QUIET)
    simulated: Timed = time_walk(still, own_pace())
    measured = read_over_http(still)
    latency, _, *others = traits(still)
    return [
        latency, *others, f"{simulated.seconds:.2f}", f"{measured:.2f}", f"{measured / simulated.seconds:.2f}",
    ]  # fmt: skip


def main() -> None:
    """Simulate, measure if requested, print the tables, and write them if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2, help="processes to simulate in (default %(default)s)")
    parser.add_argument("--http", action="store_true", help="also read four services over HTTP")
    parser.add_argument("--write", action="store_true", help="put the tables into the README.md next to this file")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.processes) as pool:
        compared = list(pool.map(compare, PROFILES))
    texts = {"services": table_of(HEAD, [one.line() for one in compared])}
    if arguments.http:
        texts["services_http"] = table_of(HTTP_HEAD, [http_line(PROFILES[place]) for place in OVER_HTTP])
    show_blocks(texts, write=arguments.write)


if __name__ == "__main__":
    main()
