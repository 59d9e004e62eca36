"""Loads several accounts of the service one after another, and combines them by views."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import dlt

from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides
from letters_source.destination.combine import create_account_views
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.ledger import Stopwatch, failures_recorded
from letters_source.destination.locking import one_at_a_time, when_free
from letters_source.destination.pipeline import schema_of_views
from letters_source.destination.publish import check_published, place_of_copy, publish_copy
from letters_source.errors import SettingsError
from letters_source.extract.probe import check_apart
from letters_source.extract.task import LoadContext, listing_task
from letters_source.load import run, selected_names
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.results import Result
from letters_source.service.listings import LISTINGS
from letters_source.tables import MAILINGS


def run_accounts(
    pipelines: Mapping[str, dlt.Pipeline],
    *,
    only: Sequence[str] = (),
    publish: Path | str | None = None,
    watch: ProgressCallback = no_progress,
    views: str = schema_of_views(),
    **settings: Unpack[Overrides],
) -> dict[str, Result]:
    """Load accounts one after another, each into its own dataset; in DuckDB, views combine them.

    Args:
        pipelines: a pipeline per account, as `account_pipelines` makes them.
        only: as for `run`.
        publish: as for `run`, after all accounts are loaded.
        watch: as for `run`.
        views: the schema of the views, in DuckDB.
        **settings: as for `run`.

    Raises:
        SharedIds: the service lists the same ids for two accounts; nothing is loaded.
        LettersError: as `run` does; the accounts before the failed one are loaded.
    """
    return dict(each_account(pipelines, only=only, publish=publish, watch=watch, views=views, **settings))


def each_account(
    pipelines: Mapping[str, dlt.Pipeline],
    *,
    only: Sequence[str],
    publish: Path | str | None = None,
    watch: ProgressCallback,
    views: str,
    **settings: Unpack[Overrides],
) -> Iterator[tuple[str, Result]]:
    """Load accounts as `run_accounts` does; yield each one with its result as soon as it is loaded."""
    if not pipelines:
        raise SettingsError("run_accounts needs the pipeline of at least one account.", key="pipelines")
    copy, clock = place_of_copy(publish), Stopwatch()
    recorded = partial(failures_recorded, next(iter(pipelines.values())), clock, dataset=views)
    if copy:
        with recorded():
            for pipeline in pipelines.values():
                check_published(pipeline, copy)
    if len(pipelines) > 1:
        with recorded():
            check_accounts([*pipelines], only, **settings)
        # each is compared with the others, and needs no comparison of its own
        settings["allow_shared_ids"] = True
    for account, pipeline in pipelines.items():
        settings["account_id"] = account
        yield account, run(pipeline, only=only, watch=watch, **settings)
    with recorded():
        combine_accounts(pipelines, views, copy, resolve_settings(settings).lock_wait)


@plain_errors
def combine_accounts(pipelines: Mapping[str, dlt.Pipeline], views: str, copy: Path | None, wait: float) -> None:
    """Combine loaded accounts by views, and publish a copy if asked."""
    with one_at_a_time():
        when_free(partial(create_account_views, pipelines, views), wait)
        if copy:
            when_free(partial(publish_copy, next(iter(pipelines.values())), copy), wait)


@plain_errors
def check_accounts(accounts: Sequence[str], only: Sequence[str] = (), **settings: Unpack[Overrides]) -> None:
    """Raise `SharedIds` if accounts list the same ids on their first pages, unless `allow_shared_ids` is set."""
    names = selected_names(only)
    resolved = resolve_settings({**settings, "account_id": accounts[0]})
    if resolved.allow_shared_ids:
        return
    context = LoadContext.of(resolved, token_source(resolved, settings))
    wanted = {MAILINGS.listing if name == MAILINGS.name else name for name in names} or {*LISTINGS}
    for name, listing in LISTINGS.items():
        if name in wanted:
            check_apart(listing_task(listing, context), accounts)
