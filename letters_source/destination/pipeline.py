"""Where may a load go? Pipelines for the command's destinations."""

import os
import re
from collections.abc import Sequence
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Literal

import dlt
from dlt.common.pipeline import get_dlt_pipelines_dir
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials

from letters_source.config.providers import readable_files
from letters_source.destination.dlt_hooks import DuckDB, Postgres
from letters_source.destination.kinds import DUCKDB_CONFIG
from letters_source.errors import DestinationError
from letters_source.tables import DATASET

Kind = Literal["duckdb", "parquet", "delta", "iceberg", "postgres"]


def schema_of_views(dataset: str = DATASET) -> str:
    """The schema of the views that unite accounts, beside their datasets."""
    return f"{dataset}_all"


RESERVED = ("temp", "system", "information_schema", "pg_catalog", schema_of_views())
# dlt's names of pipelines hold 64, with what else is in them
LONGEST_NAME = 48
DEFAULT_PLACES: dict[Kind, str] = {
    "duckdb": "letters.duckdb",
    "parquet": "letters_parquet",
    "delta": "letters_delta",
    "iceberg": "letters_iceberg",
    # a server and its password are dlt's configuration, and no path
    "postgres": "",
}
# each file of rows that is loaded at once needs a share too; dlt, told to write smaller ones, would load twenty
FILES_AT_ONCE = 2


@readable_files()
def make_pipeline(
    kind: Kind = "duckdb", to: Path | str | None = None, dataset: str = DATASET, name: str = "letters"
) -> dlt.Pipeline:
    """A dlt pipeline into a DuckDB file, a folder or a bucket of files, or PostgreSQL.

    Credentials of buckets and of PostgreSQL are dlt's configuration: DESTINATION__FILESYSTEM__CREDENTIALS__... and
    DESTINATION__POSTGRES__CREDENTIALS.

    Args:
        kind: duckdb, parquet, delta, iceberg or postgres.
        to: the file, or for files the folder or the URL of a bucket (s3://bucket/folder); `letters.duckdb`,
            `letters_parquet` and so on in the working directory when None.
        dataset: the schema in the database, or the folder in the folder, that the tables go to.
        name: dlt's name of the pipeline and its working folder; other datasets than the usual one and other kinds than
            DuckDB add their own, as dlt keeps one dataset and one destination a name.

    Raises:
        DestinationError: there is no such kind or no such place for it, no dataset can have that name, the file's stem
            is the dataset's name, which DuckDB could not tell apart, or dlt's own folder cannot be used.
        SettingsError: a file of dlt's settings cannot be read.
    """
    check_dataset(kind, dataset)
    place = absolute_place(kind, to)
    if kind == "duckdb" and catalog_of(place) in (dataset, f"{dataset}_staging"):
        raise DestinationError(f"A DuckDB file named {Path(place).name} cannot hold the dataset {dataset}: rename one.")
    parts = (name, dataset if dataset != DATASET else "", kind if kind != "duckdb" else "")
    full_name, destination = "_".join(filter(None, parts)), make_destination(kind, place)
    try:
        return dlt.pipeline(full_name, destination=destination, dataset_name=dataset)
    except OSError as error:
        raise unusable(error) from error
    except JSONDecodeError as error:
        folder = Path(get_dlt_pipelines_dir()) / full_name
        raise DestinationError(f"dlt's working folder holds a file that was cut off: remove {folder}.") from error


def unusable(error: OSError) -> DestinationError:
    """The error of a folder of dlt's, or a file in it, that cannot be read or written."""
    return DestinationError(
        f"dlt's working folder cannot be used: {error.strerror}: {error.filename}; set DLT_DATA_DIR to another."
    )


def check_dataset(kind: Kind, dataset: str) -> None:
    """See that a destination of that kind may have a dataset of that name.

    Raises:
        DestinationError: it may not, or there is no such kind.
    """
    if kind not in DEFAULT_PLACES:
        raise DestinationError(f"The destination must be one of {', '.join(DEFAULT_PLACES)}, got {kind}.")
    if not re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", dataset) or len(dataset) > LONGEST_NAME:
        raise DestinationError(
            "The dataset's name must be words of small letters and digits with single underscores between them, "
            f"{LONGEST_NAME} characters at most, got {dataset}."
        )
    if dataset.endswith("_staging"):
        raise DestinationError(f"{dataset} ends in _staging, which is where dlt keeps rows under way: choose another.")
    if kind == "duckdb" and dataset in RESERVED:
        raise DestinationError(f"{dataset} is taken, by DuckDB or views that unite accounts: choose another dataset.")


def absolute_place(kind: Kind, to: Path | str | None) -> str:
    """Where a load of that kind goes: an absolute path, the URL of a bucket as it is, nothing for a server.

    Links are followed: DuckDB would open a file twice at once, and keep its log beside a link to it.

    Raises:
        DestinationError: a load of that kind cannot go there.
    """
    place = str(to or DEFAULT_PLACES[kind])
    if kind == "postgres":
        if place:
            raise DestinationError(f"{kind} takes no --to: set DESTINATION__POSTGRES__CREDENTIALS=postgresql://...")
        return place
    scheme, is_url, rest = place.partition("://")
    if not is_url:
        return os.path.realpath(place)
    if not rest.strip("/"):
        raise DestinationError(f"{place} names no bucket: write {scheme}://bucket/folder.")
    if kind == "duckdb":
        raise DestinationError(
            f"{place} is no path of this machine: buckets are for --destination parquet, delta and iceberg; "
            "to load elsewhere, give run() a pipeline of dlt's own."
        )
    return place


def catalog_of(file: Path | str) -> str:
    """What DuckDB calls the database of a file: what stands before the first dot, whatever the case."""
    return Path(file).name.partition(".")[0].lower()


def account_pipelines(
    kind: Kind, to: Path | str | None, dataset: str, accounts: Sequence[str]
) -> dict[str, dlt.Pipeline]:
    """A pipeline for each account, into a dataset of its own: `<dataset>_<account>`.

    Raises:
        DestinationError: as for `make_pipeline`, or two accounts would share a dataset.
    """
    # schedulers may give numbers
    names = {account: re.sub("[^0-9a-z]+", "_", str(account).lower()).strip("_") for account in accounts}
    datasets = {account: f"{dataset}_{name}" for account, name in names.items()}
    if len(set(datasets.values())) < len(accounts):
        told = ", ".join(map(str, accounts))
        raise DestinationError(f"The accounts {told} would not each have a dataset of their own.")
    views = schema_of_views(dataset)
    if kind == "duckdb" and views in (*datasets.values(), catalog_of(absolute_place(kind, to))):
        raise DestinationError(f"{views} is the schema of the views that unite accounts: no account or file can be it.")
    return {account: make_pipeline(kind, to, name) for account, name in datasets.items()}


def make_destination(kind: Kind, place: str) -> Any:
    """dlt's destination of a kind at an absolute place."""
    if kind == "postgres":
        return Postgres()
    if kind == "duckdb":
        credentials = DuckDbCredentials(place)
        credentials.global_config = DUCKDB_CONFIG
        return DuckDB(credentials, max_parallel_load_jobs=FILES_AT_ONCE)
    url = place if "://" in place else Path(place).as_uri()
    return dlt.destinations.filesystem(url, preferred_table_format=kind if kind != "parquet" else None)
