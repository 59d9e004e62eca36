"""How does a load run as an Airflow task: whose settings, which failures, what do other DAGs hear of it?

Imported by DAG files, so nothing here does more than define until a task calls it.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from letters_source.errors import LettersError, SettingsError
from letters_source.extras import needed

with needed("airflow"):
    from airflow.sdk import Asset, Connection, get_current_context
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

if TYPE_CHECKING:
    import dlt
    from dlt.extract.incremental.context import TimeIntervalContext

    from letters_source.load import Result

logger = logging.getLogger("letters_source")

CONNECTION = "letters_default"
GROUP = "letters"
"""The group of our assets, and the tag of our DAGs."""
DESCRIPTIONS = {
    "letters_contacts": "The tables contacts and contacts__contact_labels.",
    "letters_templates": "The tables templates, templates__creator and templates__product.",
    "letters_audit": "The tables listing_audit and rejected_rows.",
    "letters_accounts": "The file that unites accounts; it has an event for each account.",
}
CONTACTS, TEMPLATES, AUDIT, UNITED = (
    # no URI: where the tables lie is a parameter of each run
    Asset(name, group=GROUP, extra={"description": description})
    for name, description in DESCRIPTIONS.items()
)
ASSETS = [CONTACTS, TEMPLATES, AUDIT]
"""What `letters` updates, a group of tables each; an event's extra is as `extra_of` makes it."""


def load_task(make: "Callable[[], dlt.Pipeline]", **settings: Any) -> "Result":
    """Load as `run` does, in a task, with what Airflow has for it.

    Args:
        make: makes the pipeline to load with.
        **settings: as for `run`; they go before those of the connection.

    Raises:
        AirflowFailException: trying again cannot help; the message is the error's line.
        AirflowException: it can.
    """
    from dlt.common.configuration.container import Container

    from letters_source.load import run

    ask_for_sections_alone()
    with airflow_failures(), Container().injectable_context(scheduled_days(get_current_context())):
        return run(make(), **{**connection_settings(), **settings})


def ask_for_sections_alone() -> None:
    """Let dlt ask Airflow for variables that hold sections of settings, such as `dlt_secrets_toml`.

    It would ask for one for each setting it knows, too: 672 requests a load rather than 36.
    """
    from dlt.common.configuration.container import Container
    from dlt.common.configuration.specs import PluggableRunContext

    os.environ.setdefault("PROVIDERS__AIRFLOW_SECRETS__ONLY_TOML_FRAGMENTS", "true")
    Container()[PluggableRunContext].reload_providers()


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise our errors as Airflow's, which retry or fail, and log the reason as one ERROR line.

    Raises:
        AirflowFailException: trying again cannot help.
        AirflowException: it can: the service is away, or a file is in use.
    """
    try:
        yield
    except LettersError as error:
        logger.error("%s", error)
        raise (AirflowException if error.may_pass else AirflowFailException)(str(error)) from None


def connection_settings() -> dict[str, Any]:
    """The settings in the Airflow connection `CONNECTION`; none where there is no such connection.

    Its host is the `base_url`, or a host alone, whose scheme is https where `schema` says no other; its password is
    the access token, and `refresh_token` stands in its extra.
    """
    try:
        connection = Connection.get(CONNECTION)
    except AirflowNotFoundException:
        return {}
    found = {
        "base_url": address_of(connection),
        "access_token": connection.password,
        "refresh_token": connection.extra_dejson.get("refresh_token"),
    }
    return {key: value for key, value in found.items() if value}


def address_of(connection: Connection) -> str | None:
    """A connection's `base_url`."""
    if not connection.host or "://" in connection.host:
        return connection.host
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'https'}://{connection.host}{port}/api/v1"


def scheduled_days(context: Mapping[str, Any]) -> "TimeIntervalContext":
    """The data interval of the run, whose days mailings are asked for where DLT_ALLOW_EXTERNAL_SCHEDULERS is true.

    Many runs have none, or an empty one (manual ones, and `@daily` by Airflow 3's default): mailings go on from the
    last load then.
    """
    from dlt.extract.incremental.context import TimeIntervalContext

    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start and end and start < end:
        return TimeIntervalContext((start, end))
    return TimeIntervalContext(allow_external_schedulers=False)


def accounts_of(params: Mapping[str, Any]) -> list[str]:
    """The accounts that the parameters of a run name.

    Raises:
        AirflowFailException: they name none, so that a run would load nothing and succeed.
    """
    accounts = params["accounts"]
    with airflow_failures():
        if not isinstance(accounts, list) or not accounts or not all(accounts):
            raise SettingsError(f"The parameter accounts must be a list of at least one account, got {accounts!r}.")
    return accounts


def announce(result: "Result", outlet_events: Any) -> None:
    """Put into the event of each asset what was loaded."""
    for asset, listing in zip(ASSETS, ("contacts", "templates", ""), strict=True):
        outlet_events[asset].extra.update(extra_of(result, listing))


def extra_of(result: "Result", listing: str | None = None) -> dict[str, Any]:
    """What an event tells: the load's id, the rows of each table, and the weakest verdict.

    Args:
        result: the load.
        listing: the listing whose tables are meant; "" for those that belong to none, None for all.
    """
    from letters_source.tables import TABLES

    group = [table.name for table in TABLES if listing in (None, table.listing)]
    verdicts = {audit["verdict"] for audit in result.audits if not listing or audit["listing"] in group}
    return {
        "load_id": result.load_id,
        "rows": {name: rows for name, rows in result.tables.items() if name in group},
        "verdict": max(verdicts, default=None),
    }
