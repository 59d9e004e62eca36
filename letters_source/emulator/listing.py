"""The rows of one listing, and the JSON of its pages."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypeAlias, cast

import orjson


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a row that the service filters by and does not send."""

    account_id: str = "501"
    is_shared: bool = False
    address_status: Literal["Failed", "Verified"] | None = None
    last_mailed_status: str | None = None
    last_mailed_date: date | None = None
    is_return_address: bool = False
    has_property_address: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its id, its JSON text, its traits."""

    id: str
    wire: bytes
    traits: Traits

    @classmethod
    def of(cls, document: dict[str, Any], traits: Traits | None = None) -> "Row":
        """Make a row of any JSON object; without an id, its id is the text "None"."""
        # A copy: orjson keeps 8 kB for each text that it returns, so a million rows would take 8 GB.
        wire = memoryview(orjson.dumps(document)).tobytes()
        return cls(str(document.get("id")), wire, traits or Traits())

    @property
    def document(self) -> dict[str, Any]:
        """The row as the client reads it."""
        return cast("dict[str, Any]", orjson.loads(self.wire))


Predicate: TypeAlias = Callable[[Row], bool]


class Listing:
    """The rows of one listing, in order."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)
        self._matching: dict[Predicate, list[Row]] = {}

    @property
    def count(self) -> int:
        """The number of rows, unfiltered."""
        return len(self._rows)

    def rows(self, match: Predicate | None = None) -> list[Row]:
        """Return the matching rows, in order."""
        if match is None:
            return list(self._rows)
        if match not in self._matching:
            self._matching[match] = [row for row in self._rows if match(row)]
        return self._matching[match]

    def page(self, number: int, size: int, match: Predicate | None = None) -> bytes:
        """Return the envelope of one page (section 2.1); past the end it has no rows."""
        rows = self.rows(match) if match else self._rows
        return envelope(len(rows), [row.wire for row in rows[number * size : (number + 1) * size]])


def envelope(count: int, wires: Iterable[bytes]) -> bytes:
    """Return the response envelope of section 2.1 around rows of JSON."""
    return b'{"message":"Success","data":{"count":%d,"rows":[%b]}}' % (count, b",".join(wires))
