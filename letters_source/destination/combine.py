"""Combines accounts in one DuckDB file, with views over all of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import dlt
import duckdb

from letters_source.destination.error_translation import plain_errors
from letters_source.destination.kinds import is_duckdb
from letters_source.destination.local_files import check_duckdb
from letters_source.destination.locking import one_at_a_time
from letters_source.destination.pipeline import absolute_place, account_pipelines, make_pipeline, schema_of_views
from letters_source.destination.sql import fetch_rows, literal
from letters_source.errors import LoadFailed
from letters_source.tables import DATASET, LISTING_AUDIT
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
        create_account_views(pipelines, schema_of_views())


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


FIND_RELATIONS = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = %s AND NOT starts_with(table_name, '_dlt') ORDER BY table_name
"""


def create_account_views(pipelines: Mapping[str, dlt.Pipeline], schema: str) -> None:
    """Create views over each table of all accounts, with a first column `account_id`; does nothing outside DuckDB."""
    first = next(iter(pipelines.values()))
    if not is_duckdb(first):
        return
    parts = defaultdict(list)
    with first.sql_client() as client:
        for account, pipeline in pipelines.items():
            # the client has the normalized name
            dataset = pipeline.sql_client().dataset_name
            # some accounts may lack tables, for example of facets
            found = fetch_rows(client, FIND_RELATIONS, dataset)
            for [name] in found:
                parts[name].append(account_rows(account, dataset, name))
        client.execute_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        for name, queries in parts.items():
            client.execute_sql(f'CREATE OR REPLACE VIEW "{schema}"."{name}" AS {" UNION ALL BY NAME ".join(queries)}')


def account_rows(account_id: str, dataset: str, name: str) -> str:
    """Return the query for one account's rows; the audit already has an account column."""
    first = "" if name == LISTING_AUDIT.name else f"{literal(str(account_id))} AS account_id, "
    return f'SELECT {first}* FROM "{dataset}"."{name}"'
