"""What the checks before a load have in common: that a destination is installed, configured, capable and reachable."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dlt.common.configuration.exceptions import ConfigFieldMissingException
from dlt.common.destination import AnyDestination
from dlt.common.destination.exceptions import DestinationException, DestinationTerminalException
from dlt.common.exceptions import MissingDependencyException
from dlt.destinations.exceptions import DestinationConnectionError
from dlt.destinations.sql_client import SqlClientBase, raise_open_connection_error

from letters_source.config.installation import how_to_add_extra, how_to_install
from letters_source.destination.loading import STAGED
from letters_source.destination.local_files import ANOTHER_PATH
from letters_source.destination.place import Place
from letters_source.errors import DestinationError, DestinationUnreachable
from letters_source.wording import reason, root_cause

MISSING_EXTENSION = re.compile(r'Failed to download extension "(\w+)"')
# how PostgreSQL, MySQL, SQL Server and Snowflake refuse a user or a database, and psycopg2 an address
REFUSAL = re.compile(
    r"password|authentication failed|login failed|access denied|permission denied|pg_hba|does not exist|invalid dsn",
    re.IGNORECASE,
)


def check_capable(place: Place) -> None:
    """Check that a database has staging tables, SQL, and names that SQL finds unquoted, or raise `DestinationError`."""
    pipeline = place.pipeline
    if not pipeline.destination:
        raise DestinationError(
            f"The pipeline {pipeline.pipeline_name} has no destination: pass one to dlt, or use make_pipeline()."
        )
    name, capabilities = pipeline.destination.destination_name, pipeline.destination.capabilities()
    if STAGED not in (capabilities.supported_replace_strategies or ()):
        raise DestinationError(
            f"{name} has no staging tables, which run() needs to replace tables and to verify them with SQL",
            advice="choose another $destination, or load without verification: pipeline.run(letters()).",
        )
    if capabilities.casefold_identifier("a") == "A":
        naming = pipeline.naming
        if pipeline.destination.capabilities(naming=naming).casefold_identifier("a") != "A":
            raise DestinationError(
                f"{name} reads unquoted names in upper case, and the naming convention {naming.name()} creates "
                "them in lower case: set SCHEMA__NAMING to snake_case."
            )


def check_configured(place: Place, *, extra: str = "", library: str = "", is_path: bool = False) -> None:
    """Check that the libraries of a destination are installed, and that its credentials are set.

    `extra` is ours for the kind, `library` a module of an open table format; `is_path`: a wrong address is a path.
    """
    pipeline = place.pipeline
    engine = pipeline.destination.destination_type.rpartition(".")[2]
    try:
        if library:
            import_module(library)
        pipeline.destination_client()
    except MissingDependencyException as error:
        how = how_to_add_extra(extra) if extra else how_to_install(f"dlt[{engine}]")
        raise DestinationError(f"{place.name if library else engine} is not installed: {how}") from error
    except ConfigFieldMissingException as error:
        # the bucket of a destination that loads through one has settings of its own
        is_bucket = pipeline.staging and error.spec_name == pipeline.staging.spec.__name__
        lacking = pipeline.staging if is_bucket else pipeline.destination
        keys = ", ".join(setting(lacking, field) for field in error.fields)
        key = setting(lacking, error.fields[0])
        raise DestinationError(f"The destination {engine} is not configured: set {keys}.", key=key) from error
    except including_s3(ValueError) as error:
        is_path = is_path and isinstance(error, ValueError)
        key = "to" if is_path else setting(pipeline.destination)
        advice = ANOTHER_PATH if is_path else f"set {key}."
        raise DestinationError(f"The destination cannot be used: {reason(error)}", advice=advice, key=key) from error


def including_s3(error: type[Exception]) -> tuple[type[Exception], ...]:
    """Return a class of errors, and that of S3's library if it is in use: it raises its own for a missing profile."""
    library = sys.modules.get("botocore.exceptions")
    return (error, library.BotoCoreError) if library else (error,)


@contextmanager
def reachable(place: Place) -> Iterator[SqlClientBase[Any]]:
    """Open a database for further checks in the block, or raise if it is not reachable."""
    client, key = place.pipeline.sql_client(), setting(place.pipeline.destination)
    try:
        # dlt's PostgreSQL client does not translate its driver's errors
        raise_open_connection_error(type(client).open_connection)(client)
    except DestinationConnectionError as error:
        words = reason(driver_error(error))
        # psycopg2 quotes an invalid address, including its password
        cause = "its address is invalid" if words.startswith("invalid dsn") else words
        lacking = MISSING_EXTENSION.search(words)
        kind = DestinationError if lacking or REFUSAL.search(words) else DestinationUnreachable
        advice = f"run INSTALL {lacking[1]} in DuckDB once, with network access." if lacking else f"set {key}."
        raise kind(f"{place.address} cannot be reached: {cause}", advice=advice) from error
    try:
        yield client
    except DestinationException as error:
        kind = DestinationError if isinstance(error, DestinationTerminalException) else DestinationUnreachable
        raise kind(f"{place.address} cannot be checked: {reason(root_cause(error))}", advice=f"set {key}.") from error
    finally:
        client.close_connection()


def driver_error(error: DestinationConnectionError) -> Exception:
    """Return what the driver raised; clients that extend others of dlt's wrap it more than once."""
    inner: Exception = error.inner_exc
    return driver_error(inner) if isinstance(inner, DestinationConnectionError) else inner


def setting(destination: AnyDestination, field: str = "credentials") -> str:
    """Return the environment variable for a destination setting."""
    return f"DESTINATION__{destination.destination_name}__{field}".upper()
