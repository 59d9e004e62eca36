"""How dlt is told to load: settings that override all others, and a copy of its destination with our parameters."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.configuration.providers import CustomLoaderDocProvider
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.destination import AnyDestination

from letters_source.destination.place import Place

STAGED, TRUNCATED = "insert-from-staging", "truncate-and-insert"
"""dlt's replace strategies: the first keeps a table's old rows until all new ones are in a staging dataset."""


def load_config(place: Place) -> dict[str, Mapping[str, bool | int]]:
    """Return the dlt configuration that a load requires, by section."""
    return {"load": {"delete_completed_jobs": True, "raise_on_failed_jobs": True, **place.kind.load_settings()}}


class FirstProvider(CustomLoaderDocProvider):
    """A dlt configuration provider that `dlt.config[...] = value` does not write to."""

    is_writable = False


@contextmanager
def enforced(config: Mapping[str, object], pipeline_name: str) -> Iterator[None]:
    """Override environment variables and dlt's configuration files, for one pipeline, while the block runs."""
    # dlt has no arguments for these values, and looks up keys that begin with the pipeline's name first
    providers = Container()[PluggableRunContext].providers.providers
    provider = FirstProvider("letters_source", lambda: {pipeline_name: config}, supports_secrets=False)
    providers.insert(0, provider)
    try:
        yield
    finally:
        providers.remove(provider)


def with_parameters(
    destination: AnyDestination, strategy: str, ours: type[Any] | None = None, **changed: Any
) -> AnyDestination:
    """Return a copy of a dlt destination with a replace strategy and other changed parameters, maybe of our class."""
    parameters, capabilities = {**destination.config_params, **changed}, dict(destination.caps_params)
    if hasattr(destination.spec, "replace_strategy"):
        # a destination's parameters override all settings
        parameters["replace_strategy"] = strategy
    made: AnyDestination = ours(**parameters, **capabilities) if ours else copy(destination)
    made.config_params, made.caps_params = parameters, capabilities
    if made.capabilities().supports_ddl_transactions:
        capabilities.setdefault("supports_transactions", True)
        # TRUNCATE takes an ACCESS EXCLUSIVE lock in PostgreSQL, where older snapshots then see an empty table;
        # Redshift commits the transaction
        capabilities["supports_truncate_command"] = False
    return made
