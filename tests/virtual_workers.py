"""Simulates workers that read the ranges of one listing side by side, in virtual time.

Ranges, chains, limits and the judgment are the package's own. A listing of up to a million rows is simulated row by row
while its rows change. Of a longer one each page is an event, but has no keys: as many windows as the ranges take.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat

from letters_source.config.settings import Settings
from letters_source.pagination.chain import Chain, evidence_of
from letters_source.pagination.coding import Coded, count_displaced
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault
from letters_source.pagination.ranges import plan_ranges, read_linked
from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.windows import LEAST_OVERLAP, NotContinuous, moved_row, next_window
from letters_source.service.pacing import ConcurrencyLimit, RequestRate
from simulated_service import Scenario, SimulatedService
from virtual_service import (
    PAGE_SECONDS,
    ROW_SECONDS,
    Answer,
    GaveUp,
    Pace,
    Page,
    Profile,
    VirtualReader,
    VirtualService,
)

BUDGET = Settings(base_url="", access_token="", refresh_token="").retry_budget
# windows over which the rows that each adds are averaged
SAMPLE = 300


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one core: for a page and a row that are read, a row that is written, and a row that is judged."""

    page: float = PAGE_SECONDS
    row: float = ROW_SECONDS
    write: float = 0
    judge: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Workers that read a listing, each a range, and what they cost.

    Args:
        profile: the service, and its `drift` the kind and place of changes.
        changes: how many rows change a second.
        at_once, rate: the settings `max_workers` and `requests_per_second` of each worker.
        costs: seconds of one core.
    """

    profile: Profile
    workers: int = 1
    page_size: int = 1_000
    at_once: int = 16
    rate: float | None = None
    changes: float = 0
    costs: Costs = Costs()

    def plan(self) -> list[Range]:
        """The ranges, one for each worker."""
        return plan_ranges(self.profile.rows, self.page_size, self.workers)


@dataclass(frozen=True, slots=True)
class Run:
    """A run until its ranges were linked: its time, the use of each limit, and the fault if they prove nothing."""

    seconds: float
    requests: int
    refused: int
    used: dict[str, float]
    fault: str | None = None

    @property
    def bottleneck(self) -> str:
        """The limit that is used most; requests in flight if none is."""
        name, share = max(self.used.items(), key=lambda item: item[1])
        return name if share > 0.8 else "latency"


@dataclass(slots=True)
class Pages:
    """The windows of a range without their keys."""

    window: Window
    left: int

    def windows(self) -> Iterator[Window]:
        """Return as many windows as the range takes."""
        left, self.left = self.left, 0
        return repeat(self.window, left)

    def reach_end(self) -> bool:
        """Return whether all windows of the range were read."""
        return not self.left


@cache
def rows_added(page_size: int) -> float:
    """The rows that a window adds to those before it, on average."""
    end = 0
    for _ in range(SAMPLE):
        end = next_window(end, page_size, LEAST_OVERLAP).end
    return end / SAMPLE


def pages_of(part: Range) -> Pages:
    """The pages of a range."""
    stop = min(part.stop or part.count, part.count)
    windows = max(1, round((stop - part.start) / rows_added(part.page_size)))
    return Pages(Window(0, part.page_size), windows)


@dataclass(slots=True, eq=False)
class Worker:
    """Reads a range while others read theirs; `done` is called with its reader at the end."""

    reader: VirtualReader
    source: Chain | Pages
    done: Callable[[VirtualReader], None]
    _windows: Iterator[Window] = field(init=False)
    _under_way: int = 0

    def __post_init__(self) -> None:
        self._windows = self.source.windows()
        self._go_on()

    def _go_on(self) -> None:
        self._under_way += self.reader.ask(self._windows, self._under_way, 1, self._decoded)
        if self._under_way:
            return
        if self.source.reach_end():
            self.done(self.reader)
            return
        self._windows = self.source.windows()
        self._go_on()

    def _decoded(self, page: Page) -> None:
        self.reader.finish(page, self._under_way)
        self._under_way -= 1
        if isinstance(self.source, Chain):
            self.source.add(self.reader.reading(page))
        self._go_on()


@dataclass(slots=True)
class Changing:
    """A listing that changes over time; the time between two changes is exponentially distributed."""

    listing: SimulatedService
    rate: float
    service: VirtualService = field(init=False)
    _next: float = 0

    def answer(self, window: Window) -> Answer:
        """A page after the changes until now."""
        while self.rate and self._next <= self.service.now:
            if self._next:
                self.listing.change(self.listing.scenario.drift)
            self._next += self.listing.rng.expovariate(self.rate)
        return self.listing.answer(window)


@dataclass(slots=True)
class Simulation:
    """A running fleet; `shown` holds the readings behind each piece of evidence."""

    fleet: Fleet
    service: VirtualService
    readers: list[VirtualReader] = field(default_factory=list)
    shown: dict[Evidence, list[Reading]] = field(default_factory=dict)

    @classmethod
    def of(cls, fleet: Fleet, service: VirtualService) -> "Simulation":
        """A fleet of independent workers."""
        simulation = cls(fleet, service)
        for _ in range(fleet.workers):
            pace = Pace(fleet.page_size, ConcurrencyLimit(fleet.at_once), RequestRate(fleet.rate))
            simulation.readers.append(VirtualReader(service, pace, fleet.costs.page, fleet.costs.row, budget=BUDGET))
        return simulation

    def read(self, ranges: Sequence[Range]) -> list[Evidence]:
        """Read ranges; see `letters_source.pagination.ranges.ReadRanges`. One worker reads what is missing."""
        readers = self.readers[:1] if self.shown else self.readers
        chains = [Chain(part) for part in ranges]
        self.work(readers, chains)
        shown = [chain.readings() for chain in chains]
        evidence = [evidence_of(chain, moved_row(own, Coded.of(own))) for chain, own in zip(chains, shown, strict=True)]
        self.shown.update(zip(evidence, shown, strict=True))
        return evidence

    def work(self, readers: Sequence[VirtualReader], sources: Sequence[Chain] | Sequence[Pages]) -> None:
        """Let workers read ranges, each the next one when it is done with the one before."""
        waiting: deque[Chain | Pages] = deque(sources)
        free = deque(readers)
        while waiting or len(free) < len(readers):
            while waiting and free:
                Worker(free.popleft(), waiting.popleft(), free.append)
            self.service.step()

    def result(self, fault: str | None = None) -> Run:
        """Return what the run took."""
        service, profile, workers = self.service, self.fleet.profile, len(self.readers)
        seconds, refused = service.now, sum(reader.refused for reader in self.readers)
        further = profile.rows * (self.fleet.costs.write / workers + self.fleet.costs.judge)
        used = {
            "places": service.served / (profile.at_once * seconds),
            "rate limit": (service.requests - refused) / (seconds * profile.rate_limit) if profile.rate_limit else 0,
            "worker CPU": sum(reader.worked for reader in self.readers) / (workers * seconds),
        }
        return Run(seconds + further, service.requests, refused, used, fault)


def count_pages(fleet: Fleet, seed: int = 1) -> Run:
    """Read a listing of any length that does not change, page by page without keys."""
    size = fleet.page_size
    service = VirtualService(fleet.profile, random.Random(seed), lambda _: (fleet.profile.rows, range(size)))
    simulation = Simulation.of(fleet, service)
    try:
        simulation.work(simulation.readers, [pages_of(part) for part in fleet.plan()])
        # the front again
        simulation.work(simulation.readers[:1], [Pages(Window(0, size), 1)])
    except GaveUp as error:
        return simulation.result(str(error))
    return simulation.result()


def read_rows(fleet: Fleet, seed: int = 1) -> Run:
    """Read a listing row by row while it changes, and judge it."""
    rng = random.Random(seed)
    scenario = Scenario(fleet.profile.drift, "continuous", seed, rows=fleet.profile.rows, page_size=fleet.page_size)
    listing = SimulatedService(scenario, rng)
    listing.fill(fleet.profile.rows)
    changing = Changing(listing, fleet.changes)
    changing.service = VirtualService(fleet.profile, rng, changing.answer)
    simulation = Simulation.of(fleet, changing.service)
    try:
        evidence = read_linked(simulation.read, fleet.plan())
    except (GaveUp, NotContinuous) as error:
        return simulation.result(str(error))
    parts = [simulation.shown[one] for one in evidence]
    readings = [reading for part in parts for reading in part]
    keys = {key for reading in readings for key in reading.keys.to_pylist()}
    coded = Coded.of(readings)
    fault = find_fault(evidence, Listed(coded.size, count_displaced(parts[1:], coded)))
    assert fault or listing.stayed <= keys, "a row that stayed was missed"
    return simulation.result(fault)
