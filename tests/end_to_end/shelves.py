"""Changes to the emulator's rows between two loads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from programmable_emulator import ChangingListing, Row


def amend(shelf: ChangingListing, row_id: str, **changes: Any) -> None:
    """Give a row other fields; it stays where it is in the listing."""
    place = shelf.ids().index(row_id)
    row = shelf.delete(place)
    shelf.insert(Row.of(row.document | changes, row.traits), place)


def retrait(shelf: ChangingListing, row_id: str, **changes: Any) -> None:
    """Give a row other traits, which the service filters by and does not send."""
    place = shelf.ids().index(row_id)
    row = shelf.delete(place)
    shelf.insert(replace(row, traits=replace(row.traits, **changes)), place)


def clear(shelf: ChangingListing) -> None:
    """Take all rows away."""
    for row_id in shelf.ids():
        shelf.delete(row_id)


def refill(shelf: ChangingListing, rows: Iterable[Row]) -> None:
    """Put these rows in place of all there are."""
    clear(shelf)
    for row in rows:
        shelf.insert(row)
