"""What to read, and the items that reading yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from letters_source.config.settings import Settings
from letters_source.decode.row_schema import row_schema
from letters_source.errors import SettingsError
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.service.listings import LISTINGS, Filters, FilterValue, Listing, given, refined
from letters_source.service.network import service_of
from letters_source.service.pacing import PageSize
from letters_source.service.page_request import PageClient, PageRequest
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import TokenSource


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What all tasks of a load share."""

    settings: Settings
    tokens: TokenSource
    throttle: Throttle
    progress: ProgressCallback = no_progress
    shared_ids: Mapping[str, int] = field(default_factory=dict)  # ids on several accounts' first pages, by listing

    @classmethod
    def of(cls, settings: Settings, tokens: TokenSource, progress: ProgressCallback = no_progress) -> "LoadContext":
        """Return the context of a load with these settings; its tasks share their limits on requests."""
        return cls(settings, tokens, Throttle(settings.max_workers, settings.requests_per_second), progress)

    def client(self) -> PageClient:
        """Return a new client of the service."""
        # imported here so that reading a listing needs HTTP libraries only if pages come by HTTP
        from letters_source.service.client import Client

        settings = self.settings
        return Client(settings.base_url, self.tokens, self.throttle, settings.retry_budget, settings.network)

    def silent(self) -> "LoadContext":
        """Return the context of tasks that report no progress."""
        return replace(self, progress=no_progress)


@dataclass(frozen=True, slots=True)
class Task:
    """A listing to read, and which of its rows."""

    name: str  # what the rows are for: the listing's own tables, a facet or the mailings
    listing: Listing
    filters: Filters
    page_size: PageSize  # learned from the first page, and shared, as the throttle is, by all tasks of the listing
    context: LoadContext
    detail: str = ""  # the facet's value, or the first day of a date range

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"{self.name} {self.detail}".rstrip()

    @property
    def settings(self) -> Settings:
        """The settings of the load."""
        return self.context.settings

    @property
    def recorded_filters(self) -> dict[str, Any]:
        """The filters that are set, as they may be written: personal ones as the privacy policies say."""
        return self.settings.privacy.recorded_filters(self.listing.name, given(self.filters))

    def request(self, page: int, size: int, **options: Any) -> PageRequest:
        """Return the request for a page."""
        private = self.settings.privacy.private_texts(self.listing.name, given(self.filters))
        return PageRequest(
            self.listing, page, size, self.filters.encode(self.settings.form), private=private, **options
        )

    def narrowed(self, **filters: FilterValue) -> "Task":
        """Return the task with some of its filters changed."""
        return replace(self, filters=refined(self.filters, **filters))


def listing_task(listing: Listing, context: LoadContext) -> Task:
    """Return the task of reading a listing for its own tables, as the settings select its rows."""
    settings = context.settings
    return Task(listing.name, listing, settings.filters(listing.name), PageSize(settings.page_size), context)


def selection_digest(task: Task, *others: object) -> str:
    """Return a digest of what selects a listing's rows and treats them, and of others.

    It depends on the key of hashes, so that without it no filter can be found by guessing.
    """
    settings = task.settings
    service, filters = service_of(settings.base_url), {**given(task.filters), "account_id": task.filters.account_id}
    selection = service, sorted(filters.items()), settings.privacy.recorded, settings.environment
    key = blake2b(settings.privacy.key).digest()
    return blake2b(repr((selection, others)).encode(), key=key, digest_size=16).hexdigest()


def storage_key(task: Task) -> bytes:
    """Return a digest of what decides how a row is stored, with the key of hashes, which cannot be found from it."""
    settings, privacy = task.settings, task.settings.privacy
    policies = privacy.recorded, privacy.undocumented, settings.on_undocumented, sorted(settings.known_fields)
    parts = version("letters-source"), str(row_schema(task.listing.name)), settings.mode, policies
    return blake2b(repr(parts).encode(), key=blake2b(privacy.key).digest()).digest()


def listing_named(name: str) -> Listing:
    """Return a listing by its name, or raise `SettingsError`."""
    if name not in LISTINGS:
        raise SettingsError(f"listing must be one of {', '.join(LISTINGS)}, got {name!r}.", key="listing")
    return LISTINGS[name]


@dataclass(frozen=True, slots=True)
class ListingRows:
    """Rows of a complete listing in its row schema, before they are split into tables."""

    listing: str
    rows: pa.Table
    superseded: "Superseded | None" = None


@dataclass(frozen=True, slots=True)
class Superseded:
    """The ids whose rows in the destination are compared with those of a listing, and deleted if they are not there."""

    changed: pa.StringArray  # rows that were read anew: their child rows are written again
    gone: pa.StringArray  # rows that are no longer listed
    listed: pa.StringArray  # for facets, which are compared with those of these rows alone


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table: a facet, the mailings or the audit."""

    table: str
    rows: pa.Table
