"""Tasks of reading a listing, and audits of earlier loads, for tests."""

from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from letters_source.config.settings import Settings
from letters_source.extract.task import LoadContext, Task, listing_task
from letters_source.results import Audit
from letters_source.service.listings import CONTACTS, Listing
from letters_source.service.page_request import PageClient
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import TokenSource


def contacts_task(settings: Settings) -> Task:
    """All contacts."""
    tokens = TokenSource(settings.tokens, lambda: settings.tokens)
    return listing_task(CONTACTS, LoadContext(settings, tokens, Throttle(settings.max_workers)))


@dataclass(frozen=True, slots=True)
class StandIn(LoadContext):
    """A load from a stand-in for the service."""

    service: PageClient = field(kw_only=True)

    def client(self) -> PageClient:
        """A client of the stand-in, which counts only its own requests."""
        client = copy(self.service)
        client.traffic = Counter()
        return client


def task_from(service: PageClient, listing: Listing = CONTACTS, **settings: Any) -> Task:
    """The task of reading a listing from a stand-in with one worker."""
    chosen = Settings(
        base_url="https://letters.example.org", access_token="a", refresh_token="r", **{"max_workers": 1, **settings}
    )
    tokens = TokenSource(chosen.tokens, lambda: chosen.tokens)
    return listing_task(listing, StandIn(chosen, tokens, Throttle(chosen.max_workers), service=service))


EARLIER = Audit(
    filters=None,
    account_id=None,
    environment=None,
    mode="replace",
    pii=None,
    listing="contacts",
    verdict="stable",
    count_first=40,
    count_last=40,
    rows_received=40,
    rows_yielded=40,
    duplicates_dropped=0,
    rows_rejected=0,
    adds_up=None,
    misfit_values=0,
    undocumented_fields=None,
    walks=1,
    pages=1,
    page_size_asked=1_000,
    page_size_given=None,
    requests=1,
    retries=0,
    throttled=0,
    started_at=datetime(2025, 1, 1, tzinfo=UTC),
    seconds=0.1,
)


def audit_with(**columns: Any) -> Audit:
    """The audit of an earlier load of 40 contacts on one page, with other values in these columns."""
    return cast("Audit", {**EARLIER, **columns})
