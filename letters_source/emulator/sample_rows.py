"""Sample contacts and templates, the newest of them just before `today`.

The same seed and day give the same rows: a longer listing starts with the shorter one.
"""

import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from random import Random
from typing import Any, TypeVar

from letters_source.emulator.listing import Row, Traits

T = TypeVar("T")

YEAR = timedelta(days=366)
TRAITS_POOL = 2_000
VERIFIED = (*[None] * 17, True, True, False)
NO_PRODUCT_EVERY = 23

# no real person, company or mailbox
FIRST_NAMES = (
    "Ada", "Alexis", "Amara", "Björn", "Cleo", "Dariush", "Elodie", "Farrah", "Gideon", "Hana", "Ilse", "Jovan",
    "Kalina", "Leif", "Mireille", "Nguyễn", "Odalys", "Piotr", "Quincy", "Renée", "Søren", "Tamsin", "Ulises",
    "Vesna", "Wren", "Ximena", "Yusuf", "Zoë", "",
)  # fmt: skip
LAST_NAMES = (
    "Abernethy", "Brightwater", "Castellan", "Dunmorrow", "Easterling", "Fernsby", "Greyson-Vale", "Hollowell",
    "Ironwood", "Jasperse", "Kettleburn", "Lindqvist", "Marchbanks", "Nightingale", "O'Example", "Pemberley",
    "Quillfeather", "Ravenscroft", "Sørbakken", "Thistlewood", "Underhill", "Vandermeer", "Winterbourne",
    "Yarrowdale", "Zeltinger",
)  # fmt: skip
COMPANIES = (
    "ABC, Inc.", "Example Holdings", 'The "Paper" Mill', "Grünwald & Söhne", "Acme Roofing LLC", "Café Exemple",
    "Northwind Estates", "Blue Door Realty", "", "", None,
)  # fmt: skip
STREETS = (
    "Random Street", "High St", "Old Mill Road", "Maple Avenue", "Rue de l'Été", "Harbor View Drive", "Second Avenue",
    "County Road 12", "Orchard Lane",
)  # fmt: skip
SECOND_LINES = ("", "", "", "Suite 567", "Apt 4B", "Unit #12", None)
EXTENSIONS = ("", "", "", "123", "07", None)

PLACES = (
    ("Hoboken", "New Jersey", "07030", "201"), ("Newark", "New Jersey", "07102", "973"),
    ("Portland", "Maine", "04101", "207"), ("Boston", "Massachusetts", "02108", "617"),
    ("Providence", "Rhode Island", "02903", "401"), ("Hartford", "Connecticut", "06103", "860"),
    ("Concord", "New Hampshire", "03301", "603"), ("Burlington", "Vermont", "05401", "802"),
    ("San Juan", "Puerto Rico", "00901", "787"), ("Springfield", "Illinois", "62704", "217"),
    ("Portland", "Oregon", "97201", "503"), ("Austin", "Texas", "78701", "512"),
    ("Cañon City", "Colorado", "81212", "719"), ("Columbus", "Ohio", "43215", "614"),
    ("Fargo", "North Dakota", "58102", "701"), ("Tampa", "Florida", "33602", "813"),
)  # fmt: skip

ACCOUNTS = ("501", "502", "503")

LABELS = (
    ("4", "office"), ("5", "house"), ("6", 'Q4 "hot"'), ("7", "Größe XL"), ("8", "follow-up"), ("9", "顧客"),
    ("10", "do not mail"), ("11", "l'été"), ("12", "VIP 🎩"), ("13", "buyers, past"), ("14", "sellers"),
)  # fmt: skip

TITLES = (
    "Spring offer", "Zweite Mahnung „Ä“", "Holiday greeting", "Just listed", 'The "Final" notice', "Price reduced",
    "Open house invitation", "Lettre d'été", "",
)  # fmt: skip
CREATORS = (("2", "Ada Example"), ("4", "Zoë O'Example"), ("7", "Gideon Fernsby"), ("11", "Björn Lindqvist"))
TEMPLATE_TYPES = ("json", "json", "json", "html")

PAPER_AND_ENVELOPE = {
    "Professional Letters": ("60# Statement", "8.5x11", "#10 Grey"),
    "Personal Letters": ("80# Linen", "4.25x5.5", "A7 White"),
}
DELIVERY_AND_POSTAGE = {"First Class": "Live", "Standard Class": "Stamped"}
PRODUCT_METAS = (None, None, {"folds": 1, "colors": ["black", "blue"]}, {"duplex": True, "note": "Maß"})


