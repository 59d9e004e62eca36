"""The request for one page of a listing, and who sends it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from letters_source.service.listings import Listing
from letters_source.wording import page_title

T = TypeVar("T")
Decode = Callable[[bytes, str, int], T]
"""Makes a page of a body, the listing's name, and the number of the page; raises `MalformedResponse` if it cannot."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Asks for one page of a listing; the first page is 0.

    `is_trial` tells that the page size is not yet known to work: the client gives up sooner on failures that may be
    due to it. `purpose` is part of the name in messages. `private` are texts that no message may have.
    """

    listing: Listing
    page: int
    page_size: int
    filters: Mapping[str, str] = field(default_factory=dict)
    is_trial: bool = False
    purpose: str = ""
    private: Collection[str] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        """The page's name in messages."""
        title = page_title(self.listing.name, self.page)
        return f"{title}, {self.purpose}" if self.purpose else title

    @property
    def params(self) -> dict[str, str]:
        """The query parameters, not yet percent-encoded."""
        return {"page": str(self.page), "pageSize": str(self.page_size), **self.filters}


class PageClient(Protocol):
    """Sends requests for pages, and counts them in `traffic`: `Client`, or a stand-in without HTTP."""

    traffic: Counter[str]

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def get(self, request: PageRequest, decode: Decode[T]) -> T:
        """Return the decoded page."""
