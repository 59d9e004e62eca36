"""Names what someone made on our tables, such as keys and triggers, or changed, when it may have stopped a load."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dlt.common.destination.exceptions import DestinationException

from letters_source.destination.error_translation import FOREIGN, step_prefix
from letters_source.destination.loaded_columns import dropped, lacking, loaded_columns, retyped
from letters_source.destination.place import ObstacleSearch, Place
from letters_source.destination.sql import fetch_rows
from letters_source.errors import DestinationError, LettersError, LoadFailed
from letters_source.tables import TABLES, VALID_FROM
from letters_source.wording import reason, root_cause

REFUSALS = {"IntegrityError", "ProgrammingError", "InternalError", "ObjectNotInPrerequisiteState"}
"""Errors of databases that depend on what is there (PEP 249, and PostgreSQL's for a view)."""
MISSING = {"CatalogException", "BinderException", "UndefinedTable", "UndefinedColumn"}
"""Errors of DuckDB and PostgreSQL about a table or column that does not exist."""
MISFITS = {
    "BinderException", "ConversionException", "UndefinedFunction", "DatatypeMismatch", "InvalidTextRepresentation",
    "NumericValueOutOfRange", "StringDataRightTruncation", "InvalidDatetimeFormat", "DatetimeFieldOverflow",
}  # fmt: skip
"""Errors of DuckDB and PostgreSQL about a value or a comparison that does not fit a column's type."""
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
    """Raise an error that also names what may have stopped the load of tables in the block, if there is such."""
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


def explain(place: Place, search: ObstacleSearch, tables: Collection[str], error: Exception) -> LettersError | None:
    """Return an error that names what someone dropped, changed or made on tables, if it may have stopped a load."""
    cause, step = root_cause(error), step_prefix(error)
    kinds = {base.__name__ for base in type(cause).__mro__}
    if kinds & (MISSING | MISFITS) and place.pipeline.default_schema_name:
        found = loaded_columns(place, place.pipeline.default_schema, tables)
        if kinds & MISSING and (lost := dropped(found)):
            return lacking(place, lost, step)
        if kinds & MISFITS and (others := retyped(found)):
            return DestinationError(
                f"{step}the dataset {place.dataset} has {', '.join(others)}",
                advice="change the type back, or choose another $dataset.",
            )
    if step and kinds & REFUSALS and (obstacles := concerned(find_obstacles(place, search, tables), cause)):
        return named(search, f"{step}{reason(cause)}", obstacles)
    return None


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


def is_required(place: Place, obstacle: Obstacle) -> bool:
    """Return whether an obstacle is a column that loads always fill."""
    if obstacle.kind != "NOT NULL column":
        return False
    # a table that was never loaded has no columns there
    columns = place.pipeline.default_schema.tables.get(obstacle.table, {}).get("columns", {})
    return obstacle.name in KEYS[obstacle.table] or not columns.get(obstacle.name, {}).get("nullable", True)
