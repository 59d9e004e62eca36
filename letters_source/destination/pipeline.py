"""Creates dlt pipelines for the destinations of the command, and validates dataset names and paths."""

import os
import re
from collections.abc import Sequence
from hashlib import blake2b
from json import JSONDecodeError
from pathlib import Path

import dlt
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.destination.reference import AnyDestination_CO
from dlt.common.pipeline import get_dlt_pipelines_dir
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials

from letters_source.config.providers import readable_files
from letters_source.config.settings import Kind
from letters_source.destination.dlt_hooks import DuckDB, Postgres
from letters_source.destination.local_files import unusable_directory
from letters_source.errors import DestinationError
from letters_source.tables import DATASET


def schema_of_views(dataset: str = DATASET) -> str:
    """Return the schema of the views that combine accounts."""
    return f"{dataset}_all"


# keeps a load's memory independent of the listing's size: 10 million rows fit. Each thread needs a share of it, and a
# second one makes a load no faster. Verifying millions of ids fills it, and DuckDB then continues on disk
MEMORY_MB = 80
DUCKDB_CONFIG = {"memory_limit": f"{MEMORY_MB}MB", "threads": 1, "preserve_insertion_order": False}
# DuckDB's default; dlt raises it to 1 GB, and rows would go through the write-ahead log first: a tenth of a load
DUCKDB_PRAGMAS = ("checkpoint_threshold='16MiB'",)
RESERVED = ("temp", "system", "information_schema", "pg_catalog", schema_of_views())
# dlt allows 64 characters for a pipeline name, which also contains other parts
LONGEST_NAME = 48
DEFAULT_PLACES: dict[Kind, str] = {
    "duckdb": "letters.duckdb",
    "parquet": "letters_parquet",
    "delta": "letters_delta",
    "iceberg": "letters_iceberg",
    # the server and its password come from dlt's configuration
    "postgres": "",
}
# each file loaded in parallel needs a share of the memory limit; dlt's default is twenty
FILES_AT_ONCE = 2


@readable_files()
def make_pipeline(
    kind: Kind = "duckdb", to: Path | str | None = None, dataset: str = DATASET, name: str = "letters"
) -> dlt.Pipeline:
    """Return a dlt pipeline into a DuckDB file, files in a folder or a bucket, or PostgreSQL.

    Credentials for buckets and PostgreSQL come from dlt's configuration: DESTINATION__FILESYSTEM__CREDENTIALS__... and
    DESTINATION__POSTGRES__CREDENTIALS.

    Args:
        kind: duckdb, parquet, delta, iceberg or postgres.
        to: the DuckDB file, the folder, or the URL of a bucket (s3://bucket/folder); when None, `letters.duckdb`,
            `letters_parquet` and so on in the current directory.
        dataset: the schema, or the subfolder, that contains the tables.
        name: the name of dlt's pipeline. Names of other datasets than the default, and of other kinds than DuckDB, are
            appended, because dlt stores one dataset and one destination per name. Each place has its own working
            directory.

    Raises:
        DestinationError: the kind, the place or the dataset's name is invalid, the file's stem is the dataset's name,
            which DuckDB cannot tell apart, or dlt's working directory cannot be used.
        SettingsError: a dlt configuration file cannot be read.
    """
    check_dataset(kind, dataset)
    place = absolute_place(kind, to)
    if kind == "duckdb" and catalog_of(place) in (dataset, f"{dataset}_staging"):
        raise DestinationError(
            f"A DuckDB file named {Path(place).name} cannot hold the dataset {dataset}: rename one.", key="to"
        )
    parts = (name, dataset if dataset != DATASET else "", kind if kind != "duckdb" else "")
    full_name, destination = "_".join(filter(None, parts)), make_destination(kind, place)
    folder = own_folder(kind, place, dataset)
    try:
        return dlt.pipeline(full_name, folder, destination=destination, dataset_name=dataset)
    except OSError as error:
        raise unusable_directory(error) from error
    except JSONDecodeError as error:
        broken = Path(folder) / full_name
        raise DestinationError(f"dlt's working directory contains a truncated file: remove {broken}.") from error


def own_folder(kind: Kind, place: str, dataset: str) -> str:
    """Return the folder of dlt's working directory for a place, so that loads into two places share nothing."""
    address = place or server_of()
    digest = blake2b(f"{kind}\0{address}\0{dataset}".encode(), digest_size=6).hexdigest()
    readable = re.sub(r"[^\w.-]+", "_", Path(address).name)[:LONGEST_NAME]
    return str(Path(get_dlt_pipelines_dir()).with_name("letters") / f"{readable}-{digest}")


