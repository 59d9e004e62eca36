"""Limit rate and concurrency of requests: one throttle for all workers and listings of a load."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic

# the rate at which the service pushed back is too fast; a tenth less is safe and costs little
EASE = 0.9
# added to the learned rate by each success, per second without push-back: growth is slow near the limit and then
# accelerates, a tenth in ten seconds, twofold in half a minute
GROWTH = 0.002
# with fewer responses in the last second there is no rate to learn
FEWEST = 3
# one day; much longer waits overflow
LONGEST_INTERVAL = 86_400.0


class Stopped(Exception):
    """The load has ended; nothing more may be sent."""


class Throttle:
    """At most `workers` requests in flight and `rate` starting per second, fewer after push-back. Thread-safe."""

    def __init__(self, workers: int, rate: float | None = None) -> None:
        self.workers, self.rate = workers, rate
        self._changed = Condition()
        self._window = float(workers)
        self._in_flight = 0
        self._learned: float | None = None
        self._next_start = self._parked_until = self._pushed_back = 0.0
        self._successes: deque[float] = deque()
        self._stopped = False

    @contextmanager
    def slot(self) -> Iterator[float]:
        """Wait until a request may start, or raise `Stopped`; count it as in flight, and yield when it started."""
        began = self._enter()
        try:
            yield began
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()

    def succeeded(self) -> None:
        """Record a successful request."""
        with self._changed:
            now = monotonic()
            self._window = min(self.workers, self._window + 1 / self._window)
            self._successes.append(now)
            while self._successes[0] < now - 1:
                self._successes.popleft()
            if self._learned:
                self._learned += GROWTH * max(0.0, now - max(self._pushed_back, self._parked_until))

    def push_back(self, began: float, seconds: float, *, learn: bool = True) -> None:
        """Slow down after a throttled request that started at `began`; `learn` its rate, unless for a 503."""
        with self._changed:
            now = monotonic()
            self._parked_until = max(self._parked_until, now + seconds)
            # requests that began before the last push-back do not count again
            if began >= self._pushed_back:
                # halved, as in TCP
                self._window = max(1, self._window / 2)
                recent = sum(moment > now - 1 for moment in self._successes)
                if learn and recent >= FEWEST:
                    self._learned = EASE * recent
                self._pushed_back = now

    def park(self, seconds: float) -> None:
        """Let no request start for some seconds, without changing the window or the rate."""
        with self._changed:
            self._parked_until = max(self._parked_until, monotonic() + seconds)

    def wait(self, seconds: float) -> None:
        """Sleep; raise Stopped as soon as `stop` is called."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)
            self.check()

    def check(self) -> None:
        """Raise Stopped if `stop` was called."""
        if self._stopped:
            raise Stopped

    def start(self) -> None:
        """Start, or resume after `stop` with the learned rate."""
        with self._changed:
            self._stopped = False

    def stop(self) -> None:
        """Wake all waiting threads; nothing may be sent until `start`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _enter(self) -> float:
        with self._changed:
            while (delay := self._delay()) > 0:
                self._changed.wait(delay)
            self.check()
            now = monotonic()
            self._in_flight += 1
            self._next_start = max(now, self._next_start) + self._interval()
            return now

    def _delay(self) -> float:
        """Return the seconds to wait before checking again; 0 if a request may start or the throttle is stopped."""
        if self._stopped:
            return 0
        if self._in_flight >= int(self._window):
            return 60
        return max(self._next_start, self._parked_until) - monotonic()

    def _interval(self) -> float:
        rates = [rate for rate in (self.rate, self._learned) if rate]
        return min(LONGEST_INTERVAL, 1 / min(rates)) if rates else 0.0
