"""Rate limits: whether a request is admitted."""

import time
from collections.abc import Callable
from math import floor
from typing import Protocol, TypeAlias

from programmable_emulator.behavior import Behavior

Clock: TypeAlias = Callable[[], float]


class Limiter(Protocol):
    """Counts requests as they come."""

    def admits(self) -> bool:
        """Count a request and return whether it is within the limit."""


class Unlimited:
    """Every request is admitted."""

    def admits(self) -> bool:
        """Return True."""
        return True


class TokenBucket:
    """Holds one second of requests (at least one) and refills continuously; a refused request costs nothing."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._capacity = max(rate, 1.0)
        self._tokens = self._capacity
        self._filled_at = clock()

    def admits(self) -> bool:
        """Take a token and return whether there was one."""
        now = self._clock()
        self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class FixedWindows:
    """Admits `rate` requests in each second of the clock."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._window = floor(clock())
        self._admitted = 0

    def admits(self) -> bool:
        """Count a request and return whether this second still had one."""
        window = floor(self._clock())
        if window != self._window:
            self._window, self._admitted = window, 0
        self._admitted += 1
        return self._admitted <= self._rate


def build_limiter(behavior: Behavior, clock: Clock = time.monotonic) -> Limiter:
    """Return the limiter of a behavior."""
    if behavior.rate_limit is None:
        return Unlimited()
    style = TokenBucket if behavior.rate_style == "bucket" else FixedWindows
    return style(behavior.rate_limit, clock)
