"""How is a load run, from settings to a verified destination? The command, scripts and orchestrators all call it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any, Unpack

import dlt
from dlt.extract import DltSource

from letters_source.config.resolve import resolve_settings
from letters_source.config.settings import Overrides
from letters_source.destination.annotate import create_current_views, create_keys, describe_tables
from letters_source.destination.combine import create_account_views
from letters_source.destination.engines import for_loading
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.loading import (
    file_format,
    hold_open,
    load_config,
    outranking,
    replace_strategy,
    spared_false_alarms,
)
from letters_source.destination.locking import prepared, private_files
from letters_source.destination.pipeline import make_pipeline, schema_of_views
from letters_source.destination.publish import check_published, place_of_copy, publish_copy
from letters_source.destination.unfinished import adopt_unfinished, drop_empty_staging, remove_unfinished
from letters_source.destination.verify import count_rows, verify_load
from letters_source.destination.waiting import when_free
from letters_source.errors import SettingsError
from letters_source.pagination.reader import ProgressCallback, no_progress
from letters_source.service.listings import LISTINGS
from letters_source.source import letters
from letters_source.tables import MAILINGS, TABLES, Table

PARTS = (*LISTINGS, MAILINGS.name)
ONE_AT_A_TIME = RLock()
"""dlt's configuration is one for a process: a load that ends would take away what another set for its own."""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished, verified load.

    Args:
        load_id: dlt's id of the load, `_dlt_load_id` of its rows.
        tables: how many rows each table holds now.
        audits: the load's rows of `listing_audit`, one for each listing, value of a facet, and window of mailings.
        seconds: how long it all took.
    """

    load_id: str
    tables: Mapping[str, int]
    audits: tuple[Mapping[str, Any], ...]
    seconds: float


@plain_errors
def run(
    pipeline: dlt.Pipeline | None = None,
    *,
    only: Sequence[str] = (),
    publish: Path | str | None = None,
    watch: ProgressCallback = no_progress,
    **settings: Unpack[Overrides],
) -> Result:
    """Load listings completely, or raise.

    Whatever stops it before the destination is written leaves all tables as they were; in DuckDB and PostgreSQL, so
    does whatever stops it later, or all tables of listings are new. A first load into a new DuckDB file, and loads into
    other destinations, may leave some tables new when they are stopped then; loading again mends it. Loads in threads
    of one process wait for one another.

    Args:
        pipeline: where to; `make_pipeline()`, the file letters.duckdb, when None. Its working folder is emptied, so it
            should load nothing else.
        only: what to load: `templates`, `contacts`, `mailings`; when empty, both listings, and mailings if set.
        publish: a file for readers: once all is verified, a copy of the DuckDB file is put in its place.
        watch: told of each response: listing, number of the walk, rows in it, the service's count.
        **settings: as in `Settings`; what is not given comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: see `letters_source.errors`.
    """
    start = monotonic()
    source = choose_parts(letters(watch, **settings), only)
    tables = [table for table in TABLES if loads_into(source, table)]
    pipeline = pipeline or make_pipeline()
    copy = place_of_copy(publish)
    wait = resolve_settings(settings).lock_wait
    with ONE_AT_A_TIME, private_files, prepared(pipeline, wait):
        destination = for_loading(pipeline.destination, replace_strategy(pipeline))
        name = str(pipeline.pipeline_name)
        with outranking(load_config(pipeline), name), spared_false_alarms(), hold_open(pipeline, wait):
            if copy:
                check_published(pipeline, copy)
            loaded = pipeline.run(source, destination=destination, loader_file_format=file_format(pipeline))
            load_id = str(loaded.loads_ids[-1])
            audits = settle(pipeline, load_id, tables)
            counts = count_rows(pipeline, tables)
        # not before the file is let go: one that is new would be removed with a copy that fails
        if copy:
            when_free(partial(publish_copy, pipeline, copy), wait)
    return Result(load_id, counts, audits, monotonic() - start)


def settle(pipeline: dlt.Pipeline, load_id: str, tables: Sequence[Table]) -> tuple[Mapping[str, Any], ...]:
    """Settle what unfinished loads left, verify this one, and add comments, keys and views; returns its audits.

    Raises:
        LoadFailed: as `verify_load` does.
    """
    remove_unfinished(pipeline, tables)
    drop_empty_staging(pipeline)
    audits = verify_load(pipeline, load_id, [table for table in tables if table.listing])
    adopt_unfinished(pipeline, load_id, tables, {audit["listing"]: audit["mode"] for audit in audits})
    describe_tables(pipeline, tables)
    create_keys(pipeline, tables)
    if any(audit["mode"] == "history" for audit in audits):
        create_current_views(pipeline, (table for table in tables if table.key and table.part != "window"))
    return audits


@plain_errors
def run_accounts(
    pipelines: Mapping[str, dlt.Pipeline],
    *,
    only: Sequence[str] = (),
    publish: Path | str | None = None,
    watch: ProgressCallback = no_progress,
    views: str = schema_of_views(),
    **settings: Unpack[Overrides],
) -> dict[str, Result]:
    """Load accounts one after the other, each into a dataset of its own, and unite them by views where that is DuckDB.

    Args:
        pipelines: where to, by account, as `account_pipelines` makes them.
        only: as for `run`.
        publish: as for `run`, once all accounts are loaded.
        watch: as for `run`.
        views: the schema of the views, in DuckDB.
        **settings: as for `run`.

    Raises:
        LettersError: as `run` does; the accounts that came before are loaded then.
    """
    results = {}
    copy = place_of_copy(publish)
    if copy:
        for pipeline in pipelines.values():
            check_published(pipeline, copy)
    for account, pipeline in pipelines.items():
        settings["account_id"] = account
        results[account] = run(pipeline, only=only, watch=watch, **settings)
    wait = resolve_settings(settings).lock_wait
    with ONE_AT_A_TIME, private_files:
        when_free(partial(create_account_views, pipelines, views), wait)
        if copy:
            when_free(partial(publish_copy, next(iter(pipelines.values())), copy), wait)
    return results


def choose_parts(source: DltSource, only: Sequence[str]) -> DltSource:
    """The source with the resources of the parts that are asked for; as it is when none is.

    Raises:
        SettingsError: there is no such part.
    """
    parts = {only} if isinstance(only, str) else set(only)
    if unknown := parts - set(PARTS):
        raise SettingsError(f"only must name {', '.join(PARTS)}, got {', '.join(sorted(unknown))}.")
    if not parts:
        return source
    return source.with_resources(*parts)


def loads_into(source: DltSource, table: Table) -> bool:
    """Whether a selected resource loads a table; those that all listings share have one for each."""
    return any(resource.table_name == table.name for resource in source.selected_resources.values())
