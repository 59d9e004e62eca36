"""How does dlt load into DuckDB and PostgreSQL? With its own destinations, and a hand of ours in them."""

from copy import copy
from functools import cache
from typing import Any

import dlt
from dlt.common.destination import Destination
from dlt.destinations import duckdb, postgres

from letters_source.errors import DestinationError

KNOWN = "1.31"
"""The release of dlt whose clients ours are mixed into."""


class Engine(Destination[Any, Any]):
    """What is mixed into dlt's destination for a database."""

    def capabilities(self, config: Any = None, naming: Any = None) -> Any:
        """What the database can do: whatever its configuration, which dlt would resolve each time that it asks."""
        return super().capabilities(config or self.spec(), naming)

    @property
    def client_class(self) -> Any:
        """dlt's client, but all tables of a load change together, and what was dropped is made again."""
        # they bring half of dlt along, which commands that load nothing need not wait for
        from letters_source.destination.restored import Restored
        from letters_source.destination.together import Together

        base: Any = super()
        return with_mixins(base.client_class, Restored, Together)


class DuckDB(Engine, duckdb):
    """dlt's duckdb, whose tables change together, and which writes as fits the rows."""

    destination_type = "dlt.destinations.duckdb"

    @property
    def client_class(self) -> Any:
        """The same, and how DuckDB writes fits the rows."""
        from letters_source.destination.writing import Fitted

        return with_mixins(super().client_class, Fitted)


class Postgres(Engine, postgres):
    """dlt's postgres, whose tables change together."""

    destination_type = "dlt.destinations.postgres"

    def capabilities(self, config: Any = None, naming: Any = None) -> Any:
        """The same, but tables are emptied by DELETE: for TRUNCATE a load waits until nobody reads.

        All who come later wait behind it, and who has a snapshot of before finds a table empty.
        """
        found = super().capabilities(config, naming)
        found.supports_truncate_command = False
        return found

    @property
    def client_class(self) -> Any:
        """The same, and nothing changes once the lock of the dataset is lost."""
        from letters_source.destination.guarded import Guarded

        return with_mixins(super().client_class, Guarded)


OURS: dict[Any, Any] = {duckdb: DuckDB, postgres: Postgres}


def for_loading(destination: Any, replace_strategy: str) -> Any:
    """dlt's destination as a load needs it: all tables of DuckDB and PostgreSQL change in one transaction.

    In others each table does, wherever dlt knows of transactions for schemas. Left to itself, dlt 1.31 would let
    whoever looks after a crash see an empty table even in these two.

    Args:
        destination: the pipeline's.
        replace_strategy: dlt's; as a parameter of the destination, no setting outranks it.
    """
    parameters = dict(destination.config_params)
    if hasattr(destination.spec, "replace_strategy"):
        parameters["replace_strategy"] = replace_strategy
    loading = copy(destination)
    loading.config_params, loading.caps_params = parameters, dict(destination.caps_params)
    if ours := OURS.get(type(destination)):
        loading = ours(**parameters, **destination.caps_params)
    if loading.capabilities().supports_ddl_transactions:
        loading.caps_params.setdefault("supports_transactions", True)
    return loading


@cache
def with_mixins(client: type[Any], *mixins: type[Any]) -> type[Any]:
    """A client of dlt's for a database, with ours mixed in.

    Raises:
        DestinationError: a release of dlt has no method of a name that we override: it would never be called.
    """
    for mixin in mixins:
        for name in overridden(mixin):
            if not hasattr(client, name):
                raise DestinationError(
                    f"dlt {dlt.__version__} has no {client.__name__}.{name}, which a load depends on; "
                    f"install dlt {KNOWN}: pip install 'dlt=={KNOWN}.*'."
                )
    return type(client.__name__, (*mixins, client), {})


def overridden(mixin: type[Any]) -> list[str]:
    """The names of dlt's methods that a class of ours overrides, which it marks with `override`."""
    return [name for name, value in vars(mixin).items() if getattr(value, "__override__", False)]
