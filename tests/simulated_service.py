"""Simulates walks over a listing that changes while it is read.

No HTTP and no clock: before each answer a row may enter or leave, and the requests in flight are answered in any order.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import compress, count, islice
from operator import xor
from typing import Literal

import numpy as np
import pyarrow as pa

from letters_source.errors import IncompleteListing
from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.verdicts import Verdict, VerdictName
from letters_source.pagination.walk import walk_listing
from letters_source.pagination.wanted import Proof, Wanted

Kind = Literal["insert", "delete", "mixed", "swap", "move", "mixture"]
Place = Literal["front", "end", "anywhere"]
PARTS = {"mixed": ("insert", "delete"), "mixture": ("insert", "delete", "swap", "move")}
"""The kinds of which each change is one at random."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How a listing changes: before each answer, with probability `rate`.

    Rows leave anywhere and enter at `place`; mixed is one or the other. A swap is one leaving and one entering at once,
    which no count shows; a move is a row that leaves and enters again; a mixture is any of these.
    """

    kind: Kind
    place: Place
    rate: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One walk to simulate; the same scenario always ends the same way."""

    drift: Drift
    proof: Proof
    seed: int
    window: int = 4
    rows: int = 320
    page_size: int = 10
    expects_change: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a walk ended; `wrong` is true if the accepted rows are not what the verdict says.

    For stable and exact that is the service's set at an answer; for continuous each row once that was listed all the
    time, and none that never was.
    """

    ending: VerdictName | Literal["refused"]
    wrong: bool
    requests: int


@dataclass(slots=True)
class SimulatedService:
    """A listing whose rows come and go; `moments` holds a hash of its set at each answer, `stayed` what never left."""

    scenario: Scenario
    rng: random.Random
    rows: list[str] = field(default_factory=list)
    entered: Iterator[int] = field(default_factory=count)
    moments: set[int] = field(default_factory=set)
    stayed: set[str] = field(default_factory=set)
    held: int = 0
    requests: int = 0

    def answer(self, window: Window) -> tuple[int, list[str]]:
        """The count and the rows of a page, after a possible change."""
        if self.rng.random() < self.scenario.drift.rate:
            self.change(self.scenario.drift)
        self.requests += 1
        self.moments.add(self.held)
        size = window.size or self.scenario.page_size
        return len(self.rows), self.rows[window.page * size : (window.page + 1) * size]

    def fill(self, rows: int) -> None:
        """Add the rows that exist from the start."""
        self.rows = [str(next(self.entered)) for _ in range(rows)]
        self.stayed = set(self.rows)
        self.held = hash_set(self.rows)

    def change(self, drift: Drift) -> None:
        """Remove a row, add one, or both."""
        kind = self.rng.choice(PARTS[drift.kind]) if drift.kind in PARTS else drift.kind
        row = str(next(self.entered)) if kind != "move" else None
        if kind != "insert" and self.rows:
            left = self.rows.pop(self.rng.randrange(len(self.rows)))
            self.held ^= hash(left)
            if row is None:
                row = left
            else:
                self.stayed.discard(left)
        if kind != "delete" and row is not None:
            end = len(self.rows)
            index = {"front": 0, "end": end, "anywhere": self.rng.randint(0, end)}[drift.place]
            self.rows.insert(index, row)
            self.held ^= hash(row)


@dataclass(slots=True, eq=False)
class Request:
    """A request in flight; the service may have answered while the answer is still on its way."""

    window: Window
    asked: int
    answer: tuple[int, list[str]] | None = None


@dataclass(slots=True)
class ConcurrentReader:
    """Reads pages with up to `window` requests in flight, each served and answered at a random moment."""

    service: SimulatedService
    window: int
    rng: random.Random
    clock: Iterator[int] = field(default_factory=count)

    def read(self, windows: Iterable[Window], walk: int) -> Iterator[Reading]:
        """The responses as they come; see `letters_source.pagination.chain.Read`."""
        waiting = iter(windows)
        flight = list(self.ask(waiting, self.window))
        while flight:
            request = self.rng.choice(flight)
            if request.answer is None:
                request.answer = self.service.answer(request.window)
                continue
            flight.remove(request)
            listed, rows = request.answer
            keys = pa.array(rows, pa.string())
            page, size = request.window
            yield Reading(page, walk, listed, keys, 0, request.asked, next(self.clock), size)
            flight += self.ask(waiting, 1)

    def ask(self, waiting: Iterator[Window], room: int) -> Iterator[Request]:
        """Requests for the next windows, as many as there is room for."""
        for window in islice(waiting, room):
            yield Request(window, next(self.clock))


def simulate(scenario: Scenario) -> Outcome:
    """Walk one simulated listing and compare what was accepted with what the service held."""
    rng = random.Random(scenario.seed)
    service = SimulatedService(scenario, rng)
    service.fill(scenario.rows)
    reader = ConcurrentReader(service, scenario.window, rng)
    try:
        verdict = walk_listing(reader.read, "contacts", Wanted(scenario.proof), expects_change=scenario.expects_change)
    except IncompleteListing:
        return Outcome("refused", wrong=False, requests=service.requests)
    rows = accepted_rows(verdict)
    is_right = len(rows) == len(set(rows)) and (
        hash_set(rows) in service.moments if verdict.name != "continuous" else service.stayed <= set(rows)
    )
    return Outcome(verdict.name, not is_right, service.requests)


def hash_set(rows: Iterable[str]) -> int:
    """A hash of a set of rows, which changes with each row that enters or leaves."""
    return reduce(xor, map(hash, rows), 0)


def accepted_rows(verdict: Verdict) -> list[str]:
    """The keys of the rows that a verdict says to yield."""
    return [
        str(key)
        for reading, keep in zip(verdict.readings, verdict.keep, strict=True)
        for key in compress(reading.keys.to_pylist(), np.broadcast_to(keep, len(reading.keys)))
    ]
