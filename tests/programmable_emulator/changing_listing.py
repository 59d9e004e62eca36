"""A listing whose rows can be changed while it is served."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from random import Random
from threading import RLock
from types import MappingProxyType
from typing import Any

import orjson

from letters_source.emulator.listing import Listing, Predicate, Row, Traits, envelope
from programmable_emulator.behavior import Drift

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ChangingListing(Listing):
    """The rows of one listing, in order; any thread may change them.

    Args:
        source: an endless supply of rows; the listing starts with the first `size`, `grow` adds the next ones.
    """

    def __init__(self, source: Iterator[Row], size: int) -> None:
        super().__init__(islice(source, size))
        self._source = source
        self._lock = RLock()

    def ids(self) -> list[str]:
        """Return every id, in order."""
        with self._lock:
            return [row.id for row in self._rows]

    def rows(self, match: Predicate | None = None) -> list[Row]:
        """Return the matching rows, in order."""
        with self._lock:
            return super().rows(match)

    def page(
        self,
        number: int,
        size: int,
        match: Predicate | None = None,
        *,
        extra: Mapping[str, Any] = NOTHING,
        counted: Callable[[int], int] = int,
    ) -> bytes:
        """Return the envelope of one page, whose rows end with the extra fields."""
        with self._lock:
            rows = self.rows(match) if match else self._rows
            wires = [row.wire for row in rows[number * size : (number + 1) * size]]
            return envelope(counted(len(rows)), [wire[:-1] + _ending(extra) for wire in wires] if extra else wires)

    def insert(self, row: Row | dict[str, Any], at: int | None = None, traits: Traits | None = None) -> None:
        """Insert a row before position `at`, by default at the end."""
        new = row if isinstance(row, Row) else Row.of(row, traits)
        with self._lock:
            self._rows.insert(self.count if at is None else at, new)
            self._matching.clear()

    def grow(self, at: int | None = None) -> Row:
        """Insert the next sample row before position `at`, by default at the end."""
        with self._lock:
            new = next(self._source)
            self.insert(new, at)
            return new

    def delete(self, which: int | str) -> Row:
        """Delete the row at a position, or the first row with an id.

        Raises:
            LookupError: there is no such row.
        """
        with self._lock:
            gone = self._rows.pop(which if isinstance(which, int) else self._position(which))
            self._matching.clear()
            return gone

    def drift(self, drift: Drift, rng: Random) -> None:
        """Insert, delete or swap a row, with the probability `drift.rate`."""
        if rng.random() >= drift.rate:
            return
        if drift.kind != "insert" and self.count:
            place = "anywhere" if drift.kind == "swap" else drift.place
            self.delete(_choose(place, self.count - 1, rng))
        if drift.kind != "delete":
            self.grow(_choose(drift.place, self.count, rng))

    def _position(self, row_id: str) -> int:
        for position, row in enumerate(self._rows):
            if row.id == row_id:
                return position
        raise LookupError(row_id)


def _ending(fields: Mapping[str, Any]) -> bytes:
    return b"," + orjson.dumps(dict(fields))[1:]


def _choose(place: str, last: int, rng: Random) -> int:
    if place == "front":
        return 0
    return last if place == "end" else rng.randint(0, last)
