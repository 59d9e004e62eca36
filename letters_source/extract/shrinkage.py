"""Has a listing lost so many rows since the last load that somebody should look before they are gone here too?"""

import math
from typing import Any

from letters_source.errors import ListingShrank
from letters_source.extract.task import Job
from letters_source.service.listings import SECTION, given

# contacts leave such a filter by being mailed or verified: fewer are no surprise there
PASSING = {"address_status", "last_mailed_status", "last_mailed_from", "last_mailed_to"}


def rows_before(job: Job, audits: list[dict[str, Any]]) -> int:
    """The rows of the listing's last load that had an id, to be compared with those of this one.

    0 where there was no load, where rows leave what they are chosen by of themselves, and in history with filters,
    which keeps what it does not find.

    Args:
        job: the listing.
        audits: its audits in the dataset, newest first, all chosen alike.
    """
    chosen = given(job.filters).keys()
    if not audits or PASSING & chosen or (chosen and job.settings.mode == "history"):
        return 0
    return int(audits[0]["rows_yielded"])


def check_shrinking(job: Job, before: int, now: int) -> None:
    """See that a listing did not lose all its rows, nor a larger share of them than is allowed.

    Raises:
        ListingShrank: it did; the message names the setting that allows it.
    """
    settings = job.settings
    if before and not now and not settings.allow_empty:
        raise ListingShrank(job.title, before, now, f"set {SECTION}.allow_empty to true")
    lost = (before - now) / before if before else 0
    if now and lost > settings.max_shrink:
        share = math.ceil(lost * 100) / 100
        remedy = f"set {SECTION}.max_shrink, now {settings.max_shrink:g}, to {share:g}"
        raise ListingShrank(job.title, before, now, remedy)
