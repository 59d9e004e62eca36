"""DuckDB: one file, which one process at a time can write; readers get a copy."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import dlt
import pyarrow.parquet as pq
from dlt.common.destination import AnyDestination
from dlt.common.destination.exceptions import DestinationException
from dlt.destinations.impl.duckdb.configuration import DuckDbCredentials
from dlt.destinations.sql_client import SqlClientBase

from letters_source.destination import other
from letters_source.destination.account_views import create_account_views
from letters_source.destination.annotate import adopt_and_describe
from letters_source.destination.audits import audited_schemas
from letters_source.destination.cleanup import drop_empty_staging, restore_tables
from letters_source.destination.dlt_hooks import DuckDB
from letters_source.destination.duckdb_file import check_duckdb, create_duckdb, discard_duckdb
from letters_source.destination.loading import STAGED, TRUNCATED, with_parameters
from letters_source.destination.locking import when_free
from letters_source.destination.pipeline import DUCKDB_CONFIG, MEMORY_MB
from letters_source.destination.place import Held, ObstacleSearch, Place, Written
from letters_source.destination.publish import check_published, publish_copy
from letters_source.destination.sql import fetch_rows
from letters_source.errors import LoadFailed
from letters_source.results import Audit
from letters_source.tables import VALID_FROM, VALID_TO, Table
from letters_source.transform.row_hash import ROW_HASH

# rows up to this size in Parquet fit into the usual limit, in any number
SMALL_ROW_BYTES = 640
# and rows up to this size into this limit
MIDDLE_ROW_BYTES, MIDDLE_MEMORY_MB = 1024, 120
# DuckDB buffers a row group before it writes it
ROW_GROUP = 122_880
# memory for large rows, as a multiple of their size: measured 3 for rows of 20 kB, 8 for rows of 4 MB
TIMES = 8
# each row: table, column (empty for the table itself), comment
FIND_COMMENTS = """
    SELECT table_name, '', comment FROM duckdb_tables() WHERE schema_name = %s
    UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() WHERE schema_name = %s
"""
FIND_OBSTACLES = """
    WITH found(kind, name, place, relation) AS (
        SELECT 'unique index', index_name, schema_name, table_name FROM duckdb_indexes() WHERE is_unique
        UNION ALL SELECT 'constraint', constraint_text, schema_name, table_name FROM duckdb_constraints()
        WHERE constraint_type NOT IN ('NOT NULL', 'FOREIGN KEY')
        UNION ALL SELECT 'foreign key of', table_name, schema_name, referenced_table FROM duckdb_constraints()
        WHERE constraint_type = 'FOREIGN KEY'
        UNION ALL SELECT 'NOT NULL column', column_name, schema_name, table_name FROM duckdb_columns()
        WHERE NOT is_nullable AND column_default IS NULL
        UNION ALL SELECT 'view', view_name, schema_name, view_name FROM duckdb_views()
    ) SELECT * FROM found WHERE place IN (%s, %s) ORDER BY ALL
"""

has_schema_metadata = False
obstacles: ObstacleSearch | None = ObstacleSearch(
    FIND_OBSTACLES, "drop it, or create its table again without it (CREATE OR REPLACE TABLE ... AS FROM ...)"
)
clean_up = other.clean_up
restore = restore_tables
file_format = other.file_format
load_settings = other.load_settings
open_sql = other.open_sql
find_audits = audited_schemas
check_copy = check_published
publish = publish_copy
combine = create_account_views


def check(place: Place) -> None:
    """Check that the file is writable, or that it can be created."""
    if place.path:
        check_duckdb(place.path)
    else:
        other.check(place)


@contextmanager
def lock(place: Place, wait: float) -> Iterator[Held]:
    """Keep a connection to the file while the block runs; if it fails, remove a new file.

    Other processes cannot open the file then, and DuckDB runs no checkpoint each time dlt closes a connection, a third
    of the time of a small load.
    """
    file = place.path
    if file is None:
        yield Held()
        return
    is_new = not os.path.exists(file)
    # DuckDB imports pytz for its first zoned timestamp; an interrupt there would be reported as a missing pytz
    import_module("pytz")
    client = place.pipeline.sql_client()
    if is_new:
        create_duckdb(file)
    # do not wait for a file that another load has just created: it would be taken for a new one
    when_free(client.open_connection, 0 if is_new else wait)
    try:
        yield Held(is_new)
    except BaseException:
        # removing it is safe only while we hold its lock, and if no other pipeline wrote to it
        if is_new and not holds_others(place):
            discard_duckdb(file)
        raise
    else:
        if not os.path.exists(file):
            raise LoadFailed(f"{file} was removed during the load; load again.")
    finally:
        client.close_connection()


def holds_others(place: Place) -> bool:
    """Return whether an open DuckDB file has tables of other datasets: concurrent loads in one process share it."""
    query = "SELECT DISTINCT schema_name FROM duckdb_tables() WHERE database_name = current_database()"
    try:
        with place.pipeline.sql_client() as client:
            held = {schema for (schema,) in fetch_rows(client, query)}
    except DestinationException as error:
        # "invalidated": DuckDB has closed the file for all its connections
        return "invalidated" not in str(error)
    return not held <= {client.dataset_name, client.staging_dataset_name}


def loading(place: Place, held: Held) -> AnyDestination:
    """Load in one transaction, with memory for the package's rows."""
    destination, changed = place.pipeline.destination, {}
    credentials = destination.config_params.get("credentials")
    # the user may have configured DuckDB
    if isinstance(credentials, DuckDbCredentials) and credentials.global_config == DUCKDB_CONFIG:
        changed["credentials"] = credentials.copy()
        memory = memory_for(package_files(place))
        changed["credentials"].global_config = {**DUCKDB_CONFIG, "memory_limit": f"{memory}MB"}
    ours = DuckDB if type(destination) is dlt.destinations.duckdb else None
    # a new file has no old rows to keep, and staging would write every row twice
    made = with_parameters(destination, TRUNCATED if held.is_new else STAGED, ours, **changed)
    if isinstance(made, DuckDB):
        made.held = held
    return made


