"""Measures how long a walk takes in virtual time: discrete events, no HTTP, no threads, no sleeping.

The walk, the limit of concurrency and the rate of requests are the package's own. A request is refused, or waits until
the service has a place for it, keeps that place as long as its response takes, and is then decoded, one page at a time.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from typing import Literal

import pyarrow as pa

from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.verdicts import VerdictName
from letters_source.pagination.walk import walk_listing
from letters_source.service.pacing import ConcurrencyLimit, RequestRate
from letters_source.service.retries import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS
from programmable_emulator import Behavior
from programmable_emulator.rate_limits import Limiter, build_limiter
from simulated_service import Scenario, SimulatedService, Weather

QUIET = Weather("insert", "end", 0)
# what a page and its rows take of one core, to be requested, decoded and kept; measured with the emulator
PAGE_SECONDS, ROW_SECONDS = 0.0012, 0.000004
REFUSAL_SECONDS = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a service answers.

    Args:
        latency: seconds of a response, without its rows.
        tail: sigma of the half of the latency that is lognormal; 0 is a fixed latency.
        at_once: how many requests are served at the same time.
        row_seconds: further seconds for each row of a page.
        max_page_size, rate_limit, rate_style, retry_after: as in `programmable_emulator.Behavior`.
        rows: the length of the listing.
        weather: how it changes, before each response.
    """

    latency: float
    tail: float = 0
    at_once: int = 64
    row_seconds: float = 0
    max_page_size: int | None = None
    rate_limit: float | None = None
    rate_style: Literal["bucket", "windows"] = "bucket"
    retry_after: int | None = None
    rows: int = 300_000
    weather: Weather = QUIET

    def seconds(self, rows: int, rng: random.Random) -> float:
        """How long one response takes."""
        tail = rng.lognormvariate(-(self.tail**2) / 2, self.tail) if self.tail else 1
        return self.latency * (1 + tail) / 2 + rows * self.row_seconds

    def limiter(self, clock: Callable[[], float]) -> Limiter:
        """Its limit of requests."""
        return build_limiter(Behavior(rate_limit=self.rate_limit, rate_style=self.rate_style), clock)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a load paces its requests."""

    page_size: int
    limit: ConcurrencyLimit
    rate: RequestRate


def fixed_pace(page_size: int, workers: int, rate: float | None = None) -> Pace:
    """As many requests in flight as there are workers; fewer after refusals."""
    limit = ConcurrencyLimit(workers)
    limit.pages = workers
    return Pace(page_size, limit, RequestRate(rate))


@dataclass(frozen=True, slots=True)
class Timed:
    """How a walk ended, and what it took in virtual time."""

    verdict: VerdictName
    seconds: float
    requests: int
    refused: int


@dataclass(slots=True, eq=False)
class Page:
    """A page on its way."""

    window: Window
    walk: int
    asked: int
    began: float
    sent: float = 0
    tries: int = 0
    answer: tuple[int, list[str]] = (0, [])
    decoded: deque["Page"] = field(default_factory=deque)  # where its reader waits for it


@dataclass(slots=True)
class VirtualReader:
    """Reads the pages of a simulated service; `now` is virtual time in seconds."""

    profile: Profile
    pace: Pace
    rng: random.Random
    service: SimulatedService
    now: float = 0
    refused: int = 0
    _limiter: Limiter = field(init=False)
    _ticks: Iterator[int] = field(default_factory=count)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _waiting: deque[Page] = field(default_factory=deque)
    _queue: deque[Page] = field(default_factory=deque)
    _in_flight: int = 0
    _being_served: int = 0
    _decoder_free: float = 0

    def __post_init__(self) -> None:
        self._limiter = self.profile.limiter(lambda: self.now)

    def read(self, windows: Iterable[Window], walk: int) -> Iterator[Reading]:
        """The responses as they come; see `letters_source.pagination.windows.Read`."""
        waiting, under_way = iter(windows), 0
        # what an earlier read has abandoned still comes, and is nothing to this one
        decoded: deque[Page] = deque()
        while True:
            for window in islice(waiting, max(0, int(self.pace.limit.pages) - under_way)):
                self._waiting.append(Page(window, walk, next(self._ticks), self.now, decoded=decoded))
                under_way += 1
            if not under_way:
                return
            self._send()
            while not decoded:
                self.now, _, happen = heapq.heappop(self._events)
                happen()
            page = decoded.popleft()
            self.pace.limit.finished(page.began, self.now, under_way)
            under_way -= 1
            listed, rows = page.answer
            keys = pa.array(rows, pa.string())
            yield Reading(page.window.page, walk, listed, keys, 0, page.asked, next(self._ticks), page.window.size)

    def _at(self, moment: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._ticks), happen))

    def _send(self) -> None:
        """Send what may be sent, and come back when more may be."""
        while self._waiting and self._in_flight < int(self.pace.limit.pages):
            delay = self.pace.rate.delay(self.now)
            if delay > 0:
                self._at(self.now + delay, self._send)
                return
            page = self._waiting.popleft()
            page.sent = self.now
            self._in_flight += 1
            self.pace.rate.started(self.now)
            if self._limiter.admits():
                self._queue.append(page)
                self._serve()
            else:
                self._at(self.now + REFUSAL_SECONDS, partial(self._refuse, page))

    def _serve(self) -> None:
        """Begin with the next request, if there is a place for it."""
        if self._queue and self._being_served < self.profile.at_once:
            page = self._queue.popleft()
            self._being_served += 1
            page.answer = self.service.answer(page.window)
            self._at(self.now + self.profile.seconds(len(page.answer[1]), self.rng), partial(self._respond, page))

    def _respond(self, page: Page) -> None:
        self._being_served -= 1
        self._in_flight -= 1
        self._serve()
        self.pace.rate.succeeded(self.now)
        self._decoder_free = max(self.now, self._decoder_free) + PAGE_SECONDS + ROW_SECONDS * len(page.answer[1])
        self._at(self._decoder_free, partial(page.decoded.append, page))
        self._send()

    def _refuse(self, page: Page) -> None:
        self.refused += 1
        self._in_flight -= 1
        page.tries += 1
        wish = self.profile.retry_after
        if self.pace.rate.push_back(page.sent, self.now, FIRST_WAIT_SECONDS if wish is None else wish, learn=True):
            self.pace.limit.refused()
        backoff = self.rng.uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**page.tries))
        self._at(self.now + (backoff if wish is None else wish + self.rng.uniform(0, 0.1)), partial(self._retry, page))
        self._send()

    def _retry(self, page: Page) -> None:
        self._waiting.append(page)
        self._send()


def time_walk(profile: Profile, pace: Pace, seed: int = 1) -> Timed:
    """Walk a listing in virtual time, until it is proven complete."""
    rng = random.Random(seed)
    given = min(pace.page_size, profile.max_page_size or pace.page_size)
    service = SimulatedService(Scenario(profile.weather, "continuous", seed, 1, profile.rows, given), rng)
    service.fill(profile.rows)
    reader = VirtualReader(profile, pace, rng, service)
    verdict = walk_listing(reader.read, "contacts")
    return Timed(verdict.name, reader.now, service.requests + reader.refused, reader.refused)
