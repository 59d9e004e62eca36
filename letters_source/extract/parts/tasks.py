"""Lets many tasks, of an orchestrator or of Spark, share one listing in parts, which `run(parts=folder)` loads.

The parts go to `parts`, a folder or a bucket that all tasks share. Tasks may run in any order, on any machine, and
again: a part replaces the one that was read before. `run` judges the parts together, and reads what lies between parts
that do not join; if they do not prove that no row was missed, it raises IncompleteListing and loads nothing.
"""

from dataclasses import replace
from typing import Unpack

from letters_source.config.messages import unusable
from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides, Settings
from letters_source.errors import SettingsError
from letters_source.extract.parts.reading import store_plan, write_part
from letters_source.extract.task import LoadContext, Task, listing_named, listing_task


def plan_parts(listing: str, number: int, **settings: Unpack[Overrides]) -> list[int]:
    """Plan to read a listing in at most `number` parts, and return their places, one for each task.

    `settings` are as for `run`, and `parts` among them. An earlier plan of the listing is replaced.

    Raises:
        SettingsError: a setting is wrong, or the service's pages are too small to join parts (fewer than 30 rows).
    """
    if number < 1:
        raise SettingsError(f"the number of parts must be at least 1, got {number}.", key="number")
    task = task_of(listing, settings)
    return list(range(len(store_plan(task, folder_of(task), number).ranges)))


def read_part(listing: str, place: int, **settings: Unpack[Overrides]) -> int:
    """Read the part at a place of the plan, and return the number of its rows; the settings are those of the plan."""
    task = task_of(listing, settings)
    return write_part(task, folder_of(task), place).rows


def task_of(listing: str, overrides: Overrides, tasks: int = 1) -> Task:
    """Return the task of reading a listing, with the share of one of several tasks in the limits on requests."""
    wanted, settings = listing_named(listing), share_of(resolve_settings(overrides), tasks)
    return listing_task(wanted, LoadContext.of(settings, token_source(settings, overrides)))


def share_of(settings: Settings, tasks: int) -> Settings:
    """Return the settings with one task's share of concurrent requests, at least one, and of requests per second."""
    rate, workers = settings.requests_per_second, max(1, settings.max_workers // tasks)
    return replace(settings, max_workers=workers, requests_per_second=rate and rate / tasks)


def folder_of(task: Task) -> str:
    """Return the folder of a listing's parts, or raise `SettingsError` if it is not set."""
    if not task.settings.parts:
        raise unusable("parts", "is not set")
    return task.settings.parts
