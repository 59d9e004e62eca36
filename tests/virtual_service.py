"""Measures how long a walk takes in virtual time: discrete events, no HTTP, no threads, no sleeping.

The walk, the limit of concurrency and the rate of requests are the package's own. A request is refused, or waits until
the service has a place for it, keeps that place as long as its response takes, and is then decoded, one page at a time.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from math import inf
from typing import Literal

import pyarrow as pa

from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.verdicts import VerdictName
from letters_source.pagination.walk import walk_listing
from letters_source.service.pacing import ConcurrencyLimit, RequestRate
from letters_source.service.retries import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS
from programmable_emulator import Behavior
from programmable_emulator.rate_limits import Limiter, build_limiter
from simulated_service import Drift, Scenario, SimulatedService

QUIET = Drift("insert", "end", 0)
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
        drift: how it changes, before each response.
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
    drift: Drift = QUIET

    def seconds(self, rows: int, rng: random.Random) -> float:
        """How long one response takes."""
        tail = rng.lognormvariate(-(self.tail**2) / 2, self.tail) if self.tail else 1
        return self.latency * (1 + tail) / 2 + rows * self.row_seconds

    def limiter(self, clock: Callable[[], float]) -> Limiter:
        """Return the limiter of the service's requests."""
        return build_limiter(Behavior(rate_limit=self.rate_limit, rate_style=self.rate_style), clock)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a load paces its requests."""

    page_size: int
    limit: ConcurrencyLimit
    rate: RequestRate


def fixed_pace(page_size: int, workers: int, rate: float | None = None) -> Pace:
    """Return a pace of as many requests in flight as there are workers, and fewer after refusals."""
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


Answer = tuple[int, Sequence[object]]
"""The count and the rows of a response."""


class GaveUp(Exception):
    """A page was refused until its reader's retry budget was spent."""


@dataclass(slots=True, eq=False)
class Page:
    """A page in flight."""

    window: Window
    walk: int
    asked: int
    began: float
    reader: "VirtualReader"
    decoded: Callable[["Page"], None]
    sent: float = 0
    tries: int = 0
    answer: Answer = (0, ())


@dataclass(slots=True)
class VirtualService:
    """Answers the requests of any number of readers; `now` is virtual time in seconds."""

    profile: Profile
    rng: random.Random
    answer: Callable[[Window], Answer]
    now: float = 0
    requests: int = 0
    served: float = 0  # total seconds that its places were taken
    _limiter: Limiter = field(init=False)
    _ticks: Iterator[int] = field(default_factory=count)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _queue: deque[Page] = field(default_factory=deque)
    _being_served: int = 0

    def __post_init__(self) -> None:
        self._limiter = self.profile.limiter(lambda: self.now)

    def tick(self) -> int:
        """Return the next number, by which simultaneous events are ordered."""
        return next(self._ticks)

    def at(self, moment: float, callback: Callable[[], None]) -> None:
        """Schedule a callback at a moment."""
        heapq.heappush(self._events, (moment, self.tick(), callback))

    def step(self) -> bool:
        """Advance to the next event; return whether there was one."""
        if not self._events:
            return False
        self.now, _, callback = heapq.heappop(self._events)
        callback()
        return True

    def request(self, page: Page) -> None:
        """Answer a request, or refuse it."""
        self.requests += 1
        if self._limiter.admits():
            self._queue.append(page)
            self._serve()
        else:
            self.at(self.now + REFUSAL_SECONDS, partial(page.reader.refuse, page))

    def _serve(self) -> None:
        """Start serving the next request, if there is a place for it."""
        if self._queue and self._being_served < self.profile.at_once:
            page = self._queue.popleft()
            self._being_served += 1
            page.answer = self.answer(page.window)
            seconds = self.profile.seconds(len(page.answer[1]), self.rng)
            self.served += seconds
            self.at(self.now + seconds, partial(self._respond, page))

    def _respond(self, page: Page) -> None:
        self._being_served -= 1
        self._serve()
        page.reader.receive(page)


