"""Where may a load go, and can it go there? Pipelines for the command's destinations, and their preflight."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dlt
import duckdb
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials

from letters_source.errors import DestinationError
from letters_source.tables import DATASET

Kind = Literal["duckdb", "parquet"]
RESERVED = ("temp", "system", "information_schema", "pg_catalog", f"{DATASET}_all")
# dlt's names of pipelines hold 64, with what else is in them
LONGEST_NAME = 48
DEFAULT_PLACES: dict[Kind, str] = {"duckdb": "letters.duckdb", "parquet": "letters_parquet"}
# the limit and the free order keep a load's memory flat whatever the size of a listing (10 million rows fit); with a
# larger log, staging tables that are emptied again are not written to the file in between, which halves a small load
DUCKDB_CONFIG = {"memory_limit": "120MB", "preserve_insertion_order": False, "wal_autocheckpoint": "256MB"}


def make_pipeline(
    kind: Kind = "duckdb", to: Path | str | None = None, dataset: str = DATASET, name: str = "letters"
) -> dlt.Pipeline:
    """A dlt pipeline into a DuckDB file or a folder of Parquet files.

    Args:
        kind: duckdb or parquet.
        to: the file or the folder; `letters.duckdb` or `letters_parquet` in the working directory when None.
        dataset: the schema in the file, or the folder in the folder, that the tables go to.
        name: dlt's name of the pipeline and its working folder; other datasets than the usual one and Parquet add
            their own, as dlt keeps one dataset and one destination a name.

    Raises:
        DestinationError: there is no such kind, no dataset can have that name, or the file's stem is the dataset's
            name, which DuckDB could not tell apart.
    """
    if kind not in DEFAULT_PLACES:
        raise DestinationError(f"The destination must be {' or '.join(DEFAULT_PLACES)}, got {kind}.")
    if not re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", dataset) or len(dataset) > LONGEST_NAME:
        raise DestinationError(
            "The dataset's name must be words of small letters and digits with single underscores between them, "
            f"{LONGEST_NAME} characters at most, got {dataset}."
        )
    if dataset.endswith("_staging"):
        raise DestinationError(f"{dataset} ends in _staging, which is where dlt keeps rows under way: choose another.")
    if kind == "duckdb" and dataset in RESERVED:
        raise DestinationError(f"{dataset} is taken, by DuckDB or views that unite accounts: choose another dataset.")
    place = Path(to or DEFAULT_PLACES[kind]).absolute()
    if "://" in str(to):
        raise DestinationError(f"{to} is no path of this machine: give run() a pipeline of dlt's own to load there.")
    if kind == "duckdb" and catalog_of(place) in (dataset, f"{dataset}_staging"):
        raise DestinationError(f"A DuckDB file named {place.name} cannot hold the dataset {dataset}: rename one.")
    parts = (name, dataset if dataset != DATASET else "", kind if kind != "duckdb" else "")
    return dlt.pipeline("_".join(filter(None, parts)), destination=make_destination(kind, place), dataset_name=dataset)


def catalog_of(file: Path) -> str:
    """What DuckDB calls the database of a file: what stands before the first dot, whatever the case."""
    return file.name.partition(".")[0].lower()


def account_pipelines(
    kind: Kind, to: Path | str | None, dataset: str, accounts: Sequence[str]
) -> dict[str, dlt.Pipeline]:
    """A pipeline for each account, into a dataset of its own: `<dataset>_<account>`.

    Raises:
        DestinationError: as for `make_pipeline`, or two accounts would share a dataset.
    """
    datasets = {account: f"{dataset}_{re.sub('[^0-9a-z]+', '_', account.lower()).strip('_')}" for account in accounts}
    if len(set(datasets.values())) < len(accounts):
        raise DestinationError(f"The accounts {', '.join(accounts)} would not each have a dataset of their own.")
    views, place = f"{dataset}_all", Path(to or DEFAULT_PLACES[kind])
    if kind == "duckdb" and views in (*datasets.values(), catalog_of(place)):
        raise DestinationError(f"{views} is the schema of the views that unite accounts: no account or file can be it.")
    return {account: make_pipeline(kind, to, name) for account, name in datasets.items()}


def make_destination(kind: Kind, place: Path) -> Any:
    """dlt's destination of a kind at an absolute place."""
    if kind == "parquet":
        return dlt.destinations.filesystem(place.as_uri(), destination_name="parquet")
    credentials = DuckDbCredentials(str(place))
    credentials.global_config = DUCKDB_CONFIG
    return dlt.destinations.duckdb(credentials)


