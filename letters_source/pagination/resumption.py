"""Continues a pass over a listing with windows that a stopped load has saved, if nothing changed since. Pure.

A row that moves from the part not yet read to the saved part shows only in the count, or in the windows that it
shifts. So saved windows are used only if a sample of them, read again, shows the same rows and the same count, and if
no window, saved or read now, shows a change.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from letters_source.errors import ServiceRejected
from letters_source.pagination.coding import Recorder
from letters_source.pagination.evidence import is_still
from letters_source.pagination.readings import Read, Reading, Window
from letters_source.pagination.verdicts import Verdict, continuous
from letters_source.pagination.walk import begin_walk, read_overlapping
from letters_source.pagination.windows import compare

EARLIER = 0
"""The number of the pass to which saved windows, and those compared with them, belong."""
# a row that moved shifts the same share of the windows of any listing, so the number need not grow with its length
SAMPLED = 8


class ReadAgain(Exception):
    """Saved windows cannot be used; the message says why."""


class Saved(Protocol):
    """The windows that a stopped load has saved."""

    @property
    def readings(self) -> Mapping[Window, Reading]:
        """The responses."""

    def shows(self, again: Reading) -> bool:
        """Return whether a saved window shows the same as a new reading of it."""

    def reuse(self, window: Window) -> Reading:
        """Return a saved window, whose rows are loaded if the listing proves to be complete."""


def continue_pass(read: Read, listing: str, saved: Saved) -> Verdict:
    """Return the verdict of a pass in which only what was not saved is read, or raise `ReadAgain`."""
    check_steady(list(saved.readings.values()))
    check_unchanged(read, saved)
    walk = begin_walk(read, listing, 1)
    # windows are saved only if they overlap
    if not walk.overlaps_at_once(expects_change=True):
        raise ReadAgain("its pages no longer overlap")
    replayed = Recorder(Replay(read, saved).read, [*walk.readings])
    linked = read_overlapping(replayed, walk, 1)
    verdict = continuous(replayed.coded, linked)
    # what changes now can hide what moved since the windows were saved
    if linked.fault or not verdict or not is_still(linked.evidence, linked.keys):
        raise ReadAgain("the listing changed while the rest was read")
    return verdict


def check_steady(saved: Sequence[Reading]) -> None:
    """Raise ReadAgain if the listing changed while windows of it were saved."""
    in_order = sorted(saved, key=lambda reading: reading.window.offset)
    neighbors = ((left, right) for left, right in pairwise(in_order) if right.window.offset < left.window.end)
    if len({reading.count for reading in saved}) > 1 or any(compare(*pair).has_moved for pair in neighbors):
        raise ReadAgain("the listing changed while they were read")


def check_unchanged(read: Read, saved: Saved) -> None:
    """Read a sample of the saved windows again; raise ReadAgain if one shows another count or other rows."""
    try:
        is_same = all(map(saved.shows, read(sample(saved.readings), EARLIER)))
    except ServiceRejected as error:
        raise ReadAgain(str(error)) from None
    if not is_same:
        raise ReadAgain("the listing changed since")


def sample(saved: Iterable[Window]) -> list[Window]:
    """Return the first and the last of the saved windows, and some in equal steps between them."""
    in_order = sorted(saved, key=lambda window: window.offset)
    step = max(1, len(in_order) // SAMPLED)
    return [*in_order[:-1:step], *in_order[-1:]]


@dataclass(slots=True, eq=False)
class Replay:
    """Reads windows. A saved window is used once, without a request."""

    pages: Read
    saved: Saved
    used: set[Window] = field(default_factory=set)

    def read(self, windows: Iterable[Window], number: int) -> Iterator[Reading]:
        """Read windows; see `Read`."""
        found: deque[Window] = deque()
        for reading in self.pages(self._missing(windows, found), number):
            yield reading
            yield from self._reused(found)
        yield from self._reused(found)

    def _missing(self, windows: Iterable[Window], found: deque[Window]) -> Iterator[Window]:
        for window in windows:
            if window in self.saved.readings and window not in self.used:
                self.used.add(window)
                found.append(window)
            else:
                yield window

    def _reused(self, found: deque[Window]) -> Iterator[Reading]:
        while found:
            yield self.saved.reuse(found.popleft())
