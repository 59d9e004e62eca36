"""What would a load find? One page of each listing, and what follows from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Unpack

from letters_source.client import Client
from letters_source.decode import decode_page
from letters_source.listing import LISTINGS, encode_page
from letters_source.settings import Overrides, Settings, read_tokens_again, resolve_settings
from letters_source.throttle import Throttle
from letters_source.tokens import TokenSource, check_tokens
from letters_source.walk import pages_of

PATIENCE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one page of a listing shows.

    Args:
        count: rows that the listing holds.
        page_size: rows a page that the service gives; None when one page holds all.
        requests: how many a quiet load takes.
        latency: seconds that the page took.
        seconds: an estimate of how long reading the listing takes.
    """

    listing: str
    count: int
    page_size: int | None
    requests: int
    latency: float
    seconds: float


def check_service(**overrides: Unpack[Overrides]) -> Iterator[Finding]:
    """Ask for page 0 of each listing.

    Raises:
        LettersError: as a load would; an unreachable service is given up after `PATIENCE_SECONDS`.
    """
    settings = resolve_settings(overrides)
    tokens = TokenSource(check_tokens(settings.tokens), partial(read_tokens_again, settings, overrides))
    budget = min(PATIENCE_SECONDS, settings.retry_budget)
    with Client(settings.base_url, tokens, Throttle(1), budget) as client:
        for name in LISTINGS:
            yield check_listing(name, settings, client)


def check_listing(name: str, settings: Settings, client: Client) -> Finding:
    """What page 0 of a listing shows."""
    listing = LISTINGS[name]
    params = encode_page(0, settings.page_size, settings.filters(name).encode(settings.form))
    start = monotonic()
    page = client.get(listing, params, partial(decode_page, listing=name, number=0))
    latency = monotonic() - start
    pages = pages_of(page.count, page.rows.num_rows)
    requests = pages + 2 if pages > 1 else 1
    return Finding(
        name,
        page.count,
        page.rows.num_rows if pages > 1 else None,
        requests,
        latency,
        # the first, the last and the fence's two are read one after the other
        latency * (min(requests, 4) + max(0, requests - 4) / settings.max_workers),
    )
