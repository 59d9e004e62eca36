"""Which listings are there: where does each lie, and which parameters does a request for a page of it send?"""

from collections.abc import Mapping
from dataclasses import dataclass


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
class TemplateFilters:
    """The parameters of `GET /templates` that select templates (service-interface 4.1); None is not sent.

    The interface calls all but `creator` required, and its example sends none; so do we until one is configured.
    """

    search: int | None = None
    product_types: str | None = None
    creator: str | None = None
    is_shared: bool | None = None

    def encode(self) -> dict[str, str]:
        """The query parameters: a flag, a comma-separated list, a text, a boolean."""
        shared = None if self.is_shared is None else str(self.is_shared).lower()
        pairs = {"search": self.search, "productTypes": self.product_types, "creator": self.creator, "isShared": shared}
        return {name: str(value) for name, value in pairs.items() if value is not None}


def encode_page(page: int, page_size: int, filters: Mapping[str, str]) -> dict[str, str]:
    """The query parameters of one page; the first page is 0."""
    return {"page": str(page), "pageSize": str(page_size), **filters}
