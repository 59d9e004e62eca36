"""PostgreSQL: a dataset is a schema, locked across machines; all tables of a load change in one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import dlt
from dlt.common.destination import AnyDestination, TLoaderFileFormat
from dlt.common.destination.exceptions import DestinationException
from dlt.common.schema import Schema
from dlt.destinations.sql_client import SqlClientBase
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.destination import other
from letters_source.destination.annotate import adopt_and_describe
from letters_source.destination.audits import audited_schemas
from letters_source.destination.cleanup import restore_tables
from letters_source.destination.dlt_hooks import Postgres
from letters_source.destination.loading import STAGED, with_parameters
from letters_source.destination.locking import patiently
from letters_source.destination.place import Held, ObstacleSearch, Place, Written
from letters_source.destination.preflight import check_configured, reachable, setting
from letters_source.destination.sql import fetch_rows
from letters_source.errors import DestinationError, DestinationInUse, LoadFailed
from letters_source.results import Audit
from letters_source.tables import VALID_FROM, Table
from letters_source.wording import causes

# foreign keys that change other tables when rows of a dataset are deleted: cascade, set null, set default
FOLLOWING_KEYS = """
    SELECT conname, conrelid::regclass::text FROM pg_constraint JOIN pg_class ON pg_class.oid = confrelid
    WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd') AND relnamespace = to_regnamespace(quote_ident(%s))
"""
# transaction_timeout exists since PostgreSQL 17
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
# each row: table, column (empty for the table itself), comment
FIND_COMMENTS = """
    SELECT relname, '', obj_description(oid) FROM pg_class WHERE relnamespace = to_regnamespace(%s)
    UNION ALL SELECT relname, attname, col_description(attrelid, attnum)
    FROM pg_attribute JOIN pg_class ON oid = attrelid WHERE relnamespace = to_regnamespace(%s)
"""
FIND_KEYS = """
    SELECT table_name FROM information_schema.table_constraints
    WHERE table_schema = %s AND constraint_type = 'PRIMARY KEY'
"""
FIND_OBSTACLES = """
    SELECT kind, name::text, nspname::text, relname::text FROM (
        SELECT 'unique index' AS kind, relname AS name, indrelid AS on_oid FROM pg_index
        JOIN pg_class ON pg_class.oid = indexrelid WHERE indisunique AND NOT indisprimary
        UNION ALL SELECT 'constraint', conname, conrelid FROM pg_constraint WHERE contype IN ('c', 'f', 'x')
        UNION ALL SELECT 'foreign key', conname, confrelid FROM pg_constraint WHERE contype = 'f'
        UNION ALL SELECT 'trigger', tgname, tgrelid FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL SELECT 'rule', rulename, ev_class FROM pg_rewrite WHERE rulename <> '_RETURN'
        UNION ALL SELECT 'row security', polname, polrelid FROM pg_policy
        UNION ALL SELECT 'NOT NULL column', attname, attrelid FROM pg_attribute
        WHERE attnotnull AND NOT atthasdef AND attnum > 0
        UNION ALL SELECT 'view', relname, oid FROM pg_class WHERE relkind IN ('v', 'm')
    ) AS found JOIN pg_class ON pg_class.oid = on_oid JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname IN (%s, %s) ORDER BY 3, 4, 1, 2
