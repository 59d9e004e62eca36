"""What is read, and with what?"""

from dataclasses import dataclass

from letters_source.config.settings import Settings
from letters_source.pagination.reader import Watch
from letters_source.service.listings import Filters, Listing
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import TokenSource


@dataclass(frozen=True, slots=True)
class Job:
    """A listing to read, with what it takes.

    `name` is what it is read for: its own tables, a facet's or the mailings; `detail` which value or days of those.
    Tokens and throttle are one for the whole load, as the service's limits are.
    """

    name: str
    listing: Listing
    settings: Settings
    tokens: TokenSource
    throttle: Throttle
    filters: Filters
    watch: Watch
    detail: str = ""

    @property
    def title(self) -> str:
        """What people are told of."""
        return f"{self.name} {self.detail}".rstrip()
