"""May one more request be answered now?"""

import time
from collections.abc import Callable
from math import floor
from typing import Protocol, TypeAlias

from letters_source.emulator.behaviour import Behaviour

Clock: TypeAlias = Callable[[], float]


class Limiter(Protocol):
    """Counts requests as they come."""

    def admits(self) -> bool:
        """Whether this request is within the limit; asking counts it."""


class Unlimited:
    """Every request is admitted."""

    def admits(self) -> bool:
        """Always."""
        return True


class TokenBucket:
    """Holds a second's requests (at least one) and refills all the time; a refused request costs nothing."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._capacity = max(rate, 1.0)
        self._tokens = self._capacity
        self._filled_at = clock()

    def admits(self) -> bool:
        """Whether a token was left."""
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
        """Whether this second's requests are not yet used up."""
        window = floor(self._clock())
        if window != self._window:
            self._window, self._admitted = window, 0
        self._admitted += 1
        return self._admitted <= self._rate


def build_limiter(behaviour: Behaviour, clock: Clock = time.monotonic) -> Limiter:
    """The limiter that a behaviour asks for."""
    if behaviour.rate_limit is None:
        return Unlimited()
    style = TokenBucket if behaviour.rate_style == "bucket" else FixedWindows
    return style(behaviour.rate_limit, clock)
