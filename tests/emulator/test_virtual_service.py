"""Virtual time passes as real time would."""

import random

import pytest

from letters_source.pagination.readings import Window
from simulated_service import Scenario, SimulatedService
from virtual_service import QUIET, Profile, VirtualReader, VirtualService, fixed_pace, time_walk


@pytest.mark.parametrize(("workers", "at_once", "rounds"), [(1, 64, 98), (10, 64, 10), (10, 5, 20), (98, 64, 2)])
def test_a_walk_takes_as_many_rounds_as_requests_fit(workers: int, at_once: int, rounds: int) -> None:
    """A walk over a hundred pages takes as many seconds as there are rounds of simultaneous requests."""
    profile = Profile(latency=1, at_once=at_once, rows=10_000)
    walk = time_walk(profile, fixed_pace(100, workers))
    recheck = 2 if workers == 1 else 1
    assert walk.seconds == pytest.approx(1 + 1 + rounds + recheck, abs=0.5)
    assert (walk.verdict, walk.requests, walk.refused) == ("stable", 102, 0)


def test_rows_take_their_time() -> None:
    """A page of a hundred rows at 10 ms each takes a second."""
    walk = time_walk(Profile(latency=0, row_seconds=0.01, rows=1_000), fixed_pace(100, 1))
    assert walk.seconds == pytest.approx(12, abs=0.1)


def test_pages_are_decoded_one_at_a_time() -> None:
    """Decoding takes the sum of the pages' times, however many pages arrive at once."""
    walk = time_walk(Profile(latency=0, rows=10_000), fixed_pace(100, 50))
    assert walk.seconds == pytest.approx(102 * (0.0012 + 100 * 0.000004), rel=0.02)


def test_a_limit_of_requests_is_kept() -> None:
    """A walk is not faster than the rate limit allows, and sends refused requests again."""
    profile = Profile(latency=0.01, rows=10_000, rate_limit=10, retry_after=1)
    walk = time_walk(profile, fixed_pace(100, 8))
    assert walk.seconds >= (102 - 10) / 10
    assert walk.refused > 0
    assert walk.requests == 102 + walk.refused


def test_responses_to_an_abandoned_read_are_ignored_by_the_next() -> None:
    """A walk abandons a read when it has seen enough; its requests are answered all the same."""
    listing = SimulatedService(Scenario(QUIET, "continuous", 1, 1, 1_000, 100), random.Random(1))
    listing.fill(1_000)
    service = VirtualService(Profile(latency=1, rows=1_000), random.Random(1), listing.answer)
    reader = VirtualReader(service, fixed_pace(100, 4))
    first = reader.read([Window(page) for page in range(4)], 1)
    assert next(first).page == 0
    assert [reading.page for reading in reader.read([Window(7)], 2)] == [7]