def check_destination(pipeline: dlt.Pipeline) -> None:
    """See that a local destination can be written, before the service is asked for anything; others pass.

    Raises:
        DestinationError: with the plain cause.
    """
    config: Any = pipeline.destination_client().config
    if file := duckdb_file(pipeline):
        check_duckdb(file)
    elif getattr(config, "is_local_filesystem", False):
        check_folder(Path(url2pathname(urlsplit(config.bucket_url).path)))


def is_duckdb(pipeline: dlt.Pipeline) -> bool:
    """Whether the destination is a DuckDB database."""
    return pipeline.destination is not None and pipeline.destination.destination_type.endswith(".duckdb")


def is_files(pipeline: dlt.Pipeline) -> bool:
    """Whether the destination is plain files; dlt appends to those where it is told to merge."""
    return pipeline.destination is not None and pipeline.destination.destination_type.endswith(".filesystem")


def duckdb_file(pipeline: dlt.Pipeline) -> Path | None:
    """The file of a DuckDB destination; None for any other, and for a database without one."""
    if not is_duckdb(pipeline):
        return None
    config: Any = pipeline.destination_client().config
    name = str(config.credentials.database)
    return None if name.startswith(":") else Path(name)


@contextmanager
def hold_open(pipeline: dlt.Pipeline) -> Iterator[None]:
    """Keep a connection to a DuckDB file while the block runs; other destinations are left alone.

    Nobody else can take the file between preflight and load, and DuckDB does not write out its log whenever dlt closes
    a connection of its own, a third of a small load's time. A file that was new is removed when the block fails.
    """
    file = duckdb_file(pipeline)
    if file is None:
        yield
        return
    is_new = not os.path.exists(file)
    with pipeline.sql_client():
        try:
            yield
        except BaseException:
            # only once it is open, and so locked, is it ours to remove
            if is_new:
                file.unlink(missing_ok=True)
            raise


def load_config(pipeline: dlt.Pipeline) -> dict[str, Any]:
    """How dlt shall load: in databases, a table keeps its old rows until all new ones are there.

    That writes every row twice, which a DuckDB file that does not exist yet is spared: it has no old rows to keep. In
    staging, where history and sync go even then, no rows are left.
    """
    if is_files(pipeline):
        return {"load.delete_completed_jobs": True}
    config = {"load.delete_completed_jobs": True, "load.truncate_staging_dataset": True}
    file = duckdb_file(pipeline)
    is_new = file is not None and not os.path.exists(file)
    return config if is_new else {**config, "destination.replace_strategy": "insert-from-staging"}


def check_duckdb(file: Path) -> None:
    """Open a DuckDB file for writing; one that does not exist yet is not made.

    Raises:
        DestinationError: its folder is missing or not writable, another process holds it, or it is no DuckDB file.
    """
    if not os.path.isdir(file.parent):
        raise DestinationError(
            f"{file}: the folder {file.parent} does not exist, or may not be entered; make it, or choose another --to."
        )
    if not os.path.exists(file):
        check_writable(file.parent)
        return
    try:
        duckdb.connect(str(file)).close()
    except duckdb.Error as error:
        raise DestinationError(f"{file} cannot be opened for writing: {plain_cause(error)}") from None


def check_folder(folder: Path) -> None:
    """See that a folder, or the nearest that exists above it, can be written.

    Raises:
        DestinationError: it cannot.
    """
    # os.path answers no where pathlib raises: below a folder that may not be entered
    nearest = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not os.path.isdir(nearest):
        raise DestinationError(f"{nearest} is a file, not a folder; choose another --to.")
    check_writable(nearest)


def check_writable(folder: Path) -> None:
    """Write a nameless file.

    Raises:
        DestinationError: the folder cannot be written.
    """
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DestinationError(f"{folder} cannot be written: {error.strerror}.") from None


def plain_cause(error: Exception) -> str:
    """DuckDB's reason without its kind and its link: who holds a lock is in it."""
    return str(error).split(": ", 1)[-1].split(" See also ")[0]
