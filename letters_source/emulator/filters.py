"""The filters of the two listings, and their query parameters, of which invalid ones are answered with 400.

Section 4 names and encodes them; where it does not say how they match, this is an assumption.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from time import strptime
from typing import Any, NoReturn, TypeAlias

import orjson
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from letters_source.emulator.listing import Predicate, Row, Traits

ReadFilter: TypeAlias = Callable[[QueryParams], Predicate | None]

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# section 4.2 shows both formats and does not say which one is valid
DATE_FORMATS = ("%Y-%m-%d", "%d-%m-%Y")
LONGEST_NUMBER = 9
ADDRESS_STATUSES = ("Failed", "Verified")
SEARCHED = ("firstName", "lastName", "fullName", "companyName", "email", "city")


@dataclass(frozen=True, slots=True)
class ContactFilter:
    """Contacts that match all given parameters: any of the statuses, any of the tags, days inclusive."""

    search: str = ""
    address_status: frozenset[str] = frozenset()
    last_mailed_status: frozenset[str] = frozenset()
    mailed: tuple[date | None, date | None] = (None, None)
    tags: frozenset[str] = frozenset()
    property_addresses: bool | None = None
    account_id: str = ""
    return_address: bool | None = None

    def __call__(self, row: Row) -> bool:
        """Return whether the row matches."""
        return self._fits_traits(row.traits) and (not (self.search or self.tags) or self._fits_document(row.document))

    def _fits_traits(self, traits: Traits) -> bool:
        return (
            self.account_id in ("", traits.account_id)
            and self.return_address in (None, traits.is_return_address)
            and (not self.address_status or traits.address_status in self.address_status)
            and (not self.last_mailed_status or traits.last_mailed_status in self.last_mailed_status)
            # "Whether property addresses are included": only false excludes rows
            and not (self.property_addresses is False and traits.has_property_address)
            and self._fits_day(traits.last_mailed_date)
        )

    def _fits_day(self, day: date | None) -> bool:
        if self.mailed == (None, None):
            return True
        first, last = self.mailed
        return day is not None and (first or day) <= day <= (last or day)

    def _fits_document(self, document: dict[str, Any]) -> bool:
        labels = map(_object, document.get("ContactLabels") or ())
        names_tag = any(self.tags & {str(label.get("id")), str(label.get("title"))} for label in labels)
        return (names_tag or not self.tags) and any(
            self.search in str(document.get(name) or "").casefold() for name in SEARCHED
        )


@dataclass(frozen=True, slots=True)
class TemplateFilter:
    """Templates that match all given parameters; `creator` is an id or part of a full name."""

    product_types: frozenset[str] = frozenset()
    creator: str = ""
    shared: bool | None = None
    account_id: str = ""

    def __call__(self, row: Row) -> bool:
        """Return whether the row matches."""
        return (
            self.account_id in ("", row.traits.account_id)
            and self.shared in (None, row.traits.is_shared)
            and self._fits_document(row.document)
        )

    def _fits_document(self, document: dict[str, Any]) -> bool:
        kind = _object(document.get("product")).get("productType")
        creator = _object(document.get("creator"))
        names_creator = self.creator == creator.get("id") or self.creator in str(creator.get("fullName")).casefold()
        return names_creator and (not self.product_types or kind in self.product_types)


def _object(value: object) -> dict[str, Any]:
    # tests serve rows of any shape
    return value if isinstance(value, dict) else {}


def read_contact_filter(params: QueryParams) -> ContactFilter | None:
    """Return the filter of a contacts request (section 4.2), or None if there is none."""
    asked = ContactFilter(
        search=params.get("search", "").casefold(),
        address_status=read_texts(params, "addressStatus", ADDRESS_STATUSES),
        last_mailed_status=read_texts(params, "lastMailedStatus"),
        mailed=read_period(params, "lastMailedDate"),
        tags=read_tags(params, "tags"),
        property_addresses=read_flag(params, "withPropertyAddresses"),
        account_id=params.get("meta.account_id", ""),
        return_address=read_flag(params, "isReturnAddress"),
    )
    return None if asked == ContactFilter() else asked


def read_template_filter(params: QueryParams) -> TemplateFilter | None:
    """Return the filter of a templates request (section 4.1), or None if there is none."""
    # how the search flag matches is not shown: it must be an integer and changes nothing
    read_integer(params, "search", default=1)
    kinds = params.get("productTypes", "").split(",")
    asked = TemplateFilter(
        product_types=frozenset(kind.strip() for kind in kinds if kind.strip()),
        creator=params.get("creator", "").casefold(),
        shared=read_flag(params, "isShared"),
        account_id=params.get("meta.account_id", ""),
    )
    return None if asked == TemplateFilter() else asked


READ_FILTER: dict[str, ReadFilter] = {"templates": read_template_filter, "contacts": read_contact_filter}


def read_integer(params: QueryParams, name: str, default: int, least: int = 0) -> int:
    """Return an integer of at least `least`."""
    text = params.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else -1
    return number if number >= least else _refuse(name, f"a whole number of at least {least}")


def read_flag(params: QueryParams, name: str) -> bool | None:
    """Return True or False, or None if the parameter is absent."""
    text = params.get(name, "").lower()
    if not text:
        return None
    return BOOLEANS[text] if text in BOOLEANS else _refuse(name, "true or false")


def read_texts(params: QueryParams, name: str, allowed: Sequence[str] = ()) -> frozenset[str]:
    """Return the strings of an array: a JSON list, or the parameter repeated, its values quoted or not."""
    items = _read_items(params, name)
    if not all(isinstance(item, str) for item in items):
        _refuse(name, "a list of strings")
    if allowed and not set(items) <= set(allowed):
        _refuse(name, "some of " + ", ".join(allowed))
    return frozenset(items)


def read_tags(params: QueryParams, name: str) -> frozenset[str]:
    """Return label ids and label titles, all as text."""
    items = _read_items(params, name)
    # bool is a subclass of int, but not a tag
    if not all(type(item) in (int, str) for item in items):
        _refuse(name, "a list of label ids or quoted titles")
    return frozenset(str(item) for item in items)


def read_period(params: QueryParams, name: str) -> tuple[date | None, date | None]:
    """Return the first and the last day of an object with startDate and endDate; either may be absent."""
    text = params.get(name, "")
    if not text:
        return None, None
    period = _read_json(name, text)
    if not isinstance(period, dict) or not set(period) <= {"startDate", "endDate"}:
        _refuse(name, "an object with startDate and endDate")
    return _read_day(name, period.get("startDate")), _read_day(name, period.get("endDate"))


def _read_items(params: QueryParams, name: str) -> list[Any]:
    return [item for text in params.getlist(name) if text for item in _read_list(name, text)]


def _read_list(name: str, text: str) -> list[Any]:
    if not text.startswith(("[", '"')):
        return [text]
    found = _read_json(name, text)
    return found if isinstance(found, list) else [found]


def _read_json(name: str, text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        _refuse(name, "valid JSON")


def _read_day(name: str, text: object) -> date | None:
    if text is None:
        return None
    for pattern in DATE_FORMATS:
        try:
            return date(*strptime(str(text), pattern)[:3])
        except ValueError:
            continue
    return _refuse(name, "days such as 2024-01-31 or 31-01-2024")


def _refuse(name: str, expected: str) -> NoReturn:
    raise HTTPException(400, f"{name} must be {expected}")
