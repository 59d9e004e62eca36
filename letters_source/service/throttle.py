"""When may the next request start? One throttle for all workers and all listings of a load.

It keeps at most `workers` requests under way and starts at most `rate` a second. When the service asks to slow down, it
parks every worker, halves the window and keeps to a rate a little under the one that had gone well.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic

# a push-back shows the rate that went well to be too fast; a tenth less keeps clear of it without giving much away
EASE = 0.9
# what each success adds to the learned rate for each second without push-back, so that it grows slowly near the limit
# that was met and ever faster away from it: by a tenth in ten seconds, to the double in half a minute
GROWTH = 0.002
# fewer answers than these in the last second tell no rate
FEWEST = 3
# a day; what is much longer overflows waiting
LONGEST_INTERVAL = 86_400.0


class Stopped(Exception):
    """The run has ended for another reason; nothing more may be sent."""


class Throttle:
    """Additive growth to `workers`, halved when pushed back, like TCP; thread-safe."""

    def __init__(self, workers: int, rate: float | None = None) -> None:
        self.workers, self.rate = workers, rate
        self._changed = Condition()
        self._window = float(workers)
        self._under_way = 0
        self._learned: float | None = None
        self._next_start = self._parked_until = self._pushed_back = 0.0
        self._successes: deque[float] = deque()
        self._stopped = False

    @contextmanager
    def slot(self) -> Iterator[float]:
        """Wait for a turn, and hold a place while the request is under way; yields the moment it began.

        Raises:
            Stopped: `stop` was called.
        """
        began = self._enter()
        try:
            yield began
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def succeeded(self) -> None:
        """Tell that a request went well."""
        with self._changed:
            now = monotonic()
            self._window = min(self.workers, self._window + 1 / self._window)
            self._successes.append(now)
            while self._successes[0] < now - 1:
                self._successes.popleft()
            if self._learned:
                self._learned += GROWTH * max(0.0, now - max(self._pushed_back, self._parked_until))

    def push_back(self, began: float, seconds: float, *, learn: bool = True) -> None:
        """Tell that the service asked to wait; requests that began before the last such answer are part of it.

        `learn` tells that it was for their rate (429), not for other reasons (503).
        """
        with self._changed:
            now = monotonic()
            self._parked_until = max(self._parked_until, now + seconds)
            if began >= self._pushed_back:
                self._window = max(1, self._window / 2)
                if learn and (recent := self._recent(now)) >= FEWEST:
                    self._learned = EASE * recent
                self._pushed_back = now

    def park(self, seconds: float) -> None:
        """Let nothing start for a while, without concluding anything about the window or the rate."""
        with self._changed:
            self._parked_until = max(self._parked_until, monotonic() + seconds)

    def wait(self, seconds: float) -> None:
        """Sleep, unless stopped.

        Raises:
            Stopped: `stop` was called.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)
            self.check()

    def check(self) -> None:
        """See that the run goes on.

        Raises:
            Stopped: `stop` was called.
        """
        if self._stopped:
            raise Stopped

    def start(self) -> None:
        """Begin, or go on after `stop` with what was learned."""
        with self._changed:
            self._stopped = False

    def stop(self) -> None:
        """Wake everyone up; nothing more may be sent until `start`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _enter(self) -> float:
        with self._changed:
            while (delay := self._delay()) > 0:
                self._changed.wait(delay)
            self.check()
            now = monotonic()
            self._under_way += 1
            self._next_start = max(now, self._next_start) + self._interval()
            return now

    def _delay(self) -> float:
        """Seconds until a request may start, as far as is known; 0 when it may, or when all has stopped."""
        if self._stopped:
            return 0
        if self._under_way >= int(self._window):
            return 60
        return max(self._next_start, self._parked_until) - monotonic()

    def _interval(self) -> float:
        rates = [rate for rate in (self.rate, self._learned) if rate]
        return min(LONGEST_INTERVAL, 1 / min(rates)) if rates else 0.0

    def _recent(self, now: float) -> int:
        return sum(moment > now - 1 for moment in self._successes)
