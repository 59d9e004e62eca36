"""What becomes of a walk over a listing that changes while it is read?

No HTTP and no clock: before each answer a row may enter or leave, and the requests in flight are answered in any order.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress, count, islice
from typing import Literal

import numpy as np
import pyarrow as pa

from letters_source.errors import IncompleteListing
from letters_source.pagination.completeness import Reading
from letters_source.pagination.walk import Proof, Verdict, VerdictName, walk_listing

Kind = Literal["insert", "delete", "swap"]
Place = Literal["front", "end", "anywhere"]


@dataclass(frozen=True, slots=True)
class Weather:
    """How a listing changes: before each answer, with probability `rate`.

    Rows leave anywhere and enter at `place`; a swap is one leaving and one entering at once, which no count shows.
    """

    kind: Kind
    place: Place
    rate: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One walk to simulate; the same scenario always ends the same way."""

    weather: Weather
    proof: Proof
    seed: int
    window: int = 4
    rows: int = 320
    page_size: int = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a walk ended; `wrong` tells that the accepted rows were at no answer the service's set."""

    ending: VerdictName | Literal["refused"]
    wrong: bool
    requests: int


@dataclass(slots=True)
class SimulatedService:
    """A listing whose rows come and go; `moments` holds its set at each answer."""

    scenario: Scenario
    rng: random.Random
    rows: list[str] = field(default_factory=list)
    entered: Iterator[int] = field(default_factory=count)
    moments: set[frozenset[str]] = field(default_factory=set)
    requests: int = 0

    def answer(self, page: int) -> tuple[int, list[str]]:
        """The count and the rows of a page, after what may have changed."""
        if self.rng.random() < self.scenario.weather.rate:
            self.change(self.scenario.weather)
        self.requests += 1
        self.moments.add(frozenset(self.rows))
        size = self.scenario.page_size
        return len(self.rows), self.rows[page * size : (page + 1) * size]

    def change(self, weather: Weather) -> None:
        """One row leaves, enters, or both."""
        if weather.kind != "insert" and self.rows:
            del self.rows[self.rng.randrange(len(self.rows))]
        if weather.kind != "delete":
            end = len(self.rows)
            index = {"front": 0, "end": end, "anywhere": self.rng.randint(0, end)}[weather.place]
            self.rows.insert(index, str(next(self.entered)))


@dataclass(slots=True, eq=False)
class Request:
    """A request in flight; the service may have answered while the answer is still on its way."""

    page: int
    asked: int
    answer: tuple[int, list[str]] | None = None


@dataclass(slots=True)
class ConcurrentReader:
    """Reads pages with up to `window` requests in flight, each served and answered when chance has it."""

    service: SimulatedService
    window: int
    rng: random.Random
    clock: Iterator[int] = field(default_factory=count)

    def read(self, pages: Iterable[int], walk: int) -> Iterator[Reading]:
        """The responses as they come; see `letters_source.pagination.walk.Read`."""
        waiting = iter(pages)
        flight = list(self.ask(waiting, self.window))
        while flight:
            request = self.rng.choice(flight)
            if request.answer is None:
                request.answer = self.service.answer(request.page)
                continue
            flight.remove(request)
            listed, rows = request.answer
            keys = pa.array(rows, pa.string())
            yield Reading(request.page, walk, listed, keys, 0, request.asked, next(self.clock))
            flight += self.ask(waiting, 1)

    def ask(self, waiting: Iterator[int], room: int) -> Iterator[Request]:
        """Requests for the next pages, as many as there is room for."""
        for page in islice(waiting, room):
            yield Request(page, next(self.clock))


def simulate(scenario: Scenario) -> Outcome:
    """Walk one simulated listing and compare what was accepted with what the service held."""
    rng = random.Random(scenario.seed)
    service = SimulatedService(scenario, rng)
    service.rows.extend(str(next(service.entered)) for _ in range(scenario.rows))
    reader = ConcurrentReader(service, scenario.window, rng)
    try:
        verdict = walk_listing(reader.read, "contacts", scenario.proof)
    except IncompleteListing:
        return Outcome("refused", wrong=False, requests=service.requests)
    rows = accepted_rows(verdict)
    once = len(rows) == len(set(rows))
    return Outcome(verdict.name, not (once and frozenset(rows) in service.moments), service.requests)


def accepted_rows(verdict: Verdict) -> list[str]:
    """The keys of the rows that a verdict says to yield."""
    return [
        str(key)
        for reading, keep in zip(verdict.readings, verdict.keep, strict=True)
        for key in compress(reading.keys.to_pylist(), np.broadcast_to(keep, len(reading.keys)))
    ]
