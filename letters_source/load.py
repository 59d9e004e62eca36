"""Runs a load, of one account or of several, from settings to a verified destination."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import dlt
from dlt.extract import DltSource

from letters_source.config.messages import nearest
from letters_source.config.resolve import resolve_settings, token_source
from letters_source.config.settings import Overrides
from letters_source.destination.dlt_hooks import only_this_load
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import place_of
from letters_source.destination.ledger import Stopwatch, failures_recorded, finished_load, record
from letters_source.destination.loading import enforced, load_config
from letters_source.destination.local_files import check_space
from letters_source.destination.locking import locked_working_dir, one_at_a_time, patiently
from letters_source.destination.obstacles import obstacles_named
from letters_source.destination.pipeline import make_pipeline, schema_of_views
from letters_source.destination.place import Held, Place, Written
from letters_source.destination.publish import place_of_copy
from letters_source.destination.verify import count_rows
from letters_source.errors import SettingsError
from letters_source.extract.accounts import check_apart
from letters_source.extract.saved import saved_file
from letters_source.extract.task import LoadContext, listing_task
from letters_source.guarded_source import LettersSource
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.results import Audit, Result
from letters_source.service.listings import LISTINGS
from letters_source.source import letters
from letters_source.tables import MAILINGS, TABLES
from letters_source.telemetry import count, phase, shared, span

LOADABLE = (*LISTINGS, MAILINGS.name)
MakeSource = Callable[..., LettersSource]


def run(
    pipeline: dlt.Pipeline | None = None,
    *,
    only: Sequence[str] = (),
    publish: Path | str | None = None,
    progress: ProgressCallback = no_progress,
    **settings: Unpack[Overrides],
) -> Result:
    """Load listings completely, or raise.

    A load that stops before it writes to the destination leaves all tables unchanged. In DuckDB and PostgreSQL, all
    tables of listings change in one transaction, so a load that stops later leaves all old or all new. A first load
    into a new DuckDB file, and loads into other destinations, can leave some tables new and others old; run the load
    again to repair them. Loads in threads of one process run one after another.

    Args:
        pipeline: the pipeline to load with; None for `make_pipeline()`, the file letters.duckdb. Its working directory
            is emptied, so it should load nothing else.
        only: what to load: `templates`, `contacts`, `mailings`; when empty, both listings, and mailings if set.
        publish: a file for readers, replaced by a copy of the DuckDB file once the load is verified.
        progress: a callback, called for each response with the listing, the number of the pass, the rows in it, and
            the service's count; for mailings, with the days of a window, and of all windows.
        **settings: as in `Settings`; the rest comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: see `letters_source.errors`.
    """
    if not isinstance(pipeline, dlt.Pipeline | None):
        example, kind = 'make_pipeline(to="letters.duckdb")', type(pipeline).__name__
        raise SettingsError.about("pipeline", f"must be a dlt pipeline, such as {example}, got {kind}")
    return load_recorded(place_of(pipeline or make_pipeline()), only, publish, partial(letters, progress), settings)


def load_recorded(
    place: Place,
    only: Sequence[str],
    publish: Path | str | None,
    make_source: MakeSource,
    settings: Overrides,
) -> Result:
    """Load as `run` does; the ledger, spans and counters tell of it."""
    clock, attributes = Stopwatch(), {"dataset": place.dataset, "destination": place.name}
    with failures_recorded(place, clock), shared(**attributes), span("load"):
        load_id, counts, audits = load_verified(place, only, place_of_copy(publish), make_source, settings)
    result = Result(load_id, counts, audits, clock.seconds)
    record(finished_load(place, result), clock.started_at)
    return result


@plain_errors
def load_verified(
    place: Place, only: Sequence[str], copy: Path | None, make_source: MakeSource, settings: Overrides
) -> tuple[str, Mapping[str, int], tuple[Audit, ...]]:
    """Load, verify and publish; return the load's id, the rows in each table, and the load's audits."""
    chosen = selected_names(only)
    made, resolved, kind = make_source(**settings), resolve_settings(settings), place.kind
    # `refresh` drops the rows that would be recognized
    made.only_changes = resolved.only_changes and kind.writes_changes(place) and not place.pipeline.refresh
    source: DltSource = made.with_resources(*chosen) if chosen else made
    wait = resolved.lock_wait
    with one_at_a_time(), locked_working_dir(place, wait):
        with ExitStack() as held:
            with span("preflight"):
                check_space(place.working_dir)
                patiently(partial(kind.check, place), wait)
                lock = replace(held.enter_context(kind.lock(place, wait)), only_changes=made.only_changes)
                kind.clean_up(place)
            if copy:
                kind.check_copy(place, copy)
            names = {str(resource.table_name) for resource in source.selected_resources.values()}
            held.enter_context(obstacles_named(place, names))
            written = write_tables(place, source, lock, names)
            written = replace(written, extracted=None) if made.only_changes else written
            with phase("verifying the load", "verify"), kind.open_sql(place, "") as client:
                audits = kind.verify(client, written)
                kind.annotate(place, client, written, audits)
                counts = count_rows(client, written.tables)
            for audit in audits:
                saved_file(place.working_dir, audit["listing"]).unlink(missing_ok=True)
        # outside the lock, which would remove a new file if its copy fails
        if copy:
            with phase("publishing a copy", "publish"):
                kind.publish(place, copy, wait)
    for audit in audits:
        count("rows", audit["rows_yielded"], listing=audit["listing"])
    return written.load_id, counts, audits


def write_tables(place: Place, source: DltSource, lock: Held, names: Collection[str]) -> Written:
    """Extract, normalize and load the source's tables with these names, as `pipeline.run` does."""
    pipeline, kind = place.pipeline, place.kind
    with enforced(load_config(place), str(pipeline.pipeline_name)):
        pipeline.activate()
        if pipeline.config.restore_from_destination and not pipeline.dev_mode:
            pipeline.sync_destination()
        with phase("reading the service", "read", logging.DEBUG):
            pipeline.extract(source, loader_file_format=kind.file_format(place), refresh=pipeline.refresh)
        with span("normalize"):
            extracted = pipeline.normalize().row_counts
        kind.restore(place, names)
        with phase("writing the tables", "write"), only_this_load(pipeline):
            load_id = str(pipeline.load(kind.loading(place, lock)).loads_ids[-1])
    return Written(load_id, [table for table in TABLES if table.name in names], extracted)


