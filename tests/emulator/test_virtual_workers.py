"""Workers that share a virtual service take what its limits, their cores and the changes of its rows allow."""

import pytest

from simulated_service import Drift
from virtual_service import Profile
from virtual_workers import Costs, Fleet, count_pages, read_rows

FREE = Costs(0, 0)


@pytest.mark.parametrize(
    ("fleet", "seconds", "bottleneck"),
    [
        (Fleet(profile=Profile(latency=1, rows=100_000), at_once=4, costs=FREE), 27, "latency"),
        (Fleet(profile=Profile(latency=1, rows=100_000), workers=2, at_once=4, costs=FREE), 15, "latency"),
        (Fleet(profile=Profile(latency=1, at_once=2, rows=100_000), workers=4, costs=FREE), 53, "places"),
        (Fleet(profile=Profile(latency=0.1, rate_limit=5, rows=100_000), rate=5, costs=FREE), 21, "rate limit"),
        (Fleet(profile=Profile(latency=0, rows=100_000), costs=Costs(page=1)), 105, "worker CPU"),
        (
            Fleet(profile=Profile(latency=0.001, rows=100_000), costs=Costs(0, 0, write=0.001, judge=0.002)),
            300,
            "latency",
        ),
    ],
)
def test_the_narrowest_limit_sets_the_time(fleet: Fleet, seconds: float, bottleneck: str) -> None:
    """The narrowest limit sets the time of a run and is named as its bottleneck."""
    run = count_pages(fleet)
    assert run.seconds == pytest.approx(seconds, rel=0.05)
    assert (run.refused, run.fault) == (0, None)
    assert fleet.costs.write or run.bottleneck == bottleneck


def test_pages_without_keys_take_as_long_as_rows() -> None:
    """Counting pages takes as long and as many requests as reading rows, where rows do not change."""
    fleet = Fleet(profile=Profile(latency=0.1, rows=10_000), workers=3, page_size=200)
    pages, rows = count_pages(fleet), read_rows(fleet)
    assert rows.seconds == pytest.approx(pages.seconds, rel=0.05)
    assert rows.requests == pytest.approx(pages.requests, rel=0.05)
    assert rows.fault is None


def test_few_changes_are_repaired_and_many_refused() -> None:
    """Ranges with few shifted rows are linked by further requests, and those with many are refused."""
    profile = Profile(latency=0.1, rows=3_000, drift=Drift("swap", "end", 0))
    still, few, many = (
        read_rows(Fleet(profile=profile, workers=2, page_size=50, at_once=1, changes=changes))
        for changes in (0, 5, 1_000)
    )
    assert (still.fault, few.fault) == (None, None)
    assert few.requests > still.requests
    assert many.fault == "its rows shifted faster than overlapping pages could follow"


def test_workers_that_are_refused_for_too_long_give_up() -> None:
    """Three hundred workers that share one request a second give up."""
    profile = Profile(latency=0.1, rows=300_000, rate_limit=1, retry_after=1)
    assert count_pages(Fleet(profile=profile, workers=300)).fault == "gave up after 120 s"