def memory_for(files: Iterable[pq.FileMetaData]) -> int:
    """Return DuckDB's memory limit in megabytes for loading Parquet files; large rows raise it."""
    files = [*files]
    if not excess_mb(files, SMALL_ROW_BYTES):
        return MEMORY_MB
    return MIDDLE_MEMORY_MB + TIMES * excess_mb(files, MIDDLE_ROW_BYTES)


def excess_mb(files: Iterable[pq.FileMetaData], row_bytes: int) -> int:
    """Return by how many megabytes the rows that DuckDB buffers from files exceed rows of a size."""
    return sum(excess_bytes(file, row_bytes) for file in files) // 10**6


def excess_bytes(file: pq.FileMetaData, row_bytes: int) -> int:
    """Return by how many bytes the rows that DuckDB buffers from a file exceed rows of a size."""
    size = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
    large = max(0, size - row_bytes * file.num_rows)
    return int(large * ROW_GROUP // max(ROW_GROUP, file.num_rows))


def package_files(place: Place) -> Iterator[pq.FileMetaData]:
    """Return the metadata of the Parquet files that are ready to load."""
    for load_id in place.pipeline.list_normalized_load_packages():
        for job in place.pipeline.get_load_package_info(load_id).jobs["new_jobs"]:
            if job.job_file_info.file_format == "parquet":
                yield pq.read_metadata(job.file_path)


def writes_changes(place: Place) -> bool:
    """Return whether the destination is ours, or dlt's own, which is made ours: it changes all tables at once."""
    return type(place.pipeline.destination) in (dlt.destinations.duckdb, DuckDB)


def verify(client: SqlClientBase[Any], written: Written) -> tuple[Audit, ...]:
    """Verify as for any database, without an empty staging schema."""
    drop_empty_staging(client)
    return other.verify(client, written)


def annotate(_place: Place, client: SqlClientBase[Any], written: Written, audits: Sequence[Audit]) -> None:
    """Add comments, and with history views of current rows."""
    adopt_and_describe(client, written, audits, FIND_COMMENTS)
    if any(audit["mode"] == "history" for audit in audits):
        create_current_views(client, (table for table in written.tables if table.key and table.origin != "dates"))


def create_current_views(client: SqlClientBase[Any], tables: Iterable[Table]) -> None:
    """Create a view `<table>_current` for each table with history: its current rows, without the SCD2 columns."""
    for table in tables:
        view, name = (client.make_qualified_table_name(each) for each in (f"{table.name}_current", table.name))
        client.execute_sql(
            f"CREATE OR REPLACE VIEW {view} AS SELECT * EXCLUDE ({ROW_HASH.name}, {VALID_FROM}, {VALID_TO}) "
            f"FROM {name} WHERE {VALID_TO} IS NULL"
        )


def example_code(place: Place, contacts: str, query: str) -> str:
    """Return a query with the module duckdb."""
    rows = f'duckdb.connect({json.dumps(str(place.address))}).sql("from {place.dataset}.{contacts} {query}")'
    return f"import duckdb; {rows}.show()"