def selected_names(only: Sequence[str]) -> set[str]:
    """Return the names of what to load, or raise `SettingsError`."""
    names = {only} if isinstance(only, str) else set(only)
    if unknown := names - set(LOADABLE):
        near = nearest(min(unknown), LOADABLE)
        hint = f" (did you mean {near}?)" if near else ""
        raise SettingsError.about("only", f"must name {', '.join(LOADABLE)}, got {', '.join(sorted(unknown))}{hint}")
    return names


def run_accounts(
    pipelines: Mapping[str, dlt.Pipeline],
    *,
    only: Sequence[str] = (),
    publish: Path | str | None = None,
    progress: ProgressCallback = no_progress,
    views: str = schema_of_views(),
    **settings: Unpack[Overrides],
) -> dict[str, Result]:
    """Load accounts one after another, each into its own dataset; in DuckDB, views combine them.

    Args:
        pipelines: a pipeline per account, as `account_pipelines` makes them.
        only: as for `run`.
        publish: as for `run`, after all accounts are loaded.
        progress: as for `run`.
        views: the schema of the views, in DuckDB.
        **settings: as for `run`.

    Raises:
        SharedIds: the service lists the same rows for two accounts; nothing is loaded.
        LettersError: as `run` does; the accounts before the failed one are loaded.
    """
    return dict(each_account(pipelines, only=only, publish=publish, progress=progress, views=views, **settings))


def each_account(
    pipelines: Mapping[str, dlt.Pipeline],
    *,
    only: Sequence[str],
    publish: Path | str | None = None,
    progress: ProgressCallback,
    views: str,
    **settings: Unpack[Overrides],
) -> Iterator[tuple[str, Result]]:
    """Load accounts as `run_accounts` does; yield each one with its result as soon as it is loaded."""
    if not pipelines:
        raise SettingsError("run_accounts needs the pipeline of at least one account.", key="pipelines")
    copy, clock = place_of_copy(publish), Stopwatch()
    shared_ids: Mapping[str, Mapping[str, int]] = {}
    places = {account: place_of(pipeline) for account, pipeline in pipelines.items()}
    recorded = partial(failures_recorded, next(iter(places.values())), clock, dataset=views)
    if copy:
        with recorded():
            for place in places.values():
                place.kind.check_copy(place, copy)
    if len(pipelines) > 1:
        with recorded():
            shared_ids = check_accounts([*pipelines], only, **settings)
        # each is compared with the others, and needs no comparison of its own
        settings["allow_shared_ids"] = True
    for account, place in places.items():
        settings["account_id"] = account
        shared_here = {listing: shared[account] for listing, shared in shared_ids.items() if account in shared}
        yield account, load_recorded(place, only, None, partial(letters, progress, shared_here), settings)
    with recorded():
        combine_accounts(places, views, copy, resolve_settings(settings).lock_wait)


@plain_errors
def combine_accounts(places: Mapping[str, Place], views: str, copy: Path | None, wait: float) -> None:
    """Combine loaded accounts by views, and publish a copy if asked."""
    first = next(iter(places.values()))
    with one_at_a_time():
        first.kind.combine(places, views, wait)
        if copy:
            first.kind.publish(first, copy, wait)


@plain_errors
def check_accounts(
    accounts: Sequence[str], only: Sequence[str] = (), **settings: Unpack[Overrides]
) -> dict[str, dict[str, int]]:
    """Raise `SharedIds` if the first pages of two accounts are the same, unless `allow_shared_ids` is set.

    Returns:
        For each listing and account, how many ids on its first page are on another account's, too.
    """
    names = selected_names(only)
    resolved = resolve_settings({**settings, "account_id": accounts[0]})
    if resolved.allow_shared_ids:
        return {}
    context = LoadContext.of(resolved, token_source(resolved, settings))
    wanted = {MAILINGS.listing if name == MAILINGS.name else name for name in names} or {*LISTINGS}
    return {
        name: check_apart(listing_task(listing, context), accounts)
        for name, listing in LISTINGS.items()
        if name in wanted
    }
