"""The kinds of destinations, and the factory of places. The only module that asks a dlt pipeline what it is."""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dlt
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.destinations.impl.duckdb.configuration import DuckDbClientConfiguration, DuckDbCredentials
from dlt.destinations.impl.filesystem.configuration import FilesystemDestinationClientConfiguration

from letters_source.destination import duckdb, files, lake, other, postgres
from letters_source.destination.place import DestinationKind, Place

KINDS: dict[str, DestinationKind] = {
    "duckdb": duckdb,
    "parquet": files,
    "delta": lake,
    "iceberg": lake,
    "postgres": postgres,
}
"""What a load asks of each kind of destination, by the kind's name; `other` answers for all others."""


def place_of(pipeline: dlt.Pipeline) -> Place:
    """Return where a pipeline loads to."""
    destination, dataset = pipeline.destination, str(pipeline.dataset_name)
    if not destination:
        return Place("", other, None, None, dataset, "", pipeline)
    engine, described = destination.destination_type.rpartition(".")[2], destination.destination_name
    if engine == "filesystem":
        form = destination.capabilities().preferred_table_format
        engine, described = form or "parquet", f"{form or 'plain'} files"
    address, path = None, None
    # preflight reports what is missing; drivers raise what they like here, such as botocore's ProfileNotFound
    with suppress(Exception):
        address, path = located(pipeline)
    return Place(engine, KINDS.get(engine, other), address, path, dataset, described, pipeline)


def located(pipeline: dlt.Pipeline) -> tuple[str, Path | None]:
    """Return a pipeline's address for messages, and its DuckDB file or local folder."""
    given = pipeline.destination.config_params.get("credentials")
    # the lookup below resolves dlt's whole configuration, which takes 10 ms
    if isinstance(given, DuckDbCredentials) and (file := Path(given.database or "")).is_absolute():
        return str(file), file
    config = pipeline.destination_client().config
    path = None
    if type(config) is DuckDbClientConfiguration:
        name = str(config.credentials.database)
        path = None if name.startswith(":") else Path(name)
    elif isinstance(config, FilesystemDestinationClientConfiguration) and config.is_local_filesystem:
        path = Path(url2pathname(urlsplit(config.bucket_url).path))
    return str(path or config), path


def running_place() -> Place | None:
    """Return where the running load goes; None outside a load, where dlt would return the last pipeline created."""
    try:
        return place_of_load(load_package_state()["load_id"])
    except CurrentLoadPackageStateNotAvailable:
        return None


# looking up dlt's configuration takes 9 ms
@lru_cache(maxsize=1)
def place_of_load(load_id: str) -> Place:  # noqa: ARG001 -- the cache key: the answer holds for one load
    """Return where the running load goes."""
    return place_of(dlt.current.pipeline())
