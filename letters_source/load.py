"""How is a load run, from settings to a verified destination? The command, scripts and orchestrators all call it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Any, Unpack

import dlt
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.comments import describe_tables
from letters_source.destination import check_destination, hold_open, load_config, make_pipeline
from letters_source.errors import LettersError, LoadFailed, SettingsError
from letters_source.listing import LISTINGS
from letters_source.reader import Watch
from letters_source.settings import Overrides
from letters_source.source import ignore, letters, resource_names
from letters_source.tables import TABLES
from letters_source.verify import count_rows, verify_load


@dataclass(frozen=True, slots=True)
class Result:
    """A finished, verified load.

    Args:
        load_id: dlt's id of the load, `_dlt_load_id` of its rows.
        tables: how many rows each table holds now.
        audits: the load's rows of `listing_audit`, one for each listing.
        seconds: how long it all took.
    """

    load_id: str
    tables: Mapping[str, int]
    audits: tuple[Mapping[str, Any], ...]
    seconds: float


def run(
    pipeline: dlt.Pipeline | None = None,
    *,
    only: Sequence[str] = (),
    watch: Watch = ignore,
    **settings: Unpack[Overrides],
) -> Result:
    """Load listings completely, or raise.

    Whatever stops it before the destination is written leaves all tables as they were. A destination that fails while
    it is written (`LoadFailed`) may hold new rows in some tables and old ones in others; loading again mends it.

    Args:
        pipeline: where to; `make_pipeline()`, the file letters.duckdb, when None.
        only: the listings to load, `templates` or `contacts`; both when empty.
        watch: told of each response: listing, number of the walk, rows in it, the service's count.
        **settings: as in `Settings`; what is not given comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: see `letters_source.errors`.
    """
    start = monotonic()
    listings = check_listings(only)
    source = letters(watch, **settings).with_resources(*chain.from_iterable(map(resource_names, listings)))
    pipeline = pipeline or make_pipeline()
    with plain_errors():
        check_destination(pipeline)
        # what an earlier run left half done is read afresh: dlt would load its old rows and not ask the service at all
        pipeline.abort_packages()
        with dlt.config.values(load_config(pipeline)), hold_open(pipeline):
            load_id = str(pipeline.run(source).loads_ids[-1])
            audits = verify_load(pipeline, load_id, listings)
            tables = [table for table in TABLES if not table.listing or table.listing in listings]
            describe_tables(pipeline, tables)
            counts = count_rows(pipeline, tables)
    return Result(load_id, counts, audits, monotonic() - start)


def check_listings(only: Sequence[str]) -> Sequence[str]:
    """The listings to load.

    Raises:
        SettingsError: one of them does not exist.
    """
    only = (only,) if isinstance(only, str) else only
    unknown = set(only) - LISTINGS.keys()
    if unknown:
        raise SettingsError(f"only must name {' or '.join(LISTINGS)}, got {', '.join(sorted(unknown))}.")
    return only or tuple(LISTINGS)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what stopped the load, without dlt's account of its own steps around it.

    Raises:
        LettersError: ours, from inside the source.
        LoadFailed: anything else that stopped dlt.
    """
    try:
        yield
    except (PipelineStepFailed, DestinationException, ConfigurationException) as failure:
        ours = (cause for cause in causes(failure) if isinstance(cause, LettersError | KeyboardInterrupt))
        step = f"{failure.step}: " if isinstance(failure, PipelineStepFailed) else ""
        raise next(ours, LoadFailed(f"{step}{innermost(failure)}")) from failure


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, the outermost first."""
    current: BaseException | None = error
    while current:
        yield current
        current = current.__cause__ or current.__context__


def innermost(error: BaseException) -> str:
    """The first line of the error that came first, or its kind where it says nothing."""
    first = list(causes(error))[-1]
    return str(first).strip().partition("\n")[0] or type(first).__name__
