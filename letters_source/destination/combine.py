"""Combines accounts in one DuckDB file, with views over all of them."""

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

import dlt
import duckdb
from duckdb import DuckDBPyConnection

from letters_source.destination.account_views import replace_views
from letters_source.destination.duckdb_copies import (
    FIND_INDEXES,
    FIND_OTHERS,
    Entry,
    binds,
    find_comments,
    find_entries,
    find_tables,
    insert_rows,
    opened_catalog,
    shown_names,
    works,
    write_comments,
    written_columns,
)
from letters_source.destination.duckdb_file import STORAGE, check_duckdb, is_held, why_closed
from letters_source.destination.duckdb_views import FIND_VIEWS, create_views, moved
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import place_of
from letters_source.destination.locking import one_at_a_time
from letters_source.destination.pipeline import (
    absolute_place,
    account_pipelines,
    catalog_of,
    make_pipeline,
    schema_of_views,
)
from letters_source.destination.sql import literal, quoted
from letters_source.errors import DestinationInUse, LoadFailed
from letters_source.tables import DATASET, is_ours

logger = logging.getLogger("letters_source")

TRIAL = "trial"
ALONE = "account_alone"
"""DuckDB's name for the attached file of one account."""
NOT_COPIED = "only the dataset %s is copied, with what needs nothing else."


def own_pipeline(to: Path | str, account: str, accounts: Sequence[str]) -> dlt.Pipeline:
    """Return a pipeline into an account's own file, so that accounts can load in parallel, or raise `DestinationError`.

    The file is next to the combined one, `to`; a DuckDB file takes one writing process at a time.
    """
    dataset = account_pipelines("duckdb", to, DATASET, accounts)[account].dataset_name
    return make_pipeline("duckdb", own_file(Path(to), dataset), dataset)


def own_file(to: Path, dataset: str) -> Path:
    """Return the file of one account's dataset."""
    return to.with_name(f"{to.stem}{dataset.removeprefix(DATASET)}.duckdb")


@plain_errors
def unite_account(to: Path | str, account: str, accounts: Sequence[str]) -> None:
    """Replace a loaded account's copy in the combined file, and recreate the views over all accounts.

    Readers see the previous copy or the new one. The views are in the schema `letters_data_all`. Raise
    `DestinationError`, `DestinationInUse`, or `LoadFailed` if the account is not loaded or cannot be copied.
    """
    pipelines = account_pipelines("duckdb", to, DATASET, accounts)
    place = Path(absolute_place("duckdb", to))
    check_duckdb(place)
    dataset = pipelines[account].dataset_name
    own = own_file(Path(to), dataset)
    if not own.exists():
        raise LoadFailed(f"{account} is not loaded: {own} does not exist; load it first.")
    with one_at_a_time():
        try:
            left_out = copy_dataset(own, place, dataset)
        except duckdb.Error as error:
            failure = f"{account} could not be copied into {to}: {why_closed(own, error)}"
            if is_held(error):
                raise DestinationInUse(failure) from None
            raise LoadFailed(f"{failure}; run it again.") from None
        if left_out:
            logger.warning("%s lacks %s of %s: %s", to, shown_names(left_out), own, NOT_COPIED % dataset)
        replace_views({name: place_of(pipeline) for name, pipeline in pipelines.items()}, schema_of_views())


def copy_dataset(file: Path, to: Path, dataset: str) -> list[Entry]:
    """Copy a dataset of a file into another in one transaction, comments included; return what else the file holds."""
    schemas, broken = (dataset, f"{dataset}_staging"), broken_views(file)
    with duckdb.connect(str(to), config=STORAGE) as target:
        name = opened_catalog(target)
        target.execute(f"ATTACH {literal(str(file))} AS {ALONE} (READ_ONLY)")
        tables, left_out = find_tables(target, ALONE)
        views = find_entries(target, FIND_VIEWS, ALONE)
        indexes = find_entries(target, FIND_INDEXES, ALONE)
        others = find_entries(target, FIND_OTHERS, ALONE)
        tables_here, indexes_here, views_here = (
            [entry for entry in found if entry.schema in schemas and entry not in broken]
            for found in (tables, indexes, views)
        )
        columns, creations = creatable(tables_here, indexes_here, views_here, catalog_of(file), name)
        comments = find_comments(target, ALONE)
        target.execute("BEGIN")
        drop_former(target, name, schemas, {(entry.schema, entry.name) for entry in (*tables, *views)})
        for schema in {entry.schema for entry in columns}:
            target.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}.{quoted(schema)}")
        for creation in creations.values():
            target.execute(creation)
        for table, names in columns.items():
            insert_rows(target, table, names, ALONE, name)
        target.execute(f"USE {quoted(name)}")
        write_comments(target, comments, {(entry.schema, entry.name) for entry in creations})
        target.execute("COMMIT")
    return [entry for entry in (*tables, *left_out, *views, *indexes, *others) if entry not in creations]


def creatable(
    tables: Sequence[Entry], indexes: Sequence[Entry], views: Sequence[Entry], source: str, target: str
) -> tuple[dict[Entry, str], dict[Entry, str]]:
    """Return the columns of each table, and the SQL that creates each table, index and view that can be created.

    They are created in a database of their own first, because an error would end a transaction.
    """
    with duckdb.connect() as trial:
        trial.execute(f"ATTACH ':memory:' AS {TRIAL}")
        for schema in {table.schema for table in tables}:
            trial.execute(f"CREATE SCHEMA IF NOT EXISTS {TRIAL}.{quoted(schema)}")
        created = [entry for entry in (*tables, *indexes) if binds(trial, entry.creation(TRIAL))]
        columns = {table: written_columns(trial, table, TRIAL) for table in created if table in tables}
        creations = {entry: entry.creation(target) for entry in created}
        for view in create_views(trial, views, source, TRIAL):
            creations[view] = moved(trial, view, source, target)
    return columns, creations


def broken_views(file: Path) -> list[Entry]:
    """Return the views of a file that do not work there; in a transaction, creating one could end it."""
    with duckdb.connect(str(file), read_only=True) as connection:
        views = find_entries(connection, FIND_VIEWS, opened_catalog(connection))
        return [view for view in views if not works(connection, f"DESCRIBE FROM {view.quoted}")]


def drop_former(
    connection: DuckDBPyConnection, catalog: str, schemas: Collection[str], names: Collection[tuple[str, str]]
) -> None:
    """Drop tables and views of these names, and ours; others in these schemas are someone else's."""
    tables, _ = find_tables(connection, catalog)
    views = find_entries(connection, FIND_VIEWS, catalog)
    for kind, entries in (("VIEW", views), ("TABLE", tables[::-1])):
        for entry in entries:
            if entry.schema in schemas and ((entry.schema, entry.name) in names or is_ours(entry.name)):
                connection.execute(f"DROP {kind} {quoted(catalog)}.{entry.quoted}")
