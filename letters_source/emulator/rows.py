"""What does an invented contact or template look like?  The same seed gives the same rows, whatever their number."""

import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from random import Random
from typing import Any, Literal, TypeVar

import orjson

from letters_source.emulator import words

T = TypeVar("T")

FIRST_DAY = datetime(2021, 1, 4, 8, 0, tzinfo=UTC)
TRAITS_POOL = 2_000
VERIFIED = (*[None] * 17, True, True, False)
NO_PRODUCT_EVERY = 23


@dataclass(frozen=True, slots=True)
class Traits:
    """What the service knows of a row and filters by, but does not send; a listing looks at those its filters name."""

    account_id: str = words.ACCOUNTS[0]
    is_shared: bool = False
    address_status: Literal["Failed", "Verified"] | None = None
    last_mailed_status: str | None = None
    last_mailed_date: date | None = None
    is_return_address: bool = False
    has_property_address: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it lies on the shelf: its id, its JSON text, its traits."""

    id: str
    wire: bytes
    traits: Traits

    @classmethod
    def of(cls, document: dict[str, Any], traits: Traits | None = None) -> "Row":
        """The row of any JSON object; without an id it is known by the text "None"."""
        # A copy, because orjson keeps 8 kB for each text it returns however short: a million rows would take 8 GB.
        wire = memoryview(orjson.dumps(document)).tobytes()
        return cls(str(document.get("id")), wire, traits or Traits())

    @property
    def document(self) -> dict[str, Any]:
        """The row as the client reads it."""
        found: dict[str, Any] = orjson.loads(self.wire)
        return found


def contacts(seed: int) -> Iterator[Row]:
    """Contacts without end, ids "1", "2", ..."""
    rng = Random(f"contacts {seed}")
    # Shared traits keep a million rows small; 2,000 are enough for every filter to find some.
    pool = [_contact_traits(rng) for _ in range(TRAITS_POOL)]
    labels = [_labels(start, size) for start in range(len(words.LABELS)) for size in range(4)]
    for number in itertools.count(1):
        document = _contact(number, rng)
        document["ContactLabels"] = _pick(rng, labels)
        document["createdAt"] = _timestamp(number, rng)
        yield Row.of(document, _pick(rng, pool))


def templates(seed: int) -> Iterator[Row]:
    """Templates without end, ids "1", "2", ..."""
    rng = Random(f"templates {seed}")
    products = _products()
    for number in itertools.count(1):
        traits = Traits(account_id=_pick(rng, words.ACCOUNTS), is_shared=rng.random() < 0.3)
        document = _template(number, rng)
        product = _pick(rng, products)
        document["product"] = None if number % NO_PRODUCT_EVERY == 0 else product
        yield Row.of(document, traits)


def _pick(rng: Random, options: Sequence[T]) -> T:
    # Several times as fast as Random.choice, and a million contacts pick twelve million times.
    return options[int(rng.random() * len(options))]


def _contact(number: int, rng: Random) -> dict[str, Any]:
    first, last = _pick(rng, words.FIRST_NAMES), _pick(rng, words.LAST_NAMES)
    city, state, zip_code, area = _pick(rng, words.PLACES)
    dice = int(rng.random() * 1_000_000)
    return {
        "id": str(number),
        "firstName": first,
        "lastName": last,
        "fullName": f"{first} {last}".strip(),
        "companyName": _pick(rng, words.COMPANIES),
        "address1": f"{dice % 9_900 + 1} {_pick(rng, words.STREETS)}",
        "address2": _pick(rng, words.SECOND_LINES),
        "city": city,
        "state": state,
        "zip": zip_code,
        "phoneNo": f"{area}-555-01{dice % 100:02}" if dice % 11 else _pick(rng, ("", None)),
        "extension": _pick(rng, words.EXTENSIONS),
        "websiteUrl": f"https://{_ascii(last)}.example.org" if dice % 3 else _pick(rng, ("", None)),
        "orgId": str(dice % 3 + 1),
        "email": f"{_ascii(first)}.{_ascii(last)}.{number}@example.org" if dice % 7 else _pick(rng, ("", None)),
        "isVerified": _pick(rng, VERIFIED),
        "isLiveMode": dice % 5 > 0,
    }


def _template(number: int, rng: Random) -> dict[str, Any]:
    creator, full_name = _pick(rng, words.CREATORS)
    kind = _pick(rng, words.TEMPLATE_TYPES)
    folder = f"https://files.example.org/org-1/user-{creator}"
    return {
        "id": str(number),
        "title": _pick(rng, words.TITLES),
        "templateUrl": f"{folder}/templates/{number}.{kind}",
        "templateType": kind,
        "thumbnailUrl": f"{folder}/thumbnails/{number}.png" if rng.random() < 0.9 else None,
        "creator": {"id": creator, "fullName": full_name},
    }


def _products() -> list[dict[str, Any]]:
    choices = itertools.product(words.PAPER_AND_ENVELOPE, words.DELIVERY_AND_POSTAGE, words.PRODUCT_METAS)
    return [_product(number, *choice) for number, choice in enumerate(choices, start=1)]


def _product(number: int, kind: str, delivery: str, meta: dict[str, object] | None) -> dict[str, Any]:
    paper, size, envelope = words.PAPER_AND_ENVELOPE[kind]
    return {
        "id": str(number),
        "paperType": paper,
        "paperSize": size,
        "deliveryType": delivery,
        "productType": kind,
        "envelopeType": envelope,
        "postageType": words.DELIVERY_AND_POSTAGE[delivery],
        "name": f"{kind}, {delivery}",
        "meta": meta,
    }


def _labels(start: int, size: int) -> list[dict[str, str]]:
    chosen = [words.LABELS[(start + 4 * step) % len(words.LABELS)] for step in range(size)]
    return [{"id": label, "title": title} for label, title in chosen]


def _contact_traits(rng: Random) -> Traits:
    status = _pick(rng, (None, "In Transit", "Mailed", "Scheduled"))
    mailed = date(2024, 1, 1) + timedelta(days=int(rng.random() * 366))
    return Traits(
        account_id=_pick(rng, words.ACCOUNTS),
        address_status=_pick(rng, (None, "Failed", "Verified", "Verified")),
        last_mailed_status=status,
        last_mailed_date=mailed if status else None,
        is_return_address=rng.random() < 0.05,
        has_property_address=rng.random() < 0.2,
    )


def _timestamp(number: int, rng: Random) -> str:
    moment = FIRST_DAY + timedelta(seconds=97 * number, milliseconds=int(rng.random() * 90_000))
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


@cache
def _ascii(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.lower())
    return "".join(letter for letter in letters if letter.isascii() and letter.isalpha()) or "hello"
