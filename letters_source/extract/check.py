"""Check the service without loading: one page of each listing, an estimate, and the effect of each filter."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Unpack

from letters_source.config.messages import report_misspelled_sections
from letters_source.config.providers import present_providers
from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides, Settings
from letters_source.decode.page import Page, decode_page
from letters_source.extract.accounts import effect_of_account
from letters_source.extract.listing import fetch_page
from letters_source.extract.past_end import look_past
from letters_source.extract.probe import TRIALS, Effect, find_largest_page, try_filter
from letters_source.extract.task import LoadContext, Task, listing_task
from letters_source.pagination.ends import full_page, has_more
from letters_source.pagination.passes import pages_of
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.pagination.readings import Window
from letters_source.service.client import Client
from letters_source.service.listings import LISTINGS, given
from letters_source.service.page_request import PageRequest
from letters_source.service.tokens import expiry

PATIENCE_SECONDS = 15.0
UNKNOWN = Effect("cannot tell")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFindings:
    """What was found about a listing."""

    listing: str
    count: int
    page_size: int | None  # rows per page that the service returns; None if one page holds all
    requests: int  # of a load, if nothing changes meanwhile
    latency: float  # seconds that the page took
    seconds: float  # estimated for a load
    filters: Mapping[str, Effect] = field(default_factory=dict)
    largest_page: int | None = None  # most rows per page that the service returns, 0 if none; None unless probed
    has_more: bool = False  # whether the listing has rows past its count


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check found: the expiry of the access token, if it has one, and each listing."""

    expires: datetime | None
    listings: tuple[ListingFindings, ...]


def check_service(
    accounts: Sequence[str] = (),
    *,
    probe: bool = False,
    progress: ProgressCallback = no_progress,
    **overrides: Unpack[Overrides],
) -> Findings:
    """Ask for page 0 of each listing, then for one row with each value of each filter.

    Of several `accounts` the first is checked, and its page 0 compared with those of the others. `probe` also finds the
    largest page. It raises as a load does if a page 0 fails, but retries end after `PATIENCE_SECONDS`; a probe that
    fails is a result. `progress` counts probes instead of rows.
    """
    if accounts:
        overrides["account_id"] = accounts[0]
    report_misspelled_sections(present_providers())
    settings = resolve_settings(overrides)
    context = LoadContext.of(settings, token_source(settings, overrides), progress)
    budget = min(PATIENCE_SECONDS, settings.retry_budget)
    for name, trials in TRIALS.items():
        progress(name, 1, 0, len(trials))
    with (
        # no more threads than the throttle allows: waiting for it would count as latency
        ThreadPoolExecutor(context.throttle.limit, "letters-check") as pool,
        Client(settings.base_url, context.tokens, context.throttle, budget, settings.network) as client,
    ):
        found = check_listings(pool, client, context, accounts, probe=probe)
    return Findings(expiry(context.tokens.current().access), found)


def check_listings(
    pool: Executor, client: Client, context: LoadContext, accounts: Sequence[str], *, probe: bool
) -> tuple[ListingFindings, ...]:
    """Return what is found out about each listing; see `check_service`."""
    tasks = {name: listing_task(listing, context) for name, listing in LISTINGS.items()}
    pages = dict(zip(LISTINGS, pool.map(partial(time_page, client), tasks.values()), strict=True))
    counts = {name: page.count for name, (page, _) in pages.items()}
    more = {name: pool.submit(lists_more, client, task, pages[name][0]) for name, task in tasks.items()}
    sizes = {name: pool.submit(find_size, client, task, counts[name]) for name, task in tasks.items() if probe}
    effects = probe_filters(pool, client, context.settings, counts, context.progress)
    for name, task in tasks.items():
        if own := task.filters.account_id:
            effects[name]["account_id"] = effect_of_account(task, client, accounts or [own])
    return tuple(
        replace(
            estimate(task, *pages[name]),
            filters=effects[name],
            largest_page=sizes[name].result() if probe else None,
            has_more=more[name].result(),
        )
        for name, task in tasks.items()
    )


def time_page(client: Client, task: Task) -> tuple[Page, float]:
    """Return page 0 and the seconds that it took."""
    tried, start = task.page_size.rows, monotonic()
    page = fetch_page(task, client, Window(0))
    if task.page_size.rows != tried:
        # the trial is no part of the latency
        start = monotonic()
        page = fetch_page(task, client, Window(0))
    return page, monotonic() - start


def lists_more(client: Client, task: Task, first: Page) -> bool:
    """Return whether a listing has rows past its count, by its page 0 and a look past its end."""
    rows = first.rows.num_rows
    page_size = full_page(rows, first.count, task.page_size.rows)
    return rows == page_size > 0 and has_more(partial(look_past, task, client), page_size, first.count)


def find_size(client: Client, task: Task, count: int) -> int:
    """Return the most rows per page of a listing that the service returns; 0 if it returns none at any size."""
    return find_largest_page(count, partial(rows_given, client, task))


def rows_given(client: Client, task: Task, size: int) -> int:
    """Return how many rows the first page has if so many are asked for."""
    rows: int = client.get(task.request(0, size, purpose="probe of the page size"), decode_page).rows.num_rows
    return rows


def probe_filters(
    pool: Executor, client: Client, settings: Settings, counts: Mapping[str, int], progress: ProgressCallback
) -> dict[str, dict[str, Effect]]:
    """Return the effect of each filter of each listing, probed side by side."""
    effects: dict[str, dict[str, Effect]] = {name: dict.fromkeys(trials, UNKNOWN) for name, trials in TRIALS.items()}
    probes = {
        pool.submit(try_filter, *probe, settings, counts[probe[0]], partial(ask_count, client, *probe, settings)): probe
        for probe in [(name, key) for name, trials in TRIALS.items() for key in trials]
    }
    for probe in as_completed(probes):
        name, key = probes[probe]
        effects[name][key] = probe.result()
        progress(name, 1, 1, len(effects[name]))
    return effects


def ask_count(client: Client, listing: str, key: str, settings: Settings, filters: Mapping[str, str]) -> int:
    """Return the service's count with some filters, from a page of one row."""
    private = settings.privacy.private_texts(listing, given(settings.filters(listing)))
    # a trial is given up early: that it fails is a result
    request = PageRequest(LISTINGS[listing], 0, 1, filters, is_trial=True, purpose=f"probe of {key}", private=private)
    return client.get(request, decode_page).count


def estimate(task: Task, page: Page, latency: float) -> ListingFindings:
    """Return what page 0 of a listing tells about a load of it."""
    settings, rows = task.settings, page.rows.num_rows
    pages, page_size = pages_of(page.count, rows), full_page(rows, page.count, task.page_size.rows)
    # the recheck's readings alone prove up to three pages exact
    walks = 2 if settings.proof == "exact" and pages > 3 else 1
    # if the last page is full, the load looks past it
    looks = 1 if page_size and page.count % page_size == 0 else 0
    requests = looks + (walks * pages + 2 if pages > 1 else 1)
    return ListingFindings(
        listing=task.name,
        count=page.count,
        page_size=page.rows.num_rows if pages > 1 else None,
        requests=requests,
        latency=latency,
        # the first and last page are read one after the other; the two of the recheck are counted the same way
        seconds=latency * (min(requests, 4) + max(0, requests - 4) / settings.max_workers),
    )