"""

has_schema_metadata = False
obstacles: ObstacleSearch | None = ObstacleSearch(
    FIND_OBSTACLES, "drop it, or make a foreign key DEFERRABLE INITIALLY DEFERRED"
)
clean_up = other.clean_up
restore = restore_tables
open_sql = other.open_sql
find_audits = audited_schemas
verify = other.verify
check_copy = other.check_copy
publish = other.publish
combine = other.combine
example_code = other.example_code


def check(place: Place) -> None:
    """Check that the database is reachable and its schemas are writable."""
    check_configured(place, extra="postgres")
    with reachable(place) as client:
        check_rights(place, client)


def check_rights(place: Place, client: SqlClientBase[Any]) -> None:
    """Check that a database and its schemas are writable, and that no foreign key changes other tables."""
    key = setting(place.pipeline.destination)
    [[read_only, may_create]] = fetch_rows(
        client,
        "SELECT current_setting('transaction_read_only') = 'on', has_database_privilege(current_database(), 'CREATE')",
    )
    if read_only:
        raise DestinationError(f"{place.address} is read-only; set {key} to a writable server.", key=key)
    if keys := fetch_rows(client, FOLLOWING_KEYS, client.dataset_name):
        names = ", ".join(f"{name} of {table}" for name, table in keys)
        raise DestinationError(
            f"{place.address}: a load would delete or change rows through the foreign key {names}: "
            "make it ON DELETE NO ACTION, DEFERRABLE INITIALLY DEFERRED."
        )
    there = dict(fetch_rows(client, "SELECT nspname, has_schema_privilege(oid, 'USAGE') FROM pg_namespace"))
    schemas = {client.dataset_name, client.staging_dataset_name}
    if lacking := " and ".join(sorted(name for name in schemas if not there.get(name, may_create))):
        raise DestinationError(
            f"{place.address}: the user can neither use nor create {lacking}: create these schemas for the "
            "user, or grant CREATE on the database."
        )


@contextmanager
def lock(place: Place, wait: float) -> Iterator[Held]:
    """Lock the dataset while the block runs: loads from several machines would share its staging schema.

    An otherwise idle transaction holds an advisory lock; the server releases it when the connection ends, also behind
    a connection pooler.
    """
    with place.pipeline.sql_client() as client:
        # no idle timeout may end the transaction, but keepalives end it soon after the client machine is gone
        for statement in ("BEGIN", NO_TIMEOUTS, "SET LOCAL tcp_keepalives_idle = 60"):
            client.execute_sql(statement)
        backend = patiently(partial(take_dataset, client), wait)
        with loss_reported(client):
            # divides by zero unless that server process holds an advisory lock
            query = f"SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend};"
            yield Held(lock_check=query)


def take_dataset(client: SqlClientBase[Any]) -> int:
    """Lock the dataset of a client and return the id of the server process that holds the lock, or raise."""
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)), pg_backend_pid()"
    [[taken, backend]] = fetch_rows(client, query, f"letters_source {client.dataset_name}")
    if not taken:
        raise DestinationInUse(f"A load into the dataset {client.dataset_name} is already running")
    return int(backend)


@contextmanager
def loss_reported(client: SqlClientBase[Any]) -> Iterator[None]:
    """Raise `LoadFailed` if the database fails in the block and the lock's connection was lost."""
    try:
        yield
    except (PipelineStepFailed, DestinationException) as error:
        if any(isinstance(cause, DestinationException) for cause in causes(error)):
            try:
                client.execute_sql("SELECT 1")
            except DestinationException:
                raise LoadFailed(
                    f"The PostgreSQL connection that held the lock on the dataset {client.dataset_name} was lost "
                    "(server restart, network, or a limit on idle transactions); load again."
                ) from error
        raise


def file_format(_place: Place) -> TLoaderFileFormat:
    """Return INSERT statements: dlt's default, CSV, would turn empty text into null."""
    return "insert_values"


def load_settings() -> Mapping[str, bool | int]:
    """Load in one job at a time, without a second try."""
    # a job whose connection broke may have committed: a retry would load its rows twice; parallel jobs can exceed the
    # server's connection limit
    return {**other.load_settings(), "raise_on_max_retries": 1, "workers": 1}


def loading(place: Place, held: Held) -> AnyDestination:
    """Load in one transaction, which ends with the check of the lock."""
    destination = place.pipeline.destination
    ours = Postgres if type(destination) is dlt.destinations.postgres else None
    made = with_parameters(destination, STAGED, ours)
    if isinstance(made, Postgres):
        made.held = held
    return made


def writes_changes(place: Place) -> bool:
    """Return whether the destination is ours, or dlt's own, which is made ours: it changes all tables at once."""
    return type(place.pipeline.destination) in (dlt.destinations.postgres, Postgres)


def annotate(place: Place, client: SqlClientBase[Any], written: Written, audits: Sequence[Audit]) -> None:
    """Add comments and primary keys."""
    adopt_and_describe(client, written, audits, FIND_COMMENTS)
    create_keys(client, place.pipeline.default_schema, written.tables)


def create_keys(client: SqlClientBase[Any], schema: Schema, tables: Iterable[Table]) -> None:
    """Create missing primary keys; for other destinations, only dlt's schema records them."""
    found = fetch_rows(client, FIND_KEYS, client.dataset_name)
    present = {name for [name] in found}
    for table in tables:
        if table.key and table.name not in present:
            versions = [VALID_FROM] if VALID_FROM in schema.get_table_columns(table.name) else []
            names = ", ".join(map(client.escape_column_name, [*table.key, *versions]))
            client.execute_sql(f"ALTER TABLE {client.make_qualified_table_name(table.name)} ADD PRIMARY KEY ({names})")
