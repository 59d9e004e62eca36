"""Names what someone made on our tables, such as keys and triggers, or changed, when it may have stopped a load."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import cast

from dlt.common.destination.exceptions import DestinationException
from dlt.destinations.job_client_impl import SqlJobClientWithStagingDataset

from letters_source.destination.error_translation import FOREIGN, failed_step
from letters_source.destination.place import ObstacleSearch, Place
from letters_source.destination.sql import fetch_rows
from letters_source.errors import LoadFailed
from letters_source.tables import TABLES, VALID_FROM
from letters_source.wording import reason, root_cause

REFUSALS = {"IntegrityError", "ProgrammingError", "InternalError", "ObjectNotInPrerequisiteState"}
"""Errors of databases that depend on what is there (PEP 249, and PostgreSQL's for a view)."""
MISSING = {"CatalogException", "BinderException", "UndefinedTable", "UndefinedColumn"}
"""Errors of DuckDB and PostgreSQL about a table or column that does not exist."""
MISFITS = {"BinderException", "ConversionException", "UndefinedFunction", "DatatypeMismatch", "DataError"}
"""Errors of DuckDB and PostgreSQL about a value or a comparison that does not fit a column's type."""
LOST_LOCK = "DivisionByZero"
"""The error of the statement that checks PostgreSQL's lock."""
SILENT = {"trigger", "rule", "row security"}
"""What can leave out rows without an error."""
KEYS = {table.name: {*table.key, VALID_FROM} for table in TABLES}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A key, a trigger or the like on one of our tables."""

    kind: str
    name: str
    schema: str
    table: str

    @property
    def shown(self) -> str:
        """The words for messages."""
        return f"the {self.kind} {self.name} on {self.schema}.{self.table}"


@contextmanager
def obstacles_named(place: Place, tables: Collection[str]) -> Iterator[None]:
    """Raise `LoadFailed` that also names what may have stopped the load of tables in the block, if there is such."""
    search = place.kind.obstacles
    if not search:
        yield
        return
    try:
        yield
    except LoadFailed as error:
        if error.table and (found := [each for each in find_obstacles(place, search, tables) if each.kind in SILENT]):
            what = error.what.removesuffix("; load again.")
            raise named(search, what, found, error) from error
        raise
    except FOREIGN as error:
        if explained := explain(place, search, tables, error):
            raise explained from error
        raise


def explain(place: Place, search: ObstacleSearch, tables: Collection[str], error: Exception) -> LoadFailed | None:
    """Return an error that names what someone dropped, changed or made on tables, if it may have stopped a load."""
    cause, step = root_cause(error), failed_step(error)
    kinds = {base.__name__ for base in type(cause).__mro__}
    is_misfit = bool(kinds & MISFITS) and LOST_LOCK not in kinds
    lost, retyped = find_changed(place, tables) if kinds & MISSING or is_misfit else (set[str](), set[str]())
    if kinds & MISSING and lost:
        return lacking(place, lost, step)
    if is_misfit and retyped:
        return LoadFailed(
            f"{step}the dataset {place.dataset} has {', '.join(sorted(retyped))}",
            advice="change the type back, or choose another $dataset.",
        )
    if step and kinds & REFUSALS and (found := concerned(find_obstacles(place, search, tables), cause)):
        return named(search, f"{step}{reason(cause)}", found)
    return None


def check_whole(place: Place, tables: Collection[str]) -> None:
    """Raise `LoadFailed` if a dataset lacks tables that were loaded, or columns of them.

    dlt may make them again, but rows that did not change would not be written again.
    """
    lost = find_changed(place, tables)[0] if place.kind.obstacles else None
    if lost:
        raise lacking(place, lost)


def lacking(place: Place, lost: Collection[str], step: str = "") -> LoadFailed:
    """Return the error that names tables and columns that someone dropped."""
    return LoadFailed(
        f"{step}the dataset {place.dataset} lacks {', '.join(sorted(lost))}, which earlier loads made",
        advice="bring it back from a copy, or choose another $dataset.",
    )


def named(search: ObstacleSearch, what: str, found: list[Obstacle], error: LoadFailed | None = None) -> LoadFailed:
    """Return the error that names obstacles, with the data of another."""
    return LoadFailed(
        f"{what}, probably because of {', '.join(each.shown for each in found)}",
        advice=f"{search.advice}, and load again.",
        table=error.table if error else None,
        counts=error.counts if error else None,
    )


def concerned(found: list[Obstacle], cause: BaseException) -> list[Obstacle]:
    """Return the obstacles that PostgreSQL names in its error; all where it names none."""
    details = getattr(cause, "diag", None)
    names = {getattr(details, name, None) for name in ("constraint_name", "column_name")}
    return [each for each in found if each.name in names] or found


def find_obstacles(place: Place, search: ObstacleSearch, tables: Collection[str]) -> list[Obstacle]:
    """Return what is on the tables, in the dataset and its staging, that loads did not make; nothing if unknown."""
    found: list[Obstacle] = []
    with suppress(DestinationException), place.pipeline.sql_client() as client:
        rows = fetch_rows(client, search.query, client.dataset_name, client.staging_dataset_name)
        found = [Obstacle(*row) for row in rows]
    return [each for each in found if each.table in tables and not is_required(place, each)]


def find_changed(place: Place, tables: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the tables and columns that dlt trusts to exist and that do not, and the columns with another type."""
    schema, lost, retyped = place.pipeline.default_schema, set[str](), set[str]()
    client = cast("SqlJobClientWithStagingDataset", place.pipeline.destination_client())
    with suppress(DestinationException), client:
        stored = client.get_stored_schema(schema.name)
        # a load that failed before it changed the dataset has left columns in the schema here alone
        recorded = json.loads(stored.schema)["tables"] if stored else schema.tables
        for name, columns in client.get_storage_tables([*tables, schema.loads_table_name]):
            made = recorded.get(name, {}).get("columns", {}).keys() & schema.get_table_columns(name).keys()
            # a table without columns does not exist
            lost |= {f"{name}.{column}" if columns else name for column in made - columns.keys()}
            for column in made & columns.keys():
                now, then = columns[column]["data_type"], schema.get_table_columns(name)[column]["data_type"]
                retyped |= {f"{name}.{column} as {now}, not {then}"} if now != then else set()
    return lost, retyped


def is_required(place: Place, obstacle: Obstacle) -> bool:
    """Return whether an obstacle is a column that loads always fill."""
    if obstacle.kind != "NOT NULL column":
        return False
    # a table that was never loaded has no columns there
    columns = place.pipeline.default_schema.tables.get(obstacle.table, {}).get("columns", {})
    return obstacle.name in KEYS[obstacle.table] or not columns.get(obstacle.name, {}).get("nullable", True)
