"""The filters of the two listings, named by section 4; where it does not say how they match, this is an assumption."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

from starlette.datastructures import QueryParams

from letters_source.emulator import query_parameters as parameters
from letters_source.emulator.listing import Predicate, Row, Traits

ReadFilter: TypeAlias = Callable[[QueryParams], Predicate | None]

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
        return self._fits_traits(row.traits) and self._fits_document(row)

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

    def _fits_document(self, row: Row) -> bool:
        if not (self.search or self.tags):
            return True
        document = row.document
        return self._fits_search(document) and self._fits_tags(document)

    def _fits_search(self, document: dict[str, Any]) -> bool:
        return any(self.search in str(document.get(name) or "").casefold() for name in SEARCHED)

    def _fits_tags(self, document: dict[str, Any]) -> bool:
        labels = map(_object, document.get("ContactLabels") or ())
        return not self.tags or any(self.tags & {str(label.get("id")), str(label.get("title"))} for label in labels)


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
        address_status=parameters.read_texts(params, "addressStatus", ADDRESS_STATUSES),
        last_mailed_status=parameters.read_texts(params, "lastMailedStatus"),
        mailed=parameters.read_period(params, "lastMailedDate"),
        tags=parameters.read_tags(params, "tags"),
        property_addresses=parameters.read_flag(params, "withPropertyAddresses"),
        account_id=params.get("meta.account_id", ""),
        return_address=parameters.read_flag(params, "isReturnAddress"),
    )
    return None if asked == ContactFilter() else asked


def read_template_filter(params: QueryParams) -> TemplateFilter | None:
    """Return the filter of a templates request (section 4.1), or None if there is none."""
    # how the search flag matches is not shown: it must be an integer and changes nothing
    parameters.read_integer(params, "search", default=1)
    kinds = params.get("productTypes", "").split(",")
    asked = TemplateFilter(
        product_types=frozenset(kind.strip() for kind in kinds if kind.strip()),
        creator=params.get("creator", "").casefold(),
        shared=parameters.read_flag(params, "isShared"),
        account_id=params.get("meta.account_id", ""),
    )
    return None if asked == TemplateFilter() else asked


READ_FILTER: dict[str, ReadFilter] = {"templates": read_template_filter, "contacts": read_contact_filter}
