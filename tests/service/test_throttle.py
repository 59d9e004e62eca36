"""Requests start when the throttle allows it. Tests inspect the schedule and measure no time."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Event
from time import monotonic

import pytest

from letters_source.service.limit_headers import LONGEST_RETRY_AFTER
from letters_source.service.pacing import EASE, FEWEST, GROWTH, LONGEST_INTERVAL, RequestRate
from letters_source.service.throttle import Stopped, Throttle

LONG = 1_000.0


class Clock:
    """A clock that shows what a test sets, and lets the test wait until a thread has read it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.seen = Event()

    def __call__(self) -> float:
        """Return the moment that a test has set."""
        now = self.now
        self.seen.set()
        return now


@pytest.fixture
def clock() -> Clock:
    """A clock at a moment other than zero."""
    return Clock()


def starts(throttle: Throttle, requests: int) -> list[float]:
    """The moments at which that many requests started, one after another."""
    moments = []
    for _ in range(requests):
        with throttle.slot() as began:
            moments.append(began)
    return moments


def waiting(throttle: Throttle, clock: Clock, pool: ThreadPoolExecutor) -> Future[list[float]]:
    """A request that waits for its turn.

    A thread that looks at the clock holds the throttle's lock until it starts or waits. So whatever the test calls next
    comes after that.
    """
    clock.seen.clear()
    request = pool.submit(starts, throttle, 1)
    assert clock.seen.wait(10)
    return request


def taught(throttle: Throttle, successes: int) -> None:
    """Push a throttle back after that many successes in the last second."""
    throttle.rate.successes.clear()
    for _ in range(successes):
        throttle.succeeded()
    throttle.push_back(throttle.clock(), LONG)


def test_an_idle_throttle_lets_requests_start_at_once() -> None:
    """As many requests as there are workers start without waiting."""
    throttle = Throttle(3)
    with ExitStack() as stack:
        moments = [stack.enter_context(throttle.slot()) for _ in range(3)]
        assert throttle.rate.next_start == moments[-1]
    assert throttle.rate.delay(moments[-1]) == 0


def test_a_full_window_lets_the_next_request_start_when_one_ends() -> None:
    """A request that ends, even by an error, wakes one that waits."""
    throttle = Throttle(1)
    entered = Event()

    def enter() -> None:
        with throttle.slot():
            entered.set()

    def fail(pool: ThreadPoolExecutor) -> None:
        with throttle.slot():
            pool.submit(enter)
            assert not entered.is_set()
            raise KeyError

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyError):
        fail(pool)
    assert entered.is_set()


def test_a_rate_spaces_requests_evenly(clock: Clock) -> None:
    """A rate lets each request start one interval after the last one, and a late start is not made up for."""
    throttle = Throttle(8, rate=1 / LONG, clock=clock)
    assert starts(throttle, 1) == [100]
    with ThreadPoolExecutor(1) as pool:
        second = waiting(throttle, clock, pool)
        clock.now += LONG - 1
        clock.seen.clear()
        # the end of a page lets those that wait look again
        throttle.finished(0, 0, 0)
        assert clock.seen.wait(10)
        clock.now += 1
        throttle.finished(0, 0, 0)
        assert second.result(10) == [100 + LONG]
    assert throttle.rate.next_start == 100 + 2 * LONG
    clock.now += 3 * LONG
    assert starts(throttle, 1) == [clock.now]
    assert throttle.rate.next_start == clock.now + LONG


@pytest.mark.parametrize(
    ("rate", "interval"),
    [(1 / 86_000, 86_000.0), (1 / LONGEST_INTERVAL, LONGEST_INTERVAL), (1e-9, 86_400.0), (5e-324, 86_400.0)],
)
def test_requests_are_a_day_apart_at_most(clock: Clock, rate: float, interval: float) -> None:
    """The interval between requests is at most a day, and stopping wakes workers that wait for it."""
    throttle = Throttle(2, rate, clock)
    assert throttle.rate.interval == pytest.approx(interval)
    (first,) = starts(throttle, 1)
    assert throttle.rate.next_start == first + throttle.rate.interval
    with ThreadPoolExecutor(1) as pool:
        request = waiting(throttle, clock, pool)
        throttle.stop()
        assert isinstance(request.exception(timeout=10), Stopped)


def test_a_push_back_halves_the_limit_once_for_a_burst(clock: Clock) -> None:
    """A burst of refusals halves the limit once; a later refusal halves it again."""
    throttle = Throttle(8, clock=clock)
    early = starts(throttle, 3)
    clock.now += 1
    for began in early:
        throttle.push_back(began, 0)
    assert throttle.limit == 2
    throttle.push_back(clock.now, 0)
    assert throttle.limit == 1


