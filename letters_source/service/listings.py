"""The service's listings: their paths, their filters, and the query parameters of a page."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta

from letters_source.errors import SettingsError

DateFormat = Literal["%Y-%m-%d", "%d-%m-%Y"]
FilterEncoding = Literal["json", "compact"]
Texts: TypeAlias = tuple[str, ...]
Day: TypeAlias = date | None

SECTION = "sources.letters"
# JSON numbers with more digits are not exact in every parser (RFC 8259, 6)
LONGEST_IDENTIFIER = 15
ADDRESS_STATUSES = ("Failed", "Verified")
LAST_MAILED_STATUSES = ("In Transit", "Mailed", "Scheduled")
"""The documented ones; the list is open."""
TWO_STATUSES = [*LAST_MAILED_STATUSES[:2]]
# a value that no label, creator, status or contact is likely to have
NOBODY = "letters-source-probe-7f3a"
# a day on which nobody was mailed, and not one that may stand for a missing date, such as the first of a century
LONG_AGO = date(1903, 7, 19)
DAYS = ("last_mailed_from", "last_mailed_to")
"""The filters of a date range."""
PRODUCT_TYPES = ("Professional Letters", "Personal Letters")


@dataclass(frozen=True, slots=True)
class Listing:
    """A listing of the service (service-interface 4)."""

    name: str
    path: str
    sends_refresh_token: bool = False
    """Whether requests also carry the `refreshtoken` header (service-interface 5)."""


TEMPLATES = Listing("templates", "/templates")
CONTACTS = Listing("contacts", "/contacts", sends_refresh_token=True)
LISTINGS = {listing.name: listing for listing in (TEMPLATES, CONTACTS)}


@dataclass(frozen=True, slots=True)
class FilterForm:
    """How requests write values for which the interface shows several formats (service-interface 4.2)."""

    date_format: DateFormat = "%Y-%m-%d"
    encoding: FilterEncoding = "json"  # JSON with a space after each comma and colon, or compact without

    def text(self, value: object) -> str:
        """Return a parameter's text, not yet percent-encoded."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list | dict):
            separators = (",", ":") if self.encoding == "compact" else None
            return json.dumps(value, ensure_ascii=False, separators=separators)
        return str(value)


