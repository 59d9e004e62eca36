"""A response as the proof of completeness sees it: its place, its count, its keys, and when it came. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NUL = "\x00"
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Window(NamedTuple):
    """A page, of the listing's usual size, or of `size` rows."""

    page: int
    size: int | None = None

    @property
    def offset(self) -> int:
        """The offset of its first row."""
        return self.page * (self.size or 0)

    @property
    def end(self) -> int:
        """The offset after its last row."""
        return self.offset + (self.size or 0)


When = Literal["then", "after", "earlier"]
"""When a listing had the count of a response: in the response, after it and before the next request, or once before."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One response; `asked` and `answered` are ticks of a clock that all requests of a listing share."""

    page: int
    walk: int
    count: int
    keys: pa.Array  # each row's id, or NUL and the whole text of a row without one; no id contains NUL
    rejected: int
    asked: int
    answered: int
    size: int | None = None  # as in `Window`
    counted: When = "then"
    places: Codes | None = None  # of known rows among those known, -1 for decoded rows; None if all were decoded

    @property
    def window(self) -> Window:
        """The page that was asked for."""
        return Window(self.page, self.size)


Read = Callable[[Iterable[Window], int], Iterator[Reading]]
"""Reads windows concurrently for the pass with the given number, takes them only as there is room, and yields each
response as it arrives."""


@dataclass(slots=True, eq=False)
class Recorder:
    """Reads windows, and keeps every response in the order of arrival."""

    pages: Read
    readings: list[Reading] = field(default_factory=list)

    def read(self, windows: Iterable[Window], number: int) -> Iterator[Reading]:
        """Read windows; see `Read`."""
        for reading in self.pages(windows, number):
            self.readings.append(reading)
            yield reading


def has_no_id(keys: pa.Array) -> pa.BooleanArray:
    """Return which keys are those of rows without a usable id."""
    return pc.starts_with(keys, NUL)


def all_keys(known: pa.Array, places: Codes, decoded: pa.Array) -> pa.Array:
    """Return the keys of a page: of known rows by their places, and between them those of decoded rows."""
    is_known = places >= 0
    keys = known.take(pa.array(places, mask=~is_known))
    return pc.replace_with_mask(keys, pa.array(~is_known), decoded) if len(decoded) else keys


def distinct_rows(readings: Sequence[Reading]) -> int:
    """Return the number of different ids, plus one for each row without an id."""
    keys = pa.chunked_array([reading.keys for reading in readings], pa.string())
    rejected = sum(reading.rejected for reading in readings)
    if rejected:
        keys = keys.filter(pc.invert(has_no_id(keys)))
    return rejected + len(pc.unique(keys))


def distinct_keys(readings: Sequence[Reading]) -> int:
    """Return the number of different keys; equal rows without an id count as one."""
    return len(pc.unique(pa.chunked_array([reading.keys for reading in readings], pa.string())))


def repeats_rejected(walk: Sequence[Reading]) -> bool:
    """Return whether two pages show the same row without an id."""
    texts = [pc.unique(reading.keys.filter(has_no_id(reading.keys))) for reading in walk if reading.rejected]
    return sum(map(len, texts)) > len(pc.unique(pa.chunked_array(texts, pa.string())))


def shows_same_pages(walk: Sequence[Reading], before: Sequence[Reading]) -> bool:
    """Return whether two passes read the same pages with the same rows."""
    shown, earlier = ({reading.page: reading.keys for reading in readings} for readings in (walk, before))
    return shown.keys() == earlier.keys() and all(keys.equals(earlier[page]) for page, keys in shown.items())


def code_keys(readings: Sequence[Reading]) -> list[Codes]:
    """Return each reading's keys as numbers, equal for equal keys."""
    keys = pa.chunked_array([reading.keys for reading in readings], pa.string()).combine_chunks()
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    ends = np.cumsum([len(reading.keys) for reading in readings])
    return np.split(codes, ends[:-1])


def count_codes(coded: Sequence[Codes]) -> int:
    """Return how many different keys the numbers of `code_keys` stand for."""
    return max((int(codes.max(initial=-1)) for codes in coded), default=-1) + 1


def newest_rows(readings: Sequence[Reading], coded: Sequence[Codes]) -> list[Mask]:
    """Return for each reading which of its rows are the last reading of their key."""
    size = count_codes(coded)
    source, place = np.full(size, -1), np.full(size, -1)
    for index in sorted(range(len(readings)), key=lambda index: readings[index].answered):
        source[coded[index]] = index
        place[coded[index]] = np.arange(len(coded[index]))
    return [(source[codes] == index) & (place[codes] == np.arange(len(codes))) for index, codes in enumerate(coded)]


def count_displaced(ranges: Sequence[Sequence[Reading]]) -> int:
    """Return how many ids are in two ranges of a listing and not in each between them."""
    if len(ranges) < 3:
        return 0
    ids = [
        pc.unique(pa.chunked_array([one.keys.filter(pc.invert(has_no_id(one.keys))) for one in readings], pa.string()))
        for readings in ranges
    ]
    places = np.repeat(np.arange(len(ids)), [len(each) for each in ids])
    table = pa.table({"id": pa.chunked_array(ids, pa.string()), "place": places})
    spans = table.group_by("id").aggregate([("place", "min"), ("place", "max"), ("place", "count")])
    length = pc.subtract(spans["place_max"], spans["place_min"])
    return int(pc.sum(pc.not_equal(pc.add(length, 1), spans["place_count"])).as_py() or 0)
