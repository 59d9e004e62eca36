"""Check the service without loading: one page of each listing, an estimate, and the effect of each filter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Unpack

from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides, Settings
from letters_source.decode.page import Page
from letters_source.extract.accounts import effect_of_account
from letters_source.extract.listing import fetch_page, read_page
from letters_source.extract.probe import Effect, find_largest_page, try_filters
from letters_source.extract.task import LoadContext, Task, listing_task
from letters_source.pagination.passes import pages_of
from letters_source.pagination.readings import Window
from letters_source.service.client import Client
from letters_source.service.listings import LISTINGS, Listing
from letters_source.service.page_request import PageRequest
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import expiry

PATIENCE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about a listing."""

    listing: str
    count: int
    page_size: int | None  # rows per page that the service returns; None if one page holds all
    requests: int  # of a load, if nothing changes meanwhile
    latency: float  # seconds that the page took
    seconds: float  # estimated for a load
    filters: Mapping[str, Effect]
    largest_page: int | None  # most rows per page that the service returns, up to `count`; None unless probed


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check found: the expiry of the access token, if it has one, and each listing."""

    expires: datetime | None
    listings: tuple[Finding, ...]


def check_service(accounts: Sequence[str] = (), *, probe: bool = False, **overrides: Unpack[Overrides]) -> Findings:
    """Ask for page 0 of each listing, then for one row with each value of each filter.

    Of several `accounts` the first is checked, and its page 0 compared with those of the others. `probe` also finds the
    largest page. It raises as a load does, but retries end after `PATIENCE_SECONDS`.
    """
    if accounts:
        overrides["account_id"] = accounts[0]
    settings = resolve_settings(overrides)
    tokens = token_source(settings, overrides)
    budget = min(PATIENCE_SECONDS, settings.retry_budget)
    throttle = Throttle(1, settings.requests_per_second)
    with Client(settings.base_url, tokens, throttle, budget, settings.network) as client:
        listings = tuple(check_listing(name, settings, client, accounts, probe=probe) for name in LISTINGS)
    return Findings(expiry(tokens.current().access), listings)


def check_listing(
    name: str, settings: Settings, client: Client, accounts: Sequence[str] = (), *, probe: bool
) -> Finding:
    """Return what was found about a listing."""
    ask = partial(ask_page, LISTINGS[name], client)
    task = listing_task(LISTINGS[name], LoadContext(settings, client.tokens, client.throttle))
    page, latency = time_page(task, client)
    filters = task.filters.encode(settings.form)
    largest = find_largest_page(page.count, lambda rows: ask(rows, filters).rows.num_rows) if probe else None
    pages = pages_of(page.count, page.rows.num_rows)
    # the fence's readings alone prove up to three pages exact
    effects = try_filters(name, settings, lambda chosen: ask(1, chosen).count)
    if own := task.filters.account_id:
        effects["account_id"] = effect_of_account(task, client, accounts or [own])
    walks = 2 if settings.proof == "exact" and pages > 3 else 1
    requests = walks * pages + 2 if pages > 1 else 1
    return Finding(
        listing=name,
        count=page.count,
        page_size=page.rows.num_rows if pages > 1 else None,
        requests=requests,
        latency=latency,
        # the first and last page are read one after the other; the fence's two are counted as if they were, too
        seconds=latency * (min(requests, 4) + max(0, requests - 4) / settings.max_workers),
        filters=effects,
        largest_page=largest,
    )


def time_page(task: Task, client: Client) -> tuple[Page, float]:
    """Return page 0 and the seconds that it took."""
    tried, start = task.page_size.rows, monotonic()
    page = fetch_page(task, client, Window(0))
    if task.page_size.rows != tried:
        # the trial is no part of the latency
        start = monotonic()
        page = fetch_page(task, client, Window(0))
    return page, monotonic() - start


def ask_page(listing: Listing, client: Client, page_size: int, filters: Mapping[str, str]) -> Page:
    """Return page 0 of a listing."""
    return client.get(PageRequest(listing, 0, page_size, filters), read_page)