def test_a_push_back_parks_every_worker(clock: Clock) -> None:
    """No request starts until the longest requested wait is over."""
    throttle = Throttle(4, clock=clock)
    throttle.push_back(clock.now, LONG)
    until = throttle.rate.pushed_back + LONG
    throttle.push_back(clock.now, 0)
    assert throttle.rate.parked_until == until


def test_a_push_back_teaches_a_rate_below_the_one_that_went_well(clock: Clock) -> None:
    """A learned rate is a tenth less than the successes of the last second, and grows with each success."""
    throttle = Throttle(8, clock=clock)
    for _ in range(100):
        throttle.succeeded()
    throttle.rate.successes.extendleft([clock.now - 5] * 50)
    throttle.push_back(clock.now, 0)
    assert throttle.rate.learned == pytest.approx(EASE * 100)
    clock.now += 0.5
    throttle.succeeded()
    grown = EASE * 100 + GROWTH * 0.5
    assert throttle.rate.learned == grown
    assert throttle.rate.interval == 1 / grown
    assert len(throttle.rate.successes) == 101


@pytest.mark.parametrize("quiet", [1, 10, 30])
def test_a_learned_rate_grows_faster_the_longer_no_push_back_came(quiet: int) -> None:
    """Each success adds more, the more seconds have passed since workers were parked."""
    rate = RequestRate(learned=10, pushed_back=100, parked_until=100.5)
    for _ in range(3):
        rate.succeeded(100 + quiet)
    assert rate.learned == pytest.approx(10 + 3 * GROWTH * (quiet - 0.5))


def test_successes_during_a_pause_leave_the_learned_rate_as_it_is(clock: Clock) -> None:
    """Successes of requests in flight during a pause do not change the learned rate."""
    throttle = Throttle(8, clock=clock)
    taught(throttle, 10)
    learned = throttle.rate.learned
    assert learned
    assert learned == pytest.approx(EASE * 10)
    for _ in range(50):
        throttle.succeeded()
    assert throttle.rate.learned == learned
    assert throttle.rate.interval == 1 / learned


@pytest.mark.parametrize("quiet", [1, 10, 30])
def test_parking_again_stops_the_growth_of_a_learned_rate_until_it_ends(quiet: int) -> None:
    """A learned rate keeps its growth during a pause, and grows again from the end of the pause."""
    rate = RequestRate(learned=10, pushed_back=100, parked_until=100)
    rate.succeeded(100 + quiet)
    rate.park(100 + quiet, LONG)
    rate.succeeded(100 + quiet)
    assert rate.learned == pytest.approx(10 + GROWTH * quiet)
    rate.succeeded(100 + quiet + LONG + quiet)
    assert rate.learned == pytest.approx(10 + 2 * GROWTH * quiet)


def test_parking_concludes_nothing(clock: Clock) -> None:
    """No request starts until the longest pause is over; limit, rate and last push-back do not change."""
    throttle = Throttle(8, clock=clock)
    for _ in range(10):
        throttle.succeeded()
    throttle.rate.park(10, LONG)
    throttle.rate.park(11, 1)
    throttle.rate.park(12, 0)
    assert throttle.rate.delay(12) == LONG - 2
    assert (throttle.limit, throttle.rate.learned, throttle.rate.pushed_back) == (4, None, 0)


def test_parking_and_push_backs_share_the_longest_pause() -> None:
    """A shorter pause does not end a longer one of the other kind."""
    rate = RequestRate()
    rate.push_back(9, 10, LONG, learn=True)
    rate.park(11, 0)
    assert rate.parked_until == 10 + LONG
    rate.park(12, 2 * LONG)
    rate.push_back(13, 14, 0, learn=True)
    assert rate.parked_until == 12 + 2 * LONG


def test_stopping_wakes_parked_workers(clock: Clock) -> None:
    """A parked worker raises `Stopped`, as one does after a push-back."""
    throttle = Throttle(2, clock=clock)
    throttle.park(LONGEST_RETRY_AFTER)
    with ThreadPoolExecutor(1) as pool:
        request = waiting(throttle, clock, pool)
        throttle.stop()
        assert isinstance(request.exception(timeout=10), Stopped)


def test_the_slower_of_both_rates_holds(clock: Clock) -> None:
    """The user's rate and the learned rate both apply."""
    throttle = Throttle(8, rate=5.0, clock=clock)
    assert throttle.rate.interval == 1 / 5
    taught(throttle, 3)
    assert throttle.rate.learned == pytest.approx(EASE * 3)
    assert throttle.rate.interval == pytest.approx(1 / (EASE * 3))
    taught(throttle, 100)
    assert throttle.rate.interval == 1 / 5
    assert Throttle(8).rate.interval == 0


