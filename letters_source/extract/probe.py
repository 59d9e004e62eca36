"""Find out what the interface leaves open: which filters the service honors, and how large pages get."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from letters_source.config.settings import Settings
from letters_source.errors import (
    MalformedResponse,
    NotAuthorized,
    ServiceError,
    ServiceRejected,
    ServiceUnreachable,
)
from letters_source.extract.audit import level
from letters_source.extract.listing import fetch_page
from letters_source.extract.past_end import look_past
from letters_source.extract.task import Task
from letters_source.pagination.ends import SeenEnd
from letters_source.pagination.reader import to_reading
from letters_source.pagination.readings import Window
from letters_source.service.listings import (
    ADDRESS_STATUSES,
    LAST_MAILED_STATUSES,
    LONG_AGO,
    NOBODY,
    PRODUCT_TYPES,
    FilterValue,
    given,
    refined,
)

logger = logging.getLogger("letters_source")

ProbeResult = Literal["honored", "ignored", "no difference", "refused", "failed", "cannot tell"]
Count = Callable[[Mapping[str, str]], int]
"""Returns the service's count for the given query parameters."""

LARGEST_PAGE = 16_384

# filters that may well match every row: the flag that enables search, and rows included in addition to others
INCONCLUSIVE = (("search", 0), ("search", 1), ("with_property_addresses", True))
# filters that the service may honor without any difference to the count
UNCERTAIN = {("templates", "search"), ("contacts", "with_property_addresses")}

TRIALS: Mapping[str, Mapping[str, tuple[Mapping[str, FilterValue], ...]]] = {
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
"""The values to try for each filter; other accounts are never tried."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a probe found about a filter; the status and message of the response that ended it, if one did."""

    verdict: ProbeResult
    status: int | None = None
    message: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} {self.status}" if self.status else self.verdict


def count_listing(task: Task, page_size: int | None = 1) -> int:
    """Return the service's count by requesting a page of one row, or of the usual size (None).

    If counts are lower bounds, return the number of rows up to the end, for which pages are of the usual size.
    """
    with task.context.client() as client:
        if task.settings.count == "exact":
            return fetch_page(task, client, Window(0, page_size)).count
        first = to_reading(fetch_page(task, client, Window(0)), Window(0), 1, asked=0, answered=0)
        return SeenEnd(task.title, partial(look_past, task, client), task.page_size).counted(first).count


def report_ignored(task: Task, count: int, *, is_first: bool = True) -> None:
    """Warn if the filtered listing is as long as the whole one: the service may ignore the filters.

    In the first load, also warn if it is empty: a value or the account may be misspelled.
    """
    chosen = {name for name, value in given(task.filters).items() if (name, value) not in INCONCLUSIVE}
    account, names = task.filters.account_id, ", ".join(sorted(chosen))
    if not count and (chosen or account):
        why = f"with {names}" if chosen else f"for account {account}"
        logger.log(level(is_news=is_first), "%s: the service returns no rows %s", task.name, why)
    if not count or not chosen:
        return
    try:
        whole = count_listing(replace(task, filters=type(task.filters)(account_id=task.filters.account_id)))
    except ServiceRejected as error:
        # the service requires filters
        logger.info("%s: could not check whether the service honors the filters: %s", task.name, error)
        return
    if whole == count:
        message = "%s: the service returns all %d rows with %s as without; it may ignore that filter"
        logger.warning(message, task.name, count, names)


def try_filter(listing: str, name: str, settings: Settings, whole: int, count: Count) -> Effect:
    """Return the effect of a filter, tried on top of the configured filters; `whole` is the count with those alone."""
    own = settings.filters(listing)
    trials = (refined(own, **trial).encode(settings.form) for trial in TRIALS[listing][name])
    effect = effect_of(trials, whole, count)
    return Effect("no difference") if effect.verdict == "ignored" and (listing, name) in UNCERTAIN else effect


def effect_of(trials: Iterator[Mapping[str, str]], whole: int, count: Count) -> Effect:
    """Return a filter's effect: honored if some value changes the count. A failure is a result too."""
    if not whole:
        return Effect("cannot tell")
    try:
        return Effect("honored" if any(count(trial) != whole for trial in trials) else "ignored")
    except (ServiceRejected, NotAuthorized) as error:
        return Effect("refused", error.status, str(error))
    except ServiceUnreachable as error:
        return Effect("failed", error.status, str(error))
    except ServiceError as error:
        return Effect("failed", message=str(error))


def find_largest_page(count: int, rows_of: Callable[[int], int]) -> int:
    """Return the most rows per page that the service returns, up to the listing's count and `LARGEST_PAGE`."""
    best, size, too_large = 0, min(100, count), count + 1
    while size > best and size < too_large:
        try:
            rows = rows_of(size)
        except ServiceRejected:
            # from here on by bisection
            too_large = size
            size = (best + too_large) // 2
            continue
        except (MalformedResponse, NotAuthorized, ServiceUnreachable):
            # each such size can take as long as the retry budget
            return best
        if rows < size:
            return rows
        best = size
        doubled = min(2 * size, count, LARGEST_PAGE)
        size = doubled if too_large > doubled else (best + too_large) // 2
    return best
