"""The concurrency limit finds what a service can serve, and page sizes are found too."""

import pytest

from letters_source.service.pacing import FEW_ROWS, FIRST_LIMIT, MANY_ROWS, ROUNDS_BETWEEN, ConcurrencyLimit, PageSize


def read_pages(limit: ConcurrencyLimit, pages: int, served: int, now: float = 0) -> tuple[float, list[int]]:
    """Read pages that take one second each while the service serves so many at once; the limits that were tried."""
    tried = [int(limit.pages)]
    while pages > 0:
        at_once = int(limit.pages)
        seconds = max(1, at_once / served)
        # all of them start now, and end together
        for _ in range(at_once):
            limit.finished(now, now + seconds, at_once)
        pages -= at_once
        now += seconds
        if limit.pages != tried[-1]:
            tried.append(int(limit.pages))
    return now, tried


def test_the_limit_grows_while_throughput_grows() -> None:
    """The limit doubles up to the ceiling if the service answers as fast as before."""
    limit = ConcurrencyLimit(16)
    assert read_pages(limit, 200, served=64)[1] == [FIRST_LIMIT, 8, 16]


@pytest.mark.parametrize("ceiling", [1, 2, 3, 4, 5, 7, 100])
def test_the_limit_ends_at_the_ceiling(ceiling: int) -> None:
    """No more pages than the ceiling are read at once."""
    limit = ConcurrencyLimit(ceiling)
    _, tried = read_pages(limit, 2_000, served=1_000)
    assert max(tried) == limit.pages == ceiling


@pytest.mark.parametrize(("served", "settled"), [(1, 4), (2, 4), (4, 4), (6, 8), (8, 8), (12, 16)])
def test_a_limit_that_only_makes_the_service_slower_is_taken_back(served: int, settled: int) -> None:
    """A limit that only makes the service slower is taken back, each time it is tried."""
    limit = ConcurrencyLimit(64)
    now, tried = read_pages(limit, 8 * settled, served)
    assert tried[-2:] == [2 * settled, settled]
    _, tried = read_pages(limit, (ROUNDS_BETWEEN + 10) * settled, served, now)
    assert tried == [settled, 2 * settled, settled]


def test_a_service_that_becomes_faster_gets_more_requests() -> None:
    """The limit that was taken back is kept when it is tried again."""
    limit = ConcurrencyLimit(16)
    now, _ = read_pages(limit, 100, served=4)
    assert limit.pages == FIRST_LIMIT
    read_pages(limit, 1_000, served=64, now=now)
    assert limit.pages == 16


def test_pages_read_alone_do_not_change_the_limit() -> None:
    """Pages read while fewer are in flight than the limit allows do not change the limit."""
    limit = ConcurrencyLimit(16)
    for now in range(100):
        limit.finished(now, now + 0.001, at_once=FIRST_LIMIT - 1)
    assert limit.pages == FIRST_LIMIT


def test_a_page_that_is_slow_by_chance_does_not_stop_the_growth() -> None:
    """A round of pages is judged by its median time, so that a slow page in four does not stop the growth."""
    limit = ConcurrencyLimit(16)
    for now in range(100):
        limit.finished(now, now + (50 if now % 4 == 0 else 1), int(limit.pages))
    assert limit.pages == 16


def test_a_refusal_halves_the_limit() -> None:
    """A refusal halves the limit, which never falls below one."""
    limit = ConcurrencyLimit(16)
    read_pages(limit, 200, served=64)
    halves = []
    for _ in range(6):
        limit.refused()
        halves.append(limit.pages)
    assert halves == [8, 4, 2, 1, 1, 1]


def test_after_a_refusal_the_limit_grows_by_one_for_each_round() -> None:
    """After a refusal the limit grows by one for each round up to the ceiling, and pages read alone do not count."""
    limit = ConcurrencyLimit(4)
    limit.refused()
    limit.finished(0, 1, at_once=1)
    grown = []
    for _ in range(6):
        limit.finished(0, 1, at_once=4)
        grown.append(limit.pages)
    assert grown == pytest.approx([2.5, 2.9, 3.244828, 3.553010, 3.834462, 4], abs=1e-5)


def test_another_listing_keeps_the_limit_and_is_measured_again() -> None:
    """A new listing keeps the limit without the one on trial, and is not compared with the listing before."""
    limit = ConcurrencyLimit(64)
    now, tried = read_pages(limit, 60, served=64)
    limit.restart(now)
    assert limit.pages == tried[-2]
    # ten times slower, and as many of them at once as before
    for number in range(100):
        limit.finished(now + number, now + number + 10, int(limit.pages))
    assert limit.pages == 64


def test_short_listings_do_not_raise_the_limit_step_by_step() -> None:
    """Each listing ends before a higher limit has been measured."""
    limit, now = ConcurrencyLimit(64), 0.0
    for _ in range(10):
        limit.restart(now)
        now, _ = read_pages(limit, 12, served=1, now=now)
    limit.restart(now)
    assert limit.pages == FIRST_LIMIT


def test_another_listing_does_not_undo_refusals() -> None:
    """A limit on trial that was refused is not taken back to the one before, but stays below it."""
    limit = ConcurrencyLimit(64)
    now, tried = read_pages(limit, 60, served=64)
    assert tried[-1] == 32
    for _ in range(4):
        limit.refused()
    limit.restart(now)
    assert limit.pages == 2


def test_large_pages_are_tried_first() -> None:
    """The first size of pages is on trial until it works."""
    size = PageSize("auto")
    assert (size.rows, size.is_trial) == (MANY_ROWS, True)
    size.settle(works=True)
    assert (size.rows, size.is_trial) == (MANY_ROWS, False)


def test_pages_that_do_not_work_become_smaller() -> None:
    """Pages that do not work become smaller once, and that size is not on trial."""
    size = PageSize("auto")
    size.settle(works=False)
    assert (size.rows, size.is_trial) == (FEW_ROWS, False)


def test_a_page_size_that_is_set_is_used() -> None:
    """A page size that is set is never on trial."""
    size = PageSize(700)
    assert (size.rows, size.is_trial) == (700, False)
