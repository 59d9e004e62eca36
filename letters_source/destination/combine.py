"""Combines accounts in one DuckDB file, with views over all of them."""

from collections.abc import Sequence
from pathlib import Path

import dlt
import duckdb

from letters_source.destination.account_views import replace_views
from letters_source.destination.duckdb_file import check_duckdb
from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import place_of
from letters_source.destination.locking import one_at_a_time
from letters_source.destination.pipeline import absolute_place, account_pipelines, make_pipeline, schema_of_views
from letters_source.destination.sql import literal
from letters_source.errors import LoadFailed
from letters_source.tables import DATASET
from letters_source.wording import reason


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
            copy_dataset(own, place, dataset)
        except duckdb.Error as error:
            raise LoadFailed(f"{account} could not be copied into {to}: {reason(error)}; run it again.") from None
        replace_views({name: place_of(pipeline) for name, pipeline in pipelines.items()}, schema_of_views())


def copy_dataset(file: Path, to: Path, dataset: str) -> None:
    """Copy the contents of a file into another in one transaction, comments included."""
    with duckdb.connect(str(to)) as target:
        [name] = target.sql("SELECT current_database()").fetchall()[0]
        target.execute(f"ATTACH {literal(str(file))} AS account_alone (READ_ONLY)")
        target.execute("BEGIN")
        for schema in (dataset, f"{dataset}_staging"):
            target.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        target.execute(f'COPY FROM DATABASE account_alone TO "{name}"')
        target.execute("COMMIT")
