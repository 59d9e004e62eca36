"""dlt's DuckDB and PostgreSQL destinations, subclassed so that all tables commit in one transaction."""

from copy import copy
from functools import cache
from typing import Any

import dlt
from dlt.common.destination import Destination
from dlt.destinations import duckdb, postgres
from typing_extensions import override

from letters_source.errors import DestinationError

DLT_RELEASE = "1.31"
"""The release of dlt whose classes ours override."""


class Engine(Destination[Any, Any]):
    """What is mixed into dlt's destination for a database."""

    @override
    def capabilities(self, config: Any = None, naming: Any = None) -> Any:
        """What the database can do: whatever its configuration, which dlt would resolve each time that it asks."""
        return super().capabilities(config or self.spec(), naming)

    @property
    @override
    def client_class(self) -> Any:
        """dlt's client, but all tables of a load change together, and what was dropped is made again."""
        # they bring half of dlt along, which commands that load nothing need not wait for
        from letters_source.destination.dlt_hooks import Restored, Together

        base: Any = super()
        return with_mixins(base.client_class, Restored, Together)


class DuckDB(Engine, duckdb):
    """dlt's duckdb, whose tables change together, and which writes as fits the rows."""

    destination_type = "dlt.destinations.duckdb"

    @property
    @override
    def client_class(self) -> Any:
        """The same, and how DuckDB writes fits the rows."""
        from letters_source.destination.dlt_hooks import Fitted

        return with_mixins(super().client_class, Fitted)


class Postgres(Engine, postgres):
    """dlt's postgres, whose tables change together."""

    destination_type = "dlt.destinations.postgres"

    @override
    def capabilities(self, config: Any = None, naming: Any = None) -> Any:
        """The same, but tables are emptied by DELETE.

        TRUNCATE takes an ACCESS EXCLUSIVE lock and is not MVCC-safe: older snapshots see an empty table.
        """
        found = super().capabilities(config, naming)
        found.supports_truncate_command = False
        return found

    @property
    @override
    def client_class(self) -> Any:
        """The same, and nothing changes once the lock of the dataset is lost."""
        from letters_source.destination.dlt_hooks import Guarded

        return with_mixins(super().client_class, Guarded)


OURS: dict[Any, Any] = {duckdb: DuckDB, postgres: Postgres}


def for_loading(destination: Any, replace_strategy: str) -> Any:
    """dlt's destination as a load needs it: all tables of DuckDB and PostgreSQL change in one transaction.

    In others each table does, wherever dlt knows of transactions for schemas. By default dlt 1.31 can leave a table
    empty after a crash, even in these two.

    Args:
        destination: the pipeline's.
        replace_strategy: dlt's; as a parameter of the destination, no setting outranks it.

    Raises:
        DestinationError: a release of dlt has no method of a name that we override.
    """
    parameters = dict(destination.config_params)
    if hasattr(destination.spec, "replace_strategy"):
        parameters["replace_strategy"] = replace_strategy
    if ours := OURS.get(type(destination)):
        check_overridden(type(destination), Engine, ours)
        configured = ours(**parameters, **destination.caps_params)
    else:
        configured = copy(destination)
        configured.config_params, configured.caps_params = parameters, dict(destination.caps_params)
    if configured.capabilities().supports_ddl_transactions:
        configured.caps_params.setdefault("supports_transactions", True)
    return configured


@cache
def with_mixins(client: type[Any], *mixins: type[Any]) -> type[Any]:
    """A client of dlt's for a database, with ours mixed in.

    Raises:
        DestinationError: a release of dlt has no method of a name that we override.
    """
    check_overridden(client, *mixins)
    return type(client.__name__, (*mixins, client), {})


def check_overridden(base: type[Any], *overriding: type[Any]) -> None:
    """See that a class of dlt's has every method that ours mark with `override`: another would never be called.

    Raises:
        DestinationError: it lacks one.
    """
    for each in overriding:
        for name, value in vars(each).items():
            if getattr(getattr(value, "fget", value), "__override__", False) and not hasattr(base, name):
                raise DestinationError(
                    f"dlt {dlt.__version__} has no {base.__name__}.{name}, which a load depends on; "
                    f"install dlt {DLT_RELEASE}: pip install 'dlt=={DLT_RELEASE}.*'."
                )