@pytest.mark.parametrize(("successes", "learned"), [(0, None), (1, None), (2, None), (3, 3), (4, 4), (50, 50)])
def test_fewer_than_three_successes_teach_no_rate(clock: Clock, successes: int, learned: int | None) -> None:
    """The limit is halved and every worker is parked even if no rate is learned."""
    throttle = Throttle(8, clock=clock)
    taught(throttle, successes)
    assert throttle.rate.learned == (learned and pytest.approx(EASE * learned))
    assert throttle.limit == 2
    assert throttle.rate.parked_until == throttle.rate.pushed_back + LONG


def test_successes_of_earlier_seconds_teach_no_rate(clock: Clock) -> None:
    """Only successes of the last second count, however many came before."""
    throttle = Throttle(8, clock=clock)
    for _ in range(FEWEST - 1):
        throttle.succeeded()
    throttle.rate.successes.extendleft([clock.now - 1.5] * 50)
    throttle.push_back(clock.now, 0)
    assert (throttle.rate.learned, throttle.limit) == (None, 2)
    throttle.succeeded()
    assert throttle.rate.learned is None
    assert len(throttle.rate.successes) == FEWEST


def test_a_push_back_for_other_reasons_teaches_no_rate(clock: Clock) -> None:
    """A push-back that teaches no rate halves the limit, parks every worker, and keeps a learned rate."""
    throttle = Throttle(8, clock=clock)
    for _ in range(10):
        throttle.succeeded()
    throttle.push_back(clock.now, LONG, learn=False)
    assert (throttle.rate.learned, throttle.limit) == (None, 2)
    assert throttle.rate.parked_until == throttle.rate.pushed_back + LONG
    throttle.push_back(clock.now, 0)
    throttle.push_back(clock.now, 0, learn=False)
    assert throttle.rate.learned == pytest.approx(EASE * 10)
    assert throttle.limit == 1


def test_a_burst_teaches_once(clock: Clock) -> None:
    """Refusals of requests that started before the last push-back do not change the learned rate."""
    throttle = Throttle(8, clock=clock)
    (early,) = starts(throttle, 1)
    clock.now += 0.5
    taught(throttle, 10)
    for _ in range(90):
        throttle.succeeded()
    learned = throttle.rate.learned
    throttle.push_back(early, 0)
    assert throttle.rate.learned == learned
    throttle.push_back(clock.now, 0)
    assert throttle.rate.learned == pytest.approx(EASE * 100)


@pytest.mark.parametrize("limit", ["window", "parking", "rate"])
def test_stopping_wakes_workers_that_wait_for_their_turn(clock: Clock, limit: str) -> None:
    """Workers wake whether they wait for a slot, the end of a pause, or the next start."""
    throttle = Throttle(2 if limit == "rate" else 1, rate=1 / LONG if limit == "rate" else None, clock=clock)
    if limit == "parking":
        throttle.push_back(clock.now, LONG)
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        if limit != "parking":
            stack.enter_context(throttle.slot())
        # a worker that waits for a slot does not look at the clock
        ask = (
            partial(pool.submit, starts, throttle, 1) if limit == "window" else partial(waiting, throttle, clock, pool)
        )
        requests = [ask() for _ in range(2)]
        throttle.stop()
        errors = [each.exception(timeout=10) for each in requests]
    assert [type(error) for error in errors] == [Stopped, Stopped]


def test_stopping_wakes_sleeping_threads() -> None:
    """A thread that starts to wait after the stop raises `Stopped`, too."""
    throttle = Throttle(1)
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(throttle.wait, LONG)
        throttle.stop()
        assert isinstance(sleeping.exception(timeout=10), Stopped)
    wake: list[Callable[[], object]] = [lambda: throttle.wait(LONG), lambda: starts(throttle, 1)]
    for each in wake:
        with pytest.raises(Stopped):
            each()


def test_a_stopped_throttle_keeps_what_it_learned() -> None:
    """The next listing of a load starts with the learned rate."""
    throttle = Throttle(2)
    throttle.rate.learned = 10
    throttle.stop()
    with pytest.raises(Stopped), throttle.slot():
        pass
    throttle.start()
    with throttle.slot() as began:
        assert throttle.rate.next_start == began + 1 / 10


def test_a_sleep_ends_by_itself() -> None:
    """A wait ends after its seconds, and not before."""
    began = monotonic()
    Throttle(1).wait(0)
    Throttle(1).wait(0.01)
    assert monotonic() - began >= 0.01


def test_the_longest_retry_after_parks_like_any_other(clock: Clock) -> None:
    """A Retry-After of thousands of years is capped, and workers that wait for it can be stopped."""
    throttle = Throttle(2, clock=clock)
    throttle.push_back(clock.now, LONGEST_RETRY_AFTER)
    with ThreadPoolExecutor(1) as pool:
        request = waiting(throttle, clock, pool)
        throttle.stop()
        assert isinstance(request.exception(timeout=10), Stopped)
