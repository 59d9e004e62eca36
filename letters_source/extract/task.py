"""What to read, and the items that reading yields."""

from dataclasses import dataclass

import pyarrow as pa

from letters_source.config.settings import Settings
from letters_source.pagination.page_size import PageSize
from letters_source.pagination.reader import ProgressCallback
from letters_source.service.listings import Filters, Listing
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import TokenSource


@dataclass(frozen=True, slots=True)
class Task:
    """A listing to read, with what that takes; all tasks of a load share one throttle and one token source."""

    name: str  # what the rows are for: the listing's own tables, a facet or the mailings
    listing: Listing
    settings: Settings
    tokens: TokenSource
    throttle: Throttle
    filters: Filters
    progress: ProgressCallback
    page_size: PageSize
    detail: str = ""  # the facet's value, or the first day of the window

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"{self.name} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class ListingRows:
    """Rows of a complete listing in its row schema, before they are split into tables."""

    listing: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table: a facet, the mailings or the audit."""

    table: str
    rows: pa.Table
