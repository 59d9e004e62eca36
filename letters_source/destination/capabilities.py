"""What a database must be able to do for a verified load, and the file format it loads, by dlt's capabilities."""

import dlt
from dlt.common.destination import TLoaderFileFormat

from letters_source.destination.kinds import is_files
from letters_source.errors import DestinationError

STAGED = "insert-from-staging"
"""dlt's replace strategy that keeps a table's old rows until all new ones are in a staging dataset."""
FILE_FORMATS: dict[str, TLoaderFileFormat] = {
    # dlt's default there, CSV, would turn empty text into null
    "postgres": "insert_values",
    # dlt cannot load a JSON column from Parquet, its default there
    "bigquery": "jsonl",
}
"""The file formats of loads, by dlt's destination type, where dlt's default for Arrow tables cannot load our rows."""


def check_capable(pipeline: dlt.Pipeline) -> None:
    """Check that a database has staging tables, SQL, and names that SQL finds unquoted, or raise `DestinationError`."""
    if is_files(pipeline):
        return
    name, capabilities = pipeline.destination.destination_name, pipeline.destination.capabilities()
    if STAGED not in (capabilities.supported_replace_strategies or ()):
        raise DestinationError(
            f"{name} has no staging tables, which run() needs to replace tables and to verify them with SQL: choose "
            "another destination, or load without verification: pipeline.run(letters())."
        )
    if capabilities.casefold_identifier("a") == "A":
        check_upper_case(pipeline)


def check_upper_case(pipeline: dlt.Pipeline) -> None:
    """Check that names are created in the upper case in which the database reads them where they are not quoted."""
    name, naming = pipeline.destination.destination_name, pipeline.naming
    if pipeline.destination.capabilities(naming=naming).casefold_identifier("a") != "A":
        raise DestinationError(
            f"{name} reads unquoted names in upper case, and the naming convention {naming.name()} creates "
            "them in lower case: set SCHEMA__NAMING to snake_case."
        )
