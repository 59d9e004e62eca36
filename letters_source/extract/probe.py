"""What does the service do where its interface is silent? Which filters it heeds, and how large its pages get."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from letters_source.config.settings import Settings
from letters_source.errors import ServiceRejected
from letters_source.extract.listing import fetch_page
from letters_source.extract.task import Job
from letters_source.service.client import Client
from letters_source.service.listings import (
    ADDRESS_STATUSES,
    LAST_MAILED_STATUSES,
    LONG_AGO,
    NOBODY,
    PRODUCT_TYPES,
    ContactFilters,
    TemplateFilters,
    given,
    refined,
)

logger = logging.getLogger("letters_source")

Effect = Literal["heeded", "no difference", "refused", "cannot tell"]
Count = Callable[[Mapping[str, str]], int]

LARGEST_PAGE = 16_384

# filters that may well select all: the flag that enables search, and rows that are included beside others
UNTELLING = (("search", 0), ("search", 1), ("with_property_addresses", True))

TRIALS: Mapping[str, Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "templates": {
        "search": ({"search": 1},),
        "product_types": tuple({"product_types": (kind,)} for kind in PRODUCT_TYPES),
        "creator": ({"creator": NOBODY},),
        "is_shared": ({"is_shared": True}, {"is_shared": False}),
    },
    "contacts": {
        "search": ({"search": NOBODY},),
        "address_status": tuple({"address_status": (status,)} for status in ADDRESS_STATUSES),
        "last_mailed_status": tuple({"last_mailed_status": (status,)} for status in LAST_MAILED_STATUSES),
        "last_mailed_date": ({"last_mailed_from": LONG_AGO, "last_mailed_to": LONG_AGO},),
        "tags": ({"tags": (NOBODY,)},),
        "with_property_addresses": ({"with_property_addresses": True}, {"with_property_addresses": False}),
        "is_return_address": ({"is_return_address": True}, {"is_return_address": False}),
    },
}
"""The values to try of each filter; an account that is not ours is not tried."""


def ask_count(job: Job, page_size: int = 1) -> int:
    """How many rows the service counts: one request, of one row unless more are asked for."""
    settings = job.settings
    with Client(settings.base_url, job.tokens, job.throttle, settings.retry_budget) as client:
        return fetch_page(replace(job, settings=replace(settings, page_size=page_size)), client, 0).count


def report_ignored(job: Job, count: int) -> None:
    """Warn where filters select nothing less than the whole listing: the service may not heed them.

    That takes a request of one row where there are filters, and none where there are not. A service that refuses it
    wants filters.
    """
    chosen = {name for name, value in given(job.filters).items() if (name, value) not in UNTELLING}
    kind = ContactFilters if isinstance(job.filters, ContactFilters) else TemplateFilters
    if not (count and chosen):
        return
    try:
        whole = ask_count(replace(job, filters=kind(account_id=job.filters.account_id)))
    except ServiceRejected:
        return
    if whole == count:
        logger.warning(
            "%s: the service gives all %d rows with %s as without; it may ignore that filter",
            job.name,
            count,
            ", ".join(sorted(chosen)),
        )


def try_filters(listing: str, settings: Settings, count: Count) -> dict[str, Effect]:
    """What each filter of a listing does: whether some value gives another count than the configured filters.

    Args:
        listing: the listing's name.
        settings: the configured filters and the form of requests.
        count: asks for the rows that the service counts with the given parameters.
    """
    own = settings.filters(listing)
    whole = count(own.encode(settings.form))
    return {
        name: effect_of((refined(own, **trial).encode(settings.form) for trial in trials), whole, count)
        for name, trials in TRIALS[listing].items()
    }


def effect_of(trials: Iterator[Mapping[str, str]], whole: int, count: Count) -> Effect:
    """What a filter does, from its trials."""
    if not whole:
        return "cannot tell"
    try:
        return "heeded" if any(count(trial) != whole for trial in trials) else "no difference"
    except ServiceRejected:
        return "refused"


def find_largest_page(count: int, rows_given: Callable[[int], int]) -> int:
    """The most rows a page that the service gives, up to the listing's count and `LARGEST_PAGE`.

    Sizes double until the service gives fewer rows than asked, which is its limit, or refuses, which puts the limit
    between that and the size before.

    Args:
        count: the listing's rows.
        rows_given: asks for page 0 with a size, and tells how many rows came.
    """
    best, size, too_large = 0, min(100, count), count + 1
    while size > best and size < too_large:
        try:
            given = rows_given(size)
        except ServiceRejected:
            too_large = size
            size = (best + too_large) // 2
            continue
        if given < size:
            return given
        best = size
        doubled = min(2 * size, count, LARGEST_PAGE)
        size = doubled if too_large > doubled else (best + too_large) // 2
    return best
