"""How much to ask of the service: rows per page, pages at once, requests per second. Pure: moments are in seconds."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

Rows = int | Literal["auto"]
"""Rows per page, or `auto`: as many as the service can serve."""
MANY_ROWS, FEW_ROWS = 1_000, 100

FIRST_LIMIT = 4
# with fewer pages, the median would be noise
SMALLEST_ROUND = 4
# the least share of the possible gain for which a higher limit is kept
WORTHWHILE = 0.25
# rounds until a higher limit is tried again: the service may have become faster
ROUNDS_BETWEEN = 50

# the rate at which the service pushed back is too fast; a tenth less is safe and costs little
EASE = 0.9
# added to the learned rate by each success, per second without push-back: growth is slow near the limit and then
# accelerates, a tenth in ten seconds, twofold in half a minute
GROWTH = 0.002
# with fewer responses in the last second there is no rate to learn
FEWEST = 3
# one day; much longer waits overflow
LONGEST_INTERVAL = 86_400.0


@dataclass(slots=True)
class ConcurrencyLimit:
    """How many pages to read at once: more while throughput grows, fewer when the service refuses requests.

    As in the slow start of TCP Vegas (Brakmo, O'Malley and Peterson, 1994), the limit doubles, then stays for two
    rounds of pages: queues build up in the first, throughput is measured in the second. If the service only answered
    more slowly, the limit is taken back. After a refusal it follows TCP's congestion avoidance (Jacobson, 1988): it is
    halved, then grows by one for each round (AIMD).
    """

    ceiling: int
    pages: float = field(init=False)
    _since: float = 0
    _seconds: list[float] = field(default_factory=list)
    _before: tuple[float, float] | None = None  # while a higher limit is tried: the one before, and its throughput
    _rounds: int = 0
    _was_refused: bool = False

    def __post_init__(self) -> None:
        self.pages = min(FIRST_LIMIT, self.ceiling)

    def restart(self, now: float) -> None:
        """Keep the limit that has proven worthwhile, and measure again: another listing's pages take other times."""
        self._set(min(self.pages, self._before[0]) if self._before else self.pages, now)
        self._before, self._rounds, self._was_refused = None, 0, False

    def finished(self, began: float, ended: float, at_once: int) -> None:
        """Learn from a page; `at_once` is how many were being read when it ended, itself included."""
        # with fewer in flight than the limit allows, nothing can be learned about it
        if at_once < int(self.pages):
            return
        if self._was_refused:
            self.pages = min(self.ceiling, self.pages + 1 / self.pages)
        elif began >= self._since and (self._before or self.pages < self.ceiling):
            self._seconds.append(ended - began)
            if len(self._seconds) >= max(SMALLEST_ROUND, self.pages):
                self._judge(median(self._seconds), ended)

    def refused(self) -> None:
        """Halve the limit after a request was refused, or not answered in time."""
        self.pages = max(1, self.pages / 2)
        self._was_refused = True

    def _judge(self, seconds: float, now: float) -> None:
        """Keep the limit or take it back, and try a higher one if it is time; a page took so many seconds."""
        throughput = self.pages / seconds
        if self._before:
            pages, former = self._before
            self._before = None
            if throughput < former * (1 + WORTHWHILE * (self.pages / pages - 1)):
                self._rounds = ROUNDS_BETWEEN
                self._set(pages, now + seconds)
                return
        self._rounds -= 1
        if self.pages < self.ceiling and self._rounds < 0:
            self._before = self.pages, throughput
            self._set(min(2 * self.pages, self.ceiling), now + seconds)
        self._seconds.clear()

    def _set(self, pages: float, since: float) -> None:
        """Set the limit; pages requested before `since` are not measured."""
        self.pages, self._since = pages, since
        self._seconds.clear()


@dataclass(slots=True)
class RequestRate:
    """When the next request may start: `most` per second, fewer if the service pushes back, none while parked."""

    most: float | None = None
    learned: float | None = None
    next_start: float = 0
    parked_until: float = 0
    pushed_back: float = 0
    successes: deque[float] = field(default_factory=deque)

    @property
    def interval(self) -> float:
        """Seconds between the starts of two requests."""
        rates = [rate for rate in (self.most, self.learned) if rate]
        return min(LONGEST_INTERVAL, 1 / min(rates)) if rates else 0.0

    def delay(self, now: float) -> float:
        """Return the seconds until the next request may start, 0 or less if it may start now."""
        return max(self.next_start, self.parked_until) - now

    def started(self, now: float) -> None:
        """Record the start of a request."""
        self.next_start = max(now, self.next_start) + self.interval

    def succeeded(self, now: float) -> None:
        """Record a successful request."""
        self.successes.append(now)
        while self.successes[0] < now - 1:
            self.successes.popleft()
        if self.learned:
            self.learned += GROWTH * max(0.0, now - max(self.pushed_back, self.parked_until))

    def push_back(self, began: float, now: float, seconds: float, *, learn: bool) -> bool:
        """Park after a request that the service refused; with `learn`, learn how many succeeded in a second.

        Return False if the request began before the last push-back, which has slowed down for it already.
        """
        self.park(now, seconds)
        if began < self.pushed_back:
            return False
        recent = sum(moment > now - 1 for moment in self.successes)
        if learn and recent >= FEWEST:
            self.learned = EASE * recent
        self.pushed_back = now
        return True

    def park(self, now: float, seconds: float) -> None:
        """Let no request start for some seconds, without changing the rate."""
        self.parked_until = max(self.parked_until, now + seconds)


class PageSize:
    """How many rows of a listing to request per page: as set, or many at first, and fewer if such a page fails.

    A load's tasks that read the listing, one after another, share one. `is_trial` tells that the size is not yet known
    to work, and may become smaller.
    """

    def __init__(self, setting: Rows) -> None:
        self.is_trial = setting == "auto"
        self.rows = MANY_ROWS if setting == "auto" else setting

    def settle(self, *, works: bool) -> None:
        """Keep the size that was tried if it works, otherwise take the smaller one."""
        self.is_trial = False
        self.rows = self.rows if works else FEW_ROWS
