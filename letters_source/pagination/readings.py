"""A response as the proof of completeness sees it: its place, its count, its keys, and when it came. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.known import Places

NUL = "\x00"
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Keep = Sequence[Mask | bool]
"""Which rows of each reading to load."""


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
    places: Places | None = None  # of known rows among those known, -1 for decoded rows; None if all were decoded

    @property
    def window(self) -> Window:
        """The page that was asked for."""
        return Window(self.page, self.size)


Read = Callable[[Iterable[Window], int], Iterator[Reading]]
"""Reads windows concurrently for the pass with the given number, takes them only as there is room, and yields each
response as it arrives."""


def has_no_id(keys: pa.Array) -> pa.BooleanArray:
    """Return which keys are those of rows without a usable id."""
    return pc.starts_with(keys, NUL)


def all_keys(known: pa.Array, places: Places, decoded: pa.Array) -> pa.Array:
    """Return the keys of a page: of known rows by their places, and between them those of decoded rows."""
    is_known = places >= 0
    keys = known.take(pa.array(places, mask=~is_known))
    return pc.replace_with_mask(keys, pa.array(~is_known), decoded) if len(decoded) else keys


def wanted_keys(readings: Sequence[Reading], keep: Keep) -> pa.ChunkedArray:
    """Return the keys of the rows to load."""
    wanted = (
        reading.keys.filter(pa.array(np.broadcast_to(rows, len(reading.keys))))
        for reading, rows in zip(readings, keep, strict=True)
    )
    return pa.chunked_array(wanted, pa.string())


def repeats_rejected(walk: Sequence[Reading]) -> bool:
    """Return whether two pages show the same row without an id."""
    texts = [pc.unique(reading.keys.filter(has_no_id(reading.keys))) for reading in walk if reading.rejected]
    return sum(map(len, texts)) > len(pc.unique(pa.chunked_array(texts, pa.string())))


def shows_same_pages(walk: Sequence[Reading], before: Sequence[Reading]) -> bool:
    """Return whether two passes read the same pages with the same rows."""
    shown, earlier = ({reading.page: reading.keys for reading in readings} for readings in (walk, before))
    return shown.keys() == earlier.keys() and all(keys.equals(earlier[page]) for page, keys in shown.items())