def about(meaning: str, *examples: object, **bounds: Any) -> Meta:
    """Return what a setting or filter means, an example of a value where the default is none, and its bounds."""
    return Meta(description=meaning, examples=list(examples), **bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactFilters:
    """The filters of `GET /contacts` (service-interface 4.2), sent if set; `SettingsError` for an unknown status."""

    search: Annotated[str | None, about("Contacts that match this text.", "portland")] = None
    address_status: Annotated[Texts, about("Contacts with this status: Failed or Verified.", [*ADDRESS_STATUSES])] = ()
    last_mailed_status: Annotated[Texts, about("Contacts with this status, such as Mailed.", TWO_STATUSES)] = ()
    last_mailed_from: Annotated[
        Day, about("Contacts last mailed on this day or later; needs last_mailed_to.", date(2024, 1, 31))
    ] = None
    last_mailed_to: Annotated[
        Day, about("Contacts last mailed on this day or earlier; needs last_mailed_from.", date(2024, 2, 29))
    ] = None
    tags: Annotated[Texts, about("Contacts with this label, by id or title.", [4, "office"])] = ()
    with_property_addresses: Annotated[bool | None, about("Include property addresses, or exclude them.")] = None
    is_return_address: Annotated[bool | None, about("Only return addresses, or no return addresses.")] = None
    account_id: Annotated[str | None, about("Account; by default that of the settings.", "...")] = None

    def __post_init__(self) -> None:
        check_lists("contacts", self, ("address_status", "last_mailed_status", "tags"))
        check_choices("contacts.address_status", self.address_status, ADDRESS_STATUSES)

    def encode(self, form: FilterForm) -> dict[str, str]:
        """Return the query parameters, not yet percent-encoded."""
        days = (("startDate", self.last_mailed_from), ("endDate", self.last_mailed_to))
        return encode_values(
            {
                "search": self.search,
                "addressStatus": list(self.address_status) or None,
                "lastMailedStatus": list(self.last_mailed_status) or None,
                "lastMailedDate": {name: day.strftime(form.date_format) for name, day in days if day} or None,
                "tags": [int(tag) if is_identifier(tag) else tag for tag in self.tags] or None,
                "withPropertyAddresses": self.with_property_addresses,
                "isReturnAddress": self.is_return_address,
                "meta.account_id": self.account_id,
            },
            form,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFilters:
    """The filters of `GET /templates` (service-interface 4.1), sent if set; `SettingsError` for an unknown type.

    The interface calls all but `creator` required, but its example sends none.
    """

    search: Annotated[int | None, about("Flag that enables search: 1. The service may require it.", 1)] = None
    # an empty tuple sends empty text
    product_types: Annotated[
        Texts | None, about("Templates of Professional Letters or Personal Letters.", ["Personal Letters"])
    ] = None
    creator: Annotated[str | None, about("Templates by this creator; may be empty.", "")] = None
    is_shared: Annotated[bool | None, about("Only shared templates, or only those not shared.")] = None
    account_id: Annotated[str | None, about("Account; by default that of the settings.", "...")] = None

    def __post_init__(self) -> None:
        check_lists("templates", self, ("product_types",))
        check_choices("templates.product_types", self.product_types or (), PRODUCT_TYPES)

    def encode(self, form: FilterForm) -> dict[str, str]:
        """Return the query parameters, not yet percent-encoded."""
        return encode_values(
            {
                "search": self.search,
                "productTypes": None if self.product_types is None else ",".join(self.product_types),
                "creator": self.creator,
                "isShared": self.is_shared,
                "meta.account_id": self.account_id,
            },
            form,
        )


Filters: TypeAlias = ContactFilters | TemplateFilters
FilterValue: TypeAlias = str | int | bool | date | Texts | None
Plain: TypeAlias = str | int | bool | list[str] | None
"""A filter's value in JSON."""


def encode_values(values: Mapping[str, object], form: FilterForm) -> dict[str, str]:
    """Return the parameters that have a value, as text."""
    return {name: form.text(value) for name, value in values.items() if value is not None}


def check_lists(listing: str, filters: Filters, names: tuple[str, ...]) -> None:
    """Raise SettingsError if a list is a string, which would be read letter by letter."""
    for name in names:
        if isinstance(getattr(filters, name), str):
            problem = f"must be a tuple, such as ({getattr(filters, name)!r},), not a string"
            raise SettingsError.about(f"{SECTION}.{listing}.{name}", problem)


def check_choices(key: str, values: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    """Raise SettingsError if a value is not documented."""
    if unknown := [value for value in values if value not in allowed]:
        problem = f"must be {' or '.join(allowed)}, got {', '.join(map(repr, unknown))}{meant(unknown[0], allowed)}"
        raise SettingsError.about(f"{SECTION}.{key}", problem)


def meant(value: str, documented: tuple[str, ...]) -> str:
    """Return a hint at the documented value that differs only in case; empty if there is none."""
    found = next((name for name in documented if name.casefold() == str(value).casefold()), "")
    return f" (did you mean {found}?)" if found else ""


def check_days(filters: ContactFilters) -> None:
    """Raise SettingsError if only one day of the last mailing is set, or the first is after the last."""
    first, last = filters.last_mailed_from, filters.last_mailed_to
    if (first is None) != (last is None):
        only, other = ("from", "to") if first else ("to", "from")
        raise wrong_day(only, f"needs last_mailed_{other} too: set both, or none")
    if first and last and first > last:
        raise wrong_day("from", f"must not be after last_mailed_to (got {first} and {last})")


def wrong_day(which: str, problem: str) -> SettingsError:
    """Return the error of a day of the last mailing."""
    return SettingsError.about(f"{SECTION}.contacts.last_mailed_{which}", problem)


def is_identifier(tag: str) -> bool:
    """Return whether a tag is an integer, which the interface sends without quotes."""
    return tag.isascii() and tag.isdigit() and len(tag) <= LONGEST_IDENTIFIER and str(int(tag)) == tag


def given(filters: Filters) -> dict[str, Plain]:
    """Return the filters that are set, by name, as JSON values, without the account, which has a column of its own."""
    values = ((field.name, getattr(filters, field.name), field.default) for field in fields(filters))
    return {name: plain(value) for name, value, default in values if value != default and name != "account_id"}


def refined(filters: Filters, **changes: FilterValue) -> Filters:
    """Return the filters with some of them changed."""
    return cast("Filters", replace(cast("Any", filters), **changes))


def plain(value: FilterValue) -> Plain:
    """Return a filter's value as a JSON value."""
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def unknown_statuses(filters: Filters) -> Iterator[str]:
    """Yield the last mailed statuses that are not documented; they are allowed, as the list is open."""
    if isinstance(filters, ContactFilters):
        yield from (status for status in filters.last_mailed_status if status not in LAST_MAILED_STATUSES)