def contacts(seed: int, today: date) -> Iterator[Row]:
    """Yield contacts forever, with ids "1", "2", ..., created and last mailed in the year before `today`."""
    rng = Random(f"contacts {seed}")
    # Rows share traits, so that a million rows stay small; 2,000 are enough for every filter to match some.
    pool = [_contact_traits(today, rng) for _ in range(TRAITS_POOL)]
    labels = [_labels(start, size) for start in range(len(LABELS)) for size in range(4)]
    midnight = datetime.combine(today, time(), UTC)
    for number in itertools.count(1):
        document = _contact(number, rng)
        document["ContactLabels"] = _pick(rng, labels)
        document["createdAt"] = _timestamp(midnight, rng)
        yield Row.of(document, _pick(rng, pool))


def templates(seed: int) -> Iterator[Row]:
    """Yield templates forever, with ids "1", "2", ..."""
    rng = Random(f"templates {seed}")
    choices = itertools.product(PAPER_AND_ENVELOPE, DELIVERY_AND_POSTAGE, PRODUCT_METAS)
    products = [_product(number, *choice) for number, choice in enumerate(choices, start=1)]
    for number in itertools.count(1):
        traits = Traits(account_id=_pick(rng, ACCOUNTS), is_shared=rng.random() < 0.3)
        document = _template(number, rng)
        product = _pick(rng, products)
        document["product"] = None if number % NO_PRODUCT_EVERY == 0 else product
        yield Row.of(document, traits)


def _pick(rng: Random, options: Sequence[T]) -> T:
    # Several times faster than Random.choice; a million contacts make twelve million picks.
    return options[int(rng.random() * len(options))]


def _contact(number: int, rng: Random) -> dict[str, Any]:
    first, last = _pick(rng, FIRST_NAMES), _pick(rng, LAST_NAMES)
    city, state, zip_code, area = _pick(rng, PLACES)
    dice = int(rng.random() * 1_000_000)
    return {
        "id": str(number),
        "firstName": first,
        "lastName": last,
        "fullName": f"{first} {last}".strip(),
        "companyName": _pick(rng, COMPANIES),
        "address1": f"{dice % 9_900 + 1} {_pick(rng, STREETS)}",
        "address2": _pick(rng, SECOND_LINES),
        "city": city,
        "state": state,
        "zip": zip_code,
        "phoneNo": f"{area}-555-01{dice % 100:02}" if dice % 11 else _pick(rng, ("", None)),
        "extension": _pick(rng, EXTENSIONS),
        "websiteUrl": f"https://{_ascii(last)}.example.org" if dice % 3 else _pick(rng, ("", None)),
        "orgId": str(dice % 3 + 1),
        "email": f"{_ascii(first)}.{_ascii(last)}.{number}@example.org" if dice % 7 else _pick(rng, ("", None)),
        "isVerified": _pick(rng, VERIFIED),
        "isLiveMode": dice % 5 > 0,
    }


def _template(number: int, rng: Random) -> dict[str, Any]:
    creator, full_name = _pick(rng, CREATORS)
    kind = _pick(rng, TEMPLATE_TYPES)
    folder = f"https://files.example.org/org-1/user-{creator}"
    return {
        "id": str(number),
        "title": _pick(rng, TITLES),
        "templateUrl": f"{folder}/templates/{number}.{kind}",
        "templateType": kind,
        "thumbnailUrl": f"{folder}/thumbnails/{number}.png" if rng.random() < 0.9 else None,
        "creator": {"id": creator, "fullName": full_name},
    }


def _product(number: int, kind: str, delivery: str, meta: dict[str, object] | None) -> dict[str, Any]:
    paper, size, envelope = PAPER_AND_ENVELOPE[kind]
    return {
        "id": str(number),
        "paperType": paper,
        "paperSize": size,
        "deliveryType": delivery,
        "productType": kind,
        "envelopeType": envelope,
        "postageType": DELIVERY_AND_POSTAGE[delivery],
        "name": f"{kind}, {delivery}",
        "meta": meta,
    }


def _labels(start: int, size: int) -> list[dict[str, str]]:
    chosen = [LABELS[(start + 4 * step) % len(LABELS)] for step in range(size)]
    return [{"id": label, "title": title} for label, title in chosen]


def _contact_traits(today: date, rng: Random) -> Traits:
    status = _pick(rng, (None, "In Transit", "Mailed", "Scheduled"))
    mailed = today - YEAR + timedelta(days=int(rng.random() * YEAR.days))
    return Traits(
        account_id=_pick(rng, ACCOUNTS),
        address_status=_pick(rng, (None, "Failed", "Verified", "Verified")),
        last_mailed_status=status,
        last_mailed_date=mailed if status else None,
        is_return_address=rng.random() < 0.05,
        has_property_address=rng.random() < 0.2,
    )


def _timestamp(midnight: datetime, rng: Random) -> str:
    # not in the order of ids: a moment that depends on the number of rows would change rows when a listing grows
    moment = midnight - timedelta(milliseconds=int(rng.random() * YEAR / timedelta(milliseconds=1)) + 1)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


@cache
def _ascii(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.lower())
    return "".join(letter for letter in letters if letter.isascii() and letter.isalpha()) or "hello"
