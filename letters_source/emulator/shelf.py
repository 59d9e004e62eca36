"""Which rows does one listing hold, and what is the JSON of one of its pages?"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from threading import Lock
from typing import Any, TypeAlias

import orjson

from letters_source.emulator.rows import Row, Traits

Predicate: TypeAlias = Callable[[Row], bool]


class Shelf:
    """The rows of one listing, in the order in which they are listed; may be changed while it is served.

    Args:
        source: rows without end; the first ones are on the shelf at once, the others follow through `grow`.
        size: how many rows are on the shelf at once.
    """

    def __init__(self, source: Iterator[Row], size: int) -> None:
        self._source = source
        self._rows = list(islice(source, size))
        self._views: dict[Predicate, list[Row]] = {}
        self._lock = Lock()

    @property
    def count(self) -> int:
        """How many rows the listing holds, unfiltered."""
        return len(self._rows)

    def ids(self) -> list[str]:
        """Every id, in the order of the listing."""
        with self._lock:
            return [row.id for row in self._rows]

    def rows(self, match: Predicate | None = None) -> list[Row]:
        """The rows that match, traits included, in the order of the listing."""
        with self._lock:
            return list(self._view(match))

    def page(self, number: int, size: int, match: Predicate | None = None, extra: bytes = b"") -> bytes:
        """The envelope of one page (section 2.1); past the end it carries no rows.

        `extra` is what follows the last field of every row, as `closing` writes it.
        """
        with self._lock:
            view = self._view(match)
            wires = [row.wire for row in view[number * size : (number + 1) * size]]
            count = len(view)
        if extra:
            wires = [wire[:-1] + extra for wire in wires]
        return b'{"message":"Success","data":{"count":%d,"rows":[%b]}}' % (count, b",".join(wires))

    def insert(self, row: Row | dict[str, Any], at: int | None = None, traits: Traits | None = None) -> None:
        """Put a row before position `at`; at the end when it is None."""
        new = row if isinstance(row, Row) else Row.of(row, traits)
        with self._lock:
            self._put(new, at)

    def grow(self, at: int | None = None) -> Row:
        """Invent one more row and put it before position `at`; at the end when it is None."""
        with self._lock:
            new = next(self._source)
            self._put(new, at)
            return new

    def delete(self, which: int | str) -> Row:
        """Take away the row at a position, or the first with an id.

        Raises:
            LookupError: there is no such row.
        """
        with self._lock:
            position = which if isinstance(which, int) else self._position(which)
            gone = self._rows.pop(position)
            self._views.clear()
            return gone

    def _put(self, row: Row, at: int | None) -> None:
        self._rows.insert(len(self._rows) if at is None else at, row)
        self._views.clear()

    def _position(self, row_id: str) -> int:
        for position, row in enumerate(self._rows):
            if row.id == row_id:
                return position
        raise LookupError(row_id)

    def _view(self, match: Predicate | None) -> list[Row]:
        if match is None:
            return self._rows
        if match not in self._views:
            self._views[match] = [row for row in self._rows if match(row)]
        return self._views[match]


def closing(extra_fields: Mapping[str, Any]) -> bytes:
    """The text that ends a row which carries these fields after its own; empty for none."""
    return b"," + orjson.dumps(dict(extra_fields))[1:] if extra_fields else b""
