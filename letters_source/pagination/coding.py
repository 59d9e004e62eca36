"""Codes keys as numbers, once for all that is judged by them: which rows are the same, and which are repeated. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from letters_source.pagination.readings import Codes, Mask, Read, Reading, Window, has_no_id

PART_ROWS = 2**17
"""How many keys are coded at once: a hash table takes up to 130 bytes for a key."""
MOST_PARTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Readings whose keys are numbers, equal for equal keys: coded once, for all that is judged by them."""

    readings: Sequence[Reading]
    size: int
    _codes: Mapping[int, Codes]  # by the identity of a reading

    @classmethod
    def of(cls, readings: Iterable[Reading]) -> Self:
        """Code the keys of readings."""
        readings = tuple(readings)
        codes, size = code_keys([reading.keys for reading in readings])
        return cls(readings, size, dict(zip(map(id, readings), codes, strict=True)))

    def codes(self, reading: Reading) -> Codes:
        """Return the numbers of a reading's keys."""
        return self._codes[id(reading)]

    def ids(self, reading: Reading) -> Codes:
        """Return the numbers of a reading's ids, without rows that have none."""
        codes = self.codes(reading)
        return codes[~has_no_id(reading.keys).to_numpy(zero_copy_only=False)] if reading.rejected else codes

    def distinct(self, codes: Iterable[Codes]) -> int:
        """Return how many of these numbers are different."""
        shown = np.zeros(self.size, np.bool_)
        for each in codes:
            shown[each] = True
        return int(np.count_nonzero(shown))

    def repeated(self, codes: Iterable[Codes]) -> Codes:
        """Return the numbers that are there more than once, in order."""
        shown, again = np.zeros((2, self.size), np.bool_)
        for each in codes:
            once, times = np.unique(each, return_counts=True)
            again[once[(times > 1) | shown[once]]] = True
            shown[once] = True
        return np.flatnonzero(again).astype(np.int32)


def distinct_rows(readings: Sequence[Reading], coded: Coded | None = None) -> int:
    """Return the number of different ids, plus one for each row without an id."""
    coded = coded or Coded.of(readings)
    return sum(reading.rejected for reading in readings) + coded.distinct(map(coded.ids, readings))


def code_keys(keys: Sequence[pa.Array]) -> tuple[list[Codes], int]:
    """Return keys as numbers, equal for equal keys, and how many there are; one part of the keys after another."""
    joined = pa.chunked_array(keys, pa.string())
    number = min(MOST_PARTS, 1 + len(joined) // PART_ROWS)
    parts = np.concatenate([part_of(each, number) for each in keys]) if keys else np.empty(0, np.uint8)
    codes, size = np.empty(len(joined), np.int32), 0
    for part in range(number):
        here = parts == part
        found = joined.filter(pa.array(here)).combine_chunks().dictionary_encode()
        codes[here] = found.indices.to_numpy() + size
        size += len(found.dictionary)
    ends = np.cumsum([len(each) for each in keys])
    return [codes[end - len(each) : end] for each, end in zip(keys, ends, strict=True)], size


def part_of(keys: pa.Array, number: int) -> npt.NDArray[np.uint8]:
    """Return which of so many parts each key belongs to, by its last two bytes."""
    if number == 1 or not len(keys):
        return np.zeros(len(keys), np.uint8)
    _, places, text = keys.buffers()
    ends = np.frombuffer(places, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    begins, lasts, characters = ends[:-1], ends[1:] - 1, np.frombuffer(text, np.uint8)
    last, before = (characters[np.maximum(begins, at).clip(max=len(text) - 1)] for at in (lasts, lasts - 1))
    mixed = 31 * last.astype(np.int32) + before
    return np.where(lasts < begins, 0, mixed % number).astype(np.uint8)


def newest_rows(readings: Sequence[Reading], coded: Coded) -> list[Mask]:
    """Return for each reading which of its rows are the last reading of their key."""
    repeated = coded.repeated(map(coded.codes, readings))
    newest = np.full(len(repeated), -1)
    for number in sorted(range(len(readings)), key=lambda number: readings[number].answered):
        rows, keys = places_in(repeated, coded.codes(readings[number]))
        newest[keys] = (number << 32) + rows
    masks = []
    for number, reading in enumerate(readings):
        rows, keys = places_in(repeated, coded.codes(reading))
        mask = np.ones(len(reading.keys), np.bool_)
        mask[rows] = newest[keys] == (number << 32) + rows
        masks.append(mask)
    return masks


def places_in(chosen: Codes, codes: Codes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return which of the codes are chosen, and the place of each among those chosen, which are in order."""
    if not len(chosen):
        return np.empty((2, 0), np.int64)[0], np.empty(0, np.int64)
    places = np.searchsorted(chosen, codes).clip(max=len(chosen) - 1)
    rows = np.flatnonzero(chosen[places] == codes)
    return rows, places[rows]


def find_gaps(groups: Sequence[npt.NDArray[np.int64]], size: int) -> Mask:
    """Return which of the numbers below `size` are in two groups, and not in each between them."""
    first, last, times = np.full(size, len(groups)), np.full(size, -1), np.zeros(size, np.int64)
    for number, group in enumerate(groups):
        first[group] = np.minimum(first[group], number)
        last[group] = number
        times[group] += 1
    found: Mask = (times > 0) & (last - first + 1 != times)
    return found


def count_displaced(ranges: Sequence[Sequence[Reading]], coded: Coded) -> int:
    """Return how many ids are in two ranges of a listing and not in each between them."""
    if len(ranges) < 3:
        return 0
    ids = [np.concatenate([coded.ids(reading) for reading in readings]) for readings in ranges]
    repeated = coded.repeated(ids)
    groups = [np.unique(places_in(repeated, each)[1]) for each in ids]
    return int(np.count_nonzero(find_gaps(groups, len(repeated))))


@dataclass(slots=True, eq=False)
class Recorder:
    """Reads windows, and keeps every response in the order of arrival."""

    pages: Read
    readings: list[Reading] = field(default_factory=list)
    _coded: Coded | None = field(default=None, init=False)

    @property
    def coded(self) -> Coded:
        """All responses so far, coded; anew only if there are more since."""
        if self._coded is None or len(self._coded.readings) < len(self.readings):
            self._coded = None
            self._coded = Coded.of(self.readings)
        return self._coded

    def read(self, windows: Iterable[Window], number: int) -> Iterator[Reading]:
        """Read windows; see `Read`."""
        for reading in self.pages(windows, number):
            self.readings.append(reading)
            yield reading
