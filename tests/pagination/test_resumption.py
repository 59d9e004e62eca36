"""A pass continues with saved windows if nothing changed, at few requests, and is never wrong because of the gap."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from letters_source.errors import ServiceRejected
from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.resumption import EARLIER, ReadAgain, continue_pass, sample
from letters_source.pagination.walk import walk_listing
from simulated_service import (
    ConcurrentReader,
    Drift,
    Kind,
    Place,
    Scenario,
    SimulatedService,
    accepted_rows,
)

PAGES, PAGE_SIZE = 300, 500


class Killed(Exception):
    """The load was killed."""


@dataclass
class Load:
    """A load that ends after so many requests, and saves its windows until then."""

    scenario: Scenario
    rng: Random = field(init=False)
    service: SimulatedService = field(init=False)
    readings: dict[Window, Reading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = Random(self.scenario.seed)
        self.service = SimulatedService(replace(self.scenario, drift=Drift("insert", "end", 0)), self.rng)
        self.service.fill(self.scenario.rows)

    def kill(self, requests: int) -> None:
        """Load until the service has answered that many requests."""
        reader = ConcurrentReader(self.service, self.scenario.window, self.rng)

        def read(windows: Iterable[Window], number: int) -> Iterator[Reading]:
            for reading in reader.read(windows, number):
                if reading.size:
                    self.readings[reading.window] = replace(reading, walk=EARLIER)
                if self.service.requests >= requests:
                    raise Killed
                yield reading

        with pytest.raises(Killed):
            walk_listing(read, "contacts")

    def resume(self) -> list[str]:
        """The rows of the load that continues, while the listing changes."""
        self.service.scenario = self.scenario
        self.service.requests = 0
        reader = ConcurrentReader(self.service, self.scenario.window, self.rng)
        verdict = continue_pass(reader.read, "contacts", self)
        assert verdict.name == "continuous"
        return accepted_rows(verdict)

    def shows(self, again: Reading) -> bool:
        """Whether a window shows what it showed before."""
        saved = self.readings[again.window]
        return saved.count == again.count and saved.keys.equals(again.keys)

    def reuse(self, window: Window) -> Reading:
        """A saved window."""
        return self.readings[window]


def load(kind: Kind = "insert", place: Place = "end", rate: float = 0, seed: int = 1, pages: int = PAGES) -> Load:
    """A load of so many pages, with four requests in flight."""
    return Load(Scenario(Drift(kind, place, rate), "continuous", seed, 4, pages * PAGE_SIZE - 9, PAGE_SIZE))


@pytest.mark.slow
def test_a_load_killed_after_nine_tenths_of_its_responses_continues_with_15_percent_of_the_requests() -> None:
    """A load killed after nine tenths of its responses is completed with at most 15 % of its requests."""
    whole = load()
    reader = ConcurrentReader(whole.service, 4, whole.rng)
    walk_listing(reader.read, "contacts")
    killed = load()
    killed.kill(whole.service.requests * 9 // 10)
    rows = killed.resume()
    assert (len(rows), set(rows)) == (killed.scenario.rows, set(killed.service.rows))
    assert killed.service.requests <= 0.15 * whole.service.requests


def test_the_sample_has_the_first_and_the_last_window_and_equal_steps() -> None:
    """A sample of windows has the first, the last, and eight at equal steps between them."""
    windows = [Window(page, 500) for page in range(270)]
    assert [window.page for window in sample(reversed(windows))] == [0, 33, 66, 99, 132, 165, 198, 231, 264, 269]
    assert sample(windows[:1]) == windows[:1]


@pytest.mark.parametrize("kind", ["insert", "delete"])
@pytest.mark.parametrize("place", ["front", "anywhere", "end"])
def test_a_listing_whose_count_changed_is_read_again(kind: Kind, place: Place) -> None:
    """Saved windows are not used if the count has changed, wherever a row came or left."""
    killed = load(kind, place, pages=20)
    killed.kill(15)
    killed.service.change(killed.scenario.drift)
    with pytest.raises(ReadAgain, match="the listing changed since"):
        killed.resume()


def test_windows_saved_while_rows_came_are_read_again() -> None:
    """Saved windows with different counts are read again."""
    killed = load(pages=20)
    killed.kill(15)
    window, reading = next(iter(killed.readings.items()))
    killed.readings[window] = replace(reading, count=reading.count + 1)
    with pytest.raises(ReadAgain, match="the listing changed while they were read"):
        killed.resume()


def test_a_listing_that_is_short_by_now_is_read_again() -> None:
    """Saved windows are not used if the listing has become much shorter."""
    killed = load(pages=20)
    killed.kill(15)
    del killed.service.rows[600:]
    with pytest.raises(ReadAgain, match="the listing changed since"):
        killed.resume()


def test_a_listing_whose_pages_became_too_small_to_overlap_is_read_again() -> None:
    """Saved windows are not used if the service, for a page of the usual size, returns too few rows for an overlap."""
    killed = load(pages=20)
    killed.kill(15)
    killed.scenario = replace(killed.scenario, page_size=20)
    with pytest.raises(ReadAgain, match=r"^its pages no longer overlap$"):
        killed.resume()


def test_a_listing_whose_sample_is_refused_is_read_again() -> None:
    """Saved windows are not used if the service refuses to return one of them again, for the reason that it gives."""
    killed = load(pages=20)
    killed.kill(15)

    def refuse(windows: Iterable[Window], number: int) -> Iterator[Reading]:
        assert (list(windows), number) == (sample(killed.readings), EARLIER)
        raise ServiceRejected("contacts page 3: not found", status=404)

    with pytest.raises(ReadAgain, match=r"^contacts page 3: not found$"):
        continue_pass(refuse, "contacts", killed)


def test_saved_windows_outside_the_sample_are_not_requested_again() -> None:
    """A continued load requests what a whole one does, without the saved windows, and a sample of these."""
    whole, killed = load(pages=24), load(pages=24)
    walk_listing(ConcurrentReader(whole.service, 4, whole.rng).read, "contacts")
    killed.kill(21)
    rows = killed.resume()
    assert (len(rows), set(rows)) == (killed.scenario.rows, set(killed.service.rows))
    saved, sampled = len(killed.readings), len(sample(killed.readings))
    assert killed.service.requests == whole.service.requests - saved + sampled < whole.service.requests


def test_a_listing_that_changes_after_the_sample_is_read_again() -> None:
    """Saved windows are not used if a row comes after the sample was read again."""
    killed = load(pages=20)
    killed.kill(15)
    reader = ConcurrentReader(killed.service, 4, killed.rng)

    def read(windows: Iterable[Window], number: int) -> Iterator[Reading]:
        yield from reader.read(windows, number)
        if number == EARLIER:
            killed.service.change(killed.scenario.drift)

    with pytest.raises(ReadAgain, match=r"^the listing changed while the rest was read$"):
        continue_pass(read, "contacts", killed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["insert", "delete", "swap", "move", "mixed", "mixture"])
def test_no_row_that_stayed_is_missed_across_a_gap(kind: Kind) -> None:
    """A continued load misses no row that stayed while others came, left and moved."""
    for seed in range(30):
        killed = load(kind, "anywhere", 0.1, seed, pages=12)
        killed.kill(10)
        for _ in range(seed % 4):
            killed.service.change(killed.scenario.drift)
        try:
            rows = killed.resume()
        except ReadAgain:
            continue
        assert len(rows) == len(set(rows))
        assert killed.service.stayed <= set(rows)