def server_of() -> str:
    """Return the server and database that dlt's configuration names for PostgreSQL; empty where it names none."""
    try:
        config = Postgres().configuration(Postgres().spec(), accept_partial=True)
    except ConfigurationException:
        # the check before a load says what is wrong
        return ""
    return str(config)


def check_dataset(kind: Kind, dataset: str) -> None:
    """Check the kind of a destination and the name of a dataset in it, or raise `DestinationError`."""
    if kind not in DEFAULT_PLACES:
        raise DestinationError(f"The destination must be one of {', '.join(DEFAULT_PLACES)}, got {kind}.", key="kind")
    if not re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", dataset) or len(dataset) > LONGEST_NAME:
        raise DestinationError.about(
            "dataset",
            "must start with a letter and contain only lowercase letters, digits and single underscores between them, "
            f"at most {LONGEST_NAME} characters (got {dataset})",
        )
    if dataset.endswith("_staging"):
        raise DestinationError(
            f"{dataset} ends in _staging, like dlt's staging datasets", advice="choose another $dataset.", key="dataset"
        )
    if kind == "duckdb" and dataset in RESERVED:
        raise DestinationError(
            f"{dataset} is reserved for DuckDB or for views over accounts",
            advice="choose another $dataset.",
            key="dataset",
        )


def absolute_place(kind: Kind, to: Path | str | None) -> str:
    """Return an absolute path, the URL of a bucket, or an empty string for a server, or raise `DestinationError`."""
    place = str(to or DEFAULT_PLACES[kind])
    if kind == "postgres":
        if place:
            variable = "DESTINATION__POSTGRES__CREDENTIALS"
            raise DestinationError.about(
                "to", f"does not apply to {kind}: set {variable} to postgresql://host/database"
            )
        return place
    scheme, is_url, rest = place.partition("://")
    if not is_url:
        # through a link, DuckDB could open a file twice and would write its WAL next to the link
        return os.path.realpath(place)
    if not rest.strip("/"):
        raise DestinationError(f"{place} has no bucket name: write {scheme}://bucket/folder.", key="to")
    if kind == "duckdb":
        raise DestinationError(
            f"{place} is not a local path",
            advice="use buckets with another $destination: parquet, delta or iceberg; to load elsewhere, pass your own "
            "dlt pipeline to run().",
            key="to",
        )
    return place


def catalog_of(file: Path | str) -> str:
    """Return DuckDB's name for the database in a file, in lower case: the file name up to the first dot."""
    return Path(file).name.partition(".")[0].lower()


def account_pipelines(
    kind: Kind, to: Path | str | None, dataset: str, accounts: Sequence[str]
) -> dict[str, dlt.Pipeline]:
    """Return a pipeline for each account, into a dataset of its own: `<dataset>_<account>`.

    Raises:
        DestinationError: as for `make_pipeline`, or two accounts would share a dataset.
    """
    datasets = {account: account_dataset(dataset, account) for account in accounts}
    if len(set(datasets.values())) < len(accounts):
        shown = ", ".join(map(str, accounts))
        raise DestinationError(
            f"Two of the accounts {shown} would share a dataset",
            advice="load one into another $dataset.",
            key="accounts",
        )
    views = schema_of_views(dataset)
    if kind == "duckdb" and views in (*datasets.values(), catalog_of(absolute_place(kind, to))):
        raise DestinationError(
            f"{views} is reserved for views over accounts: no account or file can use this name.", key="dataset"
        )
    return {account: make_pipeline(kind, to, name) for account, name in datasets.items()}


def account_dataset(dataset: str, account: str) -> str:
    """Return the name of an account's own dataset."""
    # schedulers may pass numbers
    name = re.sub("[^0-9a-z]+", "_", str(account).lower()).strip("_")
    return f"{dataset}_{name}"


def make_destination(kind: Kind, place: str) -> AnyDestination_CO:
    """Return dlt's destination for a kind and an absolute place."""
    if kind == "postgres":
        return Postgres()
    if kind == "duckdb":
        credentials = DuckDbCredentials(place)
        credentials.global_config = DUCKDB_CONFIG
        credentials.pragmas = list(DUCKDB_PRAGMAS)
        return DuckDB(credentials, max_parallel_load_jobs=FILES_AT_ONCE)
    url = place if "://" in place else Path(place).as_uri()
    return dlt.destinations.filesystem(url, preferred_table_format=kind if kind != "parquet" else None)
