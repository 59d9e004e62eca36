"""One throttle limits rate and concurrency of requests for all workers and listings of a load."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic

from letters_source.service.pacing import ConcurrencyLimit, RequestRate


class Stopped(Exception):
    """The load has ended; nothing more may be sent."""


class Throttle:
    """At most `workers` requests in flight and `rate` starting per second, usually fewer. Thread-safe."""

    def __init__(self, workers: int, rate: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.workers, self.clock = workers, clock
        self.concurrency, self.rate = ConcurrencyLimit(workers), RequestRate(rate)
        self._changed = Condition()
        self._in_flight = 0
        self._stopped = False

    @property
    def limit(self) -> int:
        """How many pages may be read at once."""
        return int(self.concurrency.pages)

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
            self.rate.succeeded(self.clock())

    def finished(self, began: float, ended: float, at_once: int) -> None:
        """Record a page that was requested and decoded while `at_once` pages were in flight."""
        with self._changed:
            self.concurrency.finished(began, ended, at_once)
            self._changed.notify_all()

    def push_back(self, began: float, seconds: float, *, learn: bool = True) -> None:
        """Slow down after a refused request that started at `began`; `learn` as in `RequestRate.push_back`."""
        with self._changed:
            if self.rate.push_back(began, self.clock(), seconds, learn=learn):
                self.concurrency.refused()

    def park(self, seconds: float) -> None:
        """Let no request start for some seconds, without changing the limit or the rate."""
        with self._changed:
            self.rate.park(self.clock(), seconds)

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
        """Start, or resume after `stop` with what was learned."""
        with self._changed:
            self._stopped = False
            self.concurrency.restart(self.clock())

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
            now = self.clock()
            self._in_flight += 1
            self.rate.started(now)
            return now

    def _delay(self) -> float:
        """Return the seconds to wait before checking again; 0 if a request may start or the throttle is stopped."""
        if self._stopped:
            return 0
        return 60 if self._in_flight >= self.limit else self.rate.delay(self.clock())
