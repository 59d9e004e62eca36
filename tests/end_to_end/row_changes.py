"""Changes to the emulator's rows between two loads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from programmable_emulator import ChangingListing, Row


def amend(listing: ChangingListing, row_id: str, **changes: Any) -> None:
    """Give a row other fields; it stays where it is in the listing."""
    place = listing.ids().index(row_id)
    row = listing.delete(place)
    listing.insert(Row.of(row.document | changes, row.traits), place)


def set_traits(listing: ChangingListing, row_id: str, **changes: Any) -> None:
    """Give a row other traits, which the service filters by and does not send."""
    place = listing.ids().index(row_id)
    row = listing.delete(place)
    listing.insert(replace(row, traits=replace(row.traits, **changes)), place)


def clear(listing: ChangingListing) -> None:
    """Delete all rows."""
    for row_id in listing.ids():
        listing.delete(row_id)


def refill(listing: ChangingListing, rows: Iterable[Row]) -> None:
    """Replace all rows with these."""
    clear(listing)
    for row in rows:
        listing.insert(row)
