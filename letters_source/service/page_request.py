"""The request for one page of a listing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from letters_source.errors import page_title
from letters_source.service.listings import Listing


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Asks for one page of a listing; the first page is 0.

    `is_trial` tells that the page size is not yet known to work: the client gives up sooner on failures that may be
    due to it. `purpose` is part of the name in messages.
    """

    listing: Listing
    page: int
    page_size: int
    filters: Mapping[str, str] = field(default_factory=dict)
    is_trial: bool = False
    purpose: str = ""

    @property
    def title(self) -> str:
        """The page's name in messages."""
        title = page_title(self.listing.name, self.page)
        return f"{title}, {self.purpose}" if self.purpose else title

    @property
    def params(self) -> dict[str, str]:
        """The query parameters, not yet percent-encoded."""
        return {"page": str(self.page), "pageSize": str(self.page_size), **self.filters}