@dataclass(slots=True)
class VirtualReader:
    """Reads pages of a service at its own pace, and decodes them one at a time."""

    service: VirtualService
    pace: Pace
    page_seconds: float = PAGE_SECONDS
    row_seconds: float = ROW_SECONDS
    refused: int = 0
    budget: float = inf  # the setting `retry_budget`
    worked: float = 0  # seconds of its core
    _waiting: deque[Page] = field(default_factory=deque)
    _sends_later: bool = False
    _in_flight: int = 0
    _decoder_free: float = 0

    def read(self, windows: Iterable[Window], walk: int) -> Iterator[Reading]:
        """The responses as they come; see `letters_source.pagination.chain.Read`."""
        waiting, under_way = iter(windows), 0
        # responses to an abandoned read still arrive, and are ignored
        decoded: deque[Page] = deque()
        while True:
            under_way += self.ask(waiting, under_way, walk, decoded.append)
            if not under_way:
                return
            while not decoded:
                self.service.step()
            page = decoded.popleft()
            self.finish(page, under_way)
            under_way -= 1
            yield self.reading(page)

    def ask(self, windows: Iterator[Window], under_way: int, walk: int, decoded: Callable[[Page], None]) -> int:
        """Request as many windows as there is room for, and return how many; `decoded` is called for each."""
        room = max(0, int(self.pace.limit.pages) - under_way)
        pages = [
            Page(window, walk, self.service.tick(), self.service.now, self, decoded) for window in islice(windows, room)
        ]
        self._waiting.extend(pages)
        self._send()
        return len(pages)

    def finish(self, page: Page, under_way: int) -> None:
        """Adjust the pace to a page that was decoded, one of `under_way` pages."""
        self.pace.limit.finished(page.began, self.service.now, under_way)

    def reading(self, page: Page) -> Reading:
        """Return the reading of a page."""
        listed, rows = page.answer
        keys = pa.array(rows, pa.string())
        window = page.window
        return Reading(window.page, page.walk, listed, keys, 0, page.asked, self.service.tick(), window.size)

    def receive(self, page: Page) -> None:
        """Take a response, which is decoded after those before it."""
        now = self.service.now
        self._in_flight -= 1
        self.pace.rate.succeeded(now)
        seconds = self.page_seconds + self.row_seconds * len(page.answer[1])
        self.worked += seconds
        self._decoder_free = max(now, self._decoder_free) + seconds
        self.service.at(self._decoder_free, partial(page.decoded, page))
        self._send()

    def refuse(self, page: Page) -> None:
        """Take a refusal, and send the request again later."""
        now = self.service.now
        self.refused += 1
        self._in_flight -= 1
        page.tries += 1
        if now - page.began >= self.budget:
            raise GaveUp(f"gave up after {self.budget:g} s")
        retry_after = self.service.profile.retry_after
        wait = FIRST_WAIT_SECONDS if retry_after is None else retry_after
        if self.pace.rate.push_back(page.sent, now, wait, learn=True):
            self.pace.limit.refused()
        rng = self.service.rng
        backoff = rng.uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**page.tries))
        delay = backoff if retry_after is None else retry_after + rng.uniform(0, 0.1)
        self.service.at(now + delay, partial(self._retry, page))
        self._send()

    def _send(self) -> None:
        """Send what the pace allows, and resume when it allows more."""
        while self._waiting and self._in_flight < int(self.pace.limit.pages):
            delay = self.pace.rate.delay(self.service.now)
            if delay > 0:
                if not self._sends_later:
                    self._sends_later = True
                    self.service.at(self.service.now + delay, self._resume)
                return
            page = self._waiting.popleft()
            page.sent = self.service.now
            self._in_flight += 1
            self.pace.rate.started(self.service.now)
            self.service.request(page)

    def _resume(self) -> None:
        self._sends_later = False
        self._send()

    def _retry(self, page: Page) -> None:
        self._waiting.append(page)
        self._send()


def time_walk(profile: Profile, pace: Pace, seed: int = 1) -> Timed:
    """Walk a listing in virtual time, until it is proven complete."""
    rng = random.Random(seed)
    given = min(pace.page_size, profile.max_page_size or pace.page_size)
    listing = SimulatedService(Scenario(profile.drift, "continuous", seed, 1, profile.rows, given), rng)
    listing.fill(profile.rows)
    reader = VirtualReader(VirtualService(profile, rng, listing.answer), pace)
    verdict = walk_listing(reader.read, "contacts")
    return Timed(verdict.name, reader.service.now, reader.service.requests, reader.refused)
