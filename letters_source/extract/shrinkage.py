"""Refuses a listing that lost more rows since the last load than the settings allow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from letters_source.errors import ListingShrank
from letters_source.extract.task import Task
from letters_source.service.listings import SECTION, given

# contacts stop matching these filters when they are mailed or verified, so fewer rows are normal
PASSING = {"address_status", "last_mailed_status", "last_mailed_from", "last_mailed_to"}


def rows_before(task: Task, audits: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rows with an id the last load had, by its audits, newest first; 0 if they cannot be compared."""
    chosen = given(task.filters).keys()
    # history with filters keeps rows that the filters no longer return
    if not audits or PASSING & chosen or (chosen and task.settings.mode == "history"):
        return 0
    return int(audits[0]["rows_yielded"])


def check_shrinking(task: Task, before: int, now: int) -> None:
    """Raise ListingShrank if the listing lost all its rows, or a larger share than `max_shrink`."""
    settings = task.settings
    if before and not now and not settings.allow_empty:
        raise ListingShrank(task.title, before, now, f"set {SECTION}.allow_empty to true")
    lost = (before - now) / before if before else 0
    if now and lost > settings.max_shrink:
        share = math.ceil(lost * 100) / 100
        remedy = f"set {SECTION}.max_shrink, now {settings.max_shrink:g}, to {share:g}"
        raise ListingShrank(task.title, before, now, remedy)
