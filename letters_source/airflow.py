"""Runs a load as an Airflow task: settings from Airflow, failures that Airflow understands, and asset events.

DAG files import this module, so it imports dlt only when a task runs.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from letters_source.config.installation import importing_extra
from letters_source.errors import LettersError, SettingsError

with importing_extra("airflow"):
    from airflow.sdk import Asset, Connection, get_current_context
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    import dlt
    from dlt.extract.incremental.context import TimeIntervalContext

    from letters_source.config.settings import Overrides
    from letters_source.results import Result

__all__ = [
    "ASSETS",
    "AUDIT",
    "CONNECTION",
    "CONTACTS",
    "GROUP",
    "TEMPLATES",
    "UNITED",
    "accounts_of",
    "airflow_failures",
    "announce",
    "compare_accounts",
    "extra_of",
    "load_task",
    "plan_task",
    "read_task",
]

logger = logging.getLogger("letters_source")

CONNECTION = "letters_default"
GROUP = "letters"
"""The group of our assets, and the tag of our DAGs."""
DESCRIPTIONS = {
    "letters_contacts": "The tables contacts and contacts__contact_labels.",
    "letters_templates": "The tables templates, templates__creator and templates__product.",
    "letters_audit": "The tables listing_audit and rejected_rows.",
    "letters_accounts": "The file that combines accounts; one event per account.",
}
CONTACTS, TEMPLATES, AUDIT, UNITED = (
    # without a URI, because each run has the destination as a parameter
    Asset(name, group=GROUP, extra={"description": description})
    for name, description in DESCRIPTIONS.items()
)
ASSETS = [CONTACTS, TEMPLATES, AUDIT]
"""What the DAG `letters` updates; `extra_of` makes the extra of their events."""


def load_task(
    make: "Callable[[], dlt.Pipeline]",
    *,
    only: Sequence[str] = (),
    publish: "Path | str | None" = None,
    **settings: "Unpack[Overrides]",
) -> "Result":
    """Call `run` in a task on the pipeline that `make` makes, with the connection's settings and the data interval.

    Arguments are as for `run`; settings override the connection's. Errors of ours become an `AirflowException` where
    a retry can help, otherwise an `AirflowFailException`.
    """
    from dlt.common.configuration.container import Container

    from letters_source.load import run

    with in_airflow(settings) as given, Container().injectable_context(data_interval(get_current_context())):
        return run(make(), only=only, publish=publish, **given)


def plan_task(listing: str, number: int, **settings: "Unpack[Overrides]") -> list[int]:
    """Call `plan_parts` in a task, with the connection's settings; the places are for `read_task`."""
    from letters_source.extract.parts.tasks import plan_parts

    with in_airflow(settings) as given:
        return plan_parts(listing, number, **given)


def read_task(listing: str, place: int, **settings: "Unpack[Overrides]") -> int:
    """Call `read_part` in a mapped task, with the connection's settings; return the number of rows."""
    from letters_source.extract.parts.tasks import read_part

    with in_airflow(settings) as given:
        return read_part(listing, place, **given)


def compare_accounts(accounts: Sequence[str], **settings: "Unpack[Overrides]") -> None:
    """Call `check_accounts` in a task, with the connection's settings, as `load_task` calls `run`."""
    from letters_source.load import check_accounts

    with in_airflow(settings) as given:
        check_accounts(accounts, **given)


def look_up_sections_only() -> None:
    """Make dlt ask Airflow only for whole sections, such as `dlt_secrets_toml`: 36 requests per load instead of 672."""
    from dlt.common.configuration.container import Container
    from dlt.common.configuration.specs import PluggableRunContext

    os.environ.setdefault("PROVIDERS__AIRFLOW_SECRETS__ONLY_TOML_FRAGMENTS", "true")
    Container()[PluggableRunContext].reload_providers()


@contextmanager
def in_airflow(settings: "Overrides") -> "Iterator[Overrides]":
    """Yield the connection's settings with the given ones over them; errors as in `airflow_failures`."""
    look_up_sections_only()
    with airflow_failures():
        yield cast("Overrides", {**connection_settings(), **settings})


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Log our errors as one ERROR line, and raise them as Airflow's exceptions, which say whether to retry."""
    try:
        yield
    except LettersError as error:
        logger.error("%s", error)
        # a copy has no cause: Airflow logs causes, and that of a driver may quote a password or a row
        raise (AirflowException if error.may_pass else AirflowFailException)(str(error)) from copy(error)


def connection_settings() -> dict[str, Any]:
    """Return the settings of the Airflow connection `CONNECTION`; none if it does not exist.

    The password is the access token, the extra has `refresh_token`, and the host is the whole `base_url` or its host.
    """
    try:
        connection = Connection.get(CONNECTION)
    except AirflowNotFoundException:
        return {}
    found = {
        "base_url": base_url_of(connection),
        "access_token": connection.password,
        "refresh_token": connection.extra_dejson.get("refresh_token"),
    }
    return {key: value for key, value in found.items() if value}


def base_url_of(connection: Connection) -> str | None:
    """Return a connection's `base_url`; the scheme is https unless the connection has another."""
    if not connection.host or "://" in connection.host:
        return connection.host
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'https'}://{connection.host}{port}/api/v1"


def data_interval(context: Mapping[str, Any]) -> "TimeIntervalContext":
    """Return the run's data interval, whose mailings are loaded where DLT_ALLOW_EXTERNAL_SCHEDULERS is true."""
    from dlt.extract.incremental.context import TimeIntervalContext

    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start and end and start < end:
        return TimeIntervalContext((start, end))
    # none, or an empty one, as `@daily` has by default in Airflow 3: mailings continue from the last load
    return TimeIntervalContext(allow_external_schedulers=False)


def accounts_of(params: Mapping[str, Any]) -> list[str]:
    """Return the accounts that a run's parameters name, or raise `AirflowFailException`."""
    accounts = params["accounts"]
    with airflow_failures():
        if not isinstance(accounts, list) or not accounts or not all(accounts):
            raise SettingsError(
                f"The parameter accounts must be a list of at least one account, got {accounts!r}.", key="accounts"
            )
    return accounts


def announce(result: "Result", outlet_events: Any) -> None:
    """Add what was loaded to the event of each asset."""
    for asset, listing in zip(ASSETS, ("contacts", "templates", ""), strict=True):
        outlet_events[asset].extra.update(extra_of(result, listing))


def extra_of(result: "Result", listing: str | None = None) -> dict[str, Any]:
    """Return an event's extra: the load's ID, the weakest verdict, and the rows of each table.

    `listing` selects the tables of one listing; "" the tables that belong to none, None all tables.
    """
    from letters_source.tables import TABLES, weakest

    names = {table.name for table in TABLES if listing in (None, table.listing)}
    verdicts = [audit["verdict"] for audit in result.audits if not listing or audit["listing"] in names]
    rows = {name: count for name, count in result.tables.items() if name in names}
    return {"load_id": result.load_id, "rows": rows, "verdict": weakest(verdicts)}
