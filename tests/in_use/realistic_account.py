"""A realistic account: grown over years, with some states more frequent than others, and a few labels."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from row_changes import refill

from programmable_emulator import Emulator, Row, Traits

STATES = {
    "New Jersey": 21, "New York": 18, "Pennsylvania": 12, "Florida": 9, "Massachusetts": 7, "Connecticut": 6,
    "Texas": 5, "California": 5, "Ohio": 4, "Illinois": 3, "North Carolina": 3, "Georgia": 2, "Virginia": 2,
    "Maryland": 2, "Maine": 1, "Vermont": 1, "Oregon": 1, "Rhode Island": 1, "": 1,
}  # fmt: skip
LABELS = {
    "buyers": 14, "sellers": 11, "open house 2024": 9, "past clients": 7, "newsletter": 6, "first contact": 4,
    "VIP": 2, "do not mail": 1,
}  # fmt: skip
ADDRESS = {"Verified": 80, "Failed": 6, None: 14}
MAILED = {"Mailed": 55, "In Transit": 6, "Scheduled": 9, None: 30}
MONTHS = (6, 7, 11, 13, 14, 12, 8, 7, 11, 12, 8, 5)
TITLES = (
    "Just listed", "Just sold", "Open house invitation", "Price reduced", "Market update, spring", "Happy new year",
    "Thank you", "Welcome home", "Are you thinking of selling?", "Your neighborhood in numbers", "Holiday greeting",
    "A year in your home", "Referral request", "Buyer's guide", "Seller's guide", "We miss you",
)  # fmt: skip


def realistic_account(contacts: int = 4_000, templates: int = 32) -> Emulator:
    """An emulator that serves such an account."""
    rng = Random("portrait")
    emulator = Emulator(contacts, templates)
    moments = sorted(moment(rng) for _ in range(contacts))
    refill(
        emulator.contacts, [contact(row, at, rng) for row, at in zip(emulator.contacts.rows(), moments, strict=True)]
    )
    titled = [{**row.document, "title": title(number)} for number, row in enumerate(emulator.templates.rows())]
    refill(emulator.templates, map(Row.of, titled))
    return emulator


def title(number: int) -> str:
    """The title of a template."""
    return TITLES[number % len(TITLES)]


def moment(rng: Random) -> datetime:
    """Return when a contact was created: more in later years, and more in spring."""
    year = rng.choices((2021, 2022, 2023, 2024), (2, 3, 5, 7))[0]
    month = rng.choices(range(1, 13), MONTHS)[0]
    return datetime(year, month, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(28 * 86_400))


def contact(row: Row, created: datetime, rng: Random) -> Row:
    """A contact of the account in place of an emulator's."""
    status = draw(MAILED, rng)
    mailed = date(2024, 10, 1) + timedelta(days=min(rng.randrange(92), rng.randrange(92)))
    labels = {draw(LABELS, rng) for _ in range(rng.choices((0, 1, 2, 3), (30, 40, 20, 10))[0])}
    changes = {
        "state": draw(STATES, rng),
        "createdAt": created.isoformat().replace("+00:00", "Z"),
        "ContactLabels": [{"id": str(list(LABELS).index(name) + 4), "title": name} for name in sorted(labels)],
    }
    traits = Traits(
        address_status=draw(ADDRESS, rng), last_mailed_status=status, last_mailed_date=mailed if status else None
    )
    return Row.of(row.document | changes, traits)


def draw(weights: dict[Any, int], rng: Random) -> Any:
    """One of the values, each as often as its weight says."""
    return rng.choices(list(weights), list(weights.values()))[0]
