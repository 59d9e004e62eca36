"""Refuses loads whose service, selection or mode differs from that of the rows in the dataset."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

from letters_source.config.messages import where_to_set
from letters_source.destination.audits import (
    finished_audits,
    held_service,
    holds_rows,
    open_held,
    other_account,
    read_columns,
    unfinished_audits,
)
from letters_source.destination.pipeline import account_dataset
from letters_source.destination.place import Place
from letters_source.destination.sql import SqlClient
from letters_source.errors import SettingsError
from letters_source.extract.accounts import check_apart
from letters_source.extract.mailings import days_asked
from letters_source.extract.task import Task
from letters_source.results import Audit
from letters_source.service.listings import DAYS, SECTION, given
from letters_source.service.network import service_of
from letters_source.tables import DATASET, LOAD_ID, MAILINGS, MERGE, TABLES, Selection, Table, tables_of
from letters_source.transform.privacy import CHOICES, FINGERPRINT, PERSONAL, Policy
from letters_source.transform.row_hash import ROW_HASH

logger = logging.getLogger("letters_source")


def check_selection(client: SqlClient | None, dataset: str, task: Task, audits: Sequence[Audit]) -> None:
    """Check that the dataset was loaded with the same filters, account, environment, mode and service, or raise.

    The newest of the task's `audits`, which are newest first, decides; environments are compared if both loads set one.
    """
    check_account(client, dataset, task)
    if not audits:
        check_tables(client, dataset, task)
        # in these modes, rows of an unfinished load would stay next to this load's rows
        audits = left_behind(client, task)
    check_same_service(client, dataset, task, audits)
    if not audits:
        return
    # loads without an environment may lie between loads with one
    newest = next((audit for audit in audits if audit["environment"]), audits[0])
    days = held_window(audits, task.settings.mailings_window) if task.name == MAILINGS.name else 0
    held, wanted = selection(newest, days), selection_of(task)
    filters = {**held["filters"], **same_filters(held["filters"], task, wanted["filters"])}
    held = {**held, "filters": filters, "pii": with_fingerprint(held["pii"], task)}
    if held["environment"] is None or wanted["environment"] is None:
        held = {**held, "environment": wanted["environment"]}
    if held["mode"] == wanted["mode"] != "history":
        check_policies(task, with_fingerprint(audits[0].get("pii") or {}, task))
    if has_another_key(audits, task) and (held != wanted or wanted["mode"] == "history"):
        raise SettingsError(
            f"{task.name}: the dataset {dataset} was loaded with another pii_key",
            advice="set the earlier $pii_key, or choose another $dataset.",
            key=f"{SECTION}.pii_key",
        )
    if held != wanted:
        before, now = difference(held, wanted, task), difference(wanted, held, task)
        raise SettingsError(
            f"{task.name}: the dataset {dataset} was loaded {before}, and this load is {now}",
            advice="to keep both, choose another $dataset.",
            key="dataset",
        )


def check_same_service(client: SqlClient | None, dataset: str, task: Task, audits: Sequence[Audit]) -> None:
    """Check that no listing of the dataset was loaded from another service, or raise `SettingsError`."""
    held = held_service(client) or next((audit.get("service") for audit in audits), None)
    wanted = service_of(task.settings.base_url)
    if held not in (None, wanted) and not task.settings.allow_other_service:
        raise SettingsError(
            f"{task.name}: the dataset {dataset} was loaded from {held}, and base_url is {wanted}.",
            advice="Check base_url; to keep both, choose another $dataset; if the service moved, turn on "
            "$allow_other_service for one load, which replaces the current rows.",
            key=f"{SECTION}.base_url",
        )


def check_new_account(place: Place, task: Task) -> None:
    """Check the first load of an account into its own dataset, or raise.

    Raises:
        SettingsError: the account is in the default dataset, where earlier versions loaded a single account.
        SharedIds: the service lists the same rows for an account in another dataset of the database.
    """
    account, dataset = task.filters.account_id, place.dataset
    if account is None:
        return
    if dataset == account_dataset(DATASET, account):
        with open_held(place, DATASET) as client:
            former = finished_audits(client, task.name)
        if former and former[0]["account_id"] == account:
            raise SettingsError(
                f"{task.name}: the account {account} is in the dataset {DATASET}",
                advice=f"to continue it there, load this account alone with $dataset {DATASET}; "
                f"to load it into {dataset}, remove {DATASET} first.",
                key="dataset",
            )
    if not task.settings.allow_shared_ids:
        with open_held(place) as client:
            other = other_account(place, client, account)
        if other:
            check_apart(task, (account, other))


def left_behind(client: SqlClient | None, task: Task) -> list[Audit]:
    """Return the audits, newest first, of unfinished loads whose rows would stay next to those of the task."""
    if task.name != MAILINGS.name and task.settings.mode != "history":
        return []
    tables = tables_of(task.name) or (MAILINGS,)
    return [
        audit
        for audit in unfinished_audits(client, task.name)
        if any(holds_rows(client, table.name, audit["_dlt_load_id"]) for table in tables)
    ]


def check_account(client: SqlClient | None, dataset: str, task: Task) -> None:
    """Check that mailings and contacts in a dataset belong to one account, or raise `SettingsError`."""
    other = {MAILINGS.name: MAILINGS.listing, MAILINGS.listing: MAILINGS.name}.get(task.name)
    for audit in finished_audits(client, other)[:1] if other else ():
        if audit["account_id"] != task.filters.account_id:
            held, wanted = (name or "the token's own" for name in (audit["account_id"], task.filters.account_id))
            raise SettingsError(
                f"{task.name}: the dataset {dataset} holds {other} of the account {held}, and this load "
                f"is for {wanted}",
                advice="to keep both, choose another $dataset.",
                key="dataset",
            )


def has_another_key(audits: Iterable[Audit], task: Task) -> bool:
    """Return whether the newest load that recorded a fingerprint of its key had another key than a task that hashes."""
    recorded = (found for audit in audits if (found := (audit.get("pii") or {}).get(FINGERPRINT)))
    own = task.settings.privacy.recorded.get(FINGERPRINT)
    return own not in (None, next(recorded, own))


def with_fingerprint(policies: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return an audit's policies with a fingerprint of the key, which earlier versions did not record."""
    recorded = task.settings.privacy.recorded
    if "hash_method" not in policies or FINGERPRINT not in recorded:
        return {**policies}
    return {FINGERPRINT: recorded[FINGERPRINT], **policies}


def check_policies(task: Task, before: dict[str, Policy]) -> None:
    """Warn if the policies for personal data, or the key, differ from the last load's; raise if one is omitted."""
    privacy = task.settings.privacy
    named = {*privacy.policies, *privacy.kept}
    forgotten = [name for name in CHOICES if before.get(name, "keep") != "keep" and name not in named]
    if forgotten:
        first, more = forgotten[0], len(forgotten) - 1
        others, key = (f" and {more} more", "all") if more and first in PERSONAL else ("", first)
        raise SettingsError(
            f"{task.name}: the last load used the policy {before[first]} for {first}{others}, but this one sets none; "
            f"to use it again, or keep to write values unchanged, {where_to_set(f'pii.{key}')}.",
            key=f"{SECTION}.pii.{key}",
        )
    if before != privacy.recorded:
        logger.warning("%s: the policies for personal data, or pii_key, differ from the last load's", task.name)


def check_tables(client: SqlClient | None, dataset: str, task: Task) -> None:
    """Raise `SettingsError` if a table without a finished load is not from a load, or from one in another mode."""
    held = check_ours(client, dataset, TABLES)
    is_versioned = task.settings.mode != "replace"
    if any(held[table] and (ROW_HASH.name in held[table]) != is_versioned for table in tables_of(task.name)):
        raise SettingsError(
            f"{task.name}: the dataset {dataset} holds tables of another mode than {task.settings.mode}, "
            "from an unfinished load or another program",
            advice="load in that mode, or choose another $dataset.",
            key="dataset",
        )


def check_ours(client: SqlClient | None, dataset: str, tables: Iterable[Table]) -> dict[Table, set[str]]:
    """Return the columns that tables have, empty for those that do not exist, or raise if one is not from a load."""
    held = {table: read_columns(client, table.name) for table in tables}
    for table, columns in held.items():
        if columns and LOAD_ID.name not in columns:
            raise SettingsError(
                f"the dataset {dataset} holds a table {table.name} that is not from a load",
                advice="choose another $dataset.",
                key="dataset",
            )
    return held


def selection_of(task: Task) -> dict[str, Any]:
    """Return the task's selection."""
    settings = task.settings
    audit: Selection = {
        "listing": task.name,
        "filters": task.recorded_filters,
        "account_id": task.filters.account_id,
        "environment": settings.environment,
        "mode": MERGE if task.name == MAILINGS.name else settings.mode,
        "pii": settings.privacy.recorded,
    }
    return selection(audit, settings.mailings_window)


def same_filters(held: dict[str, Any], task: Task, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the wanted filters that a dataset was loaded with, whichever privacy policies both loads had."""
    privacy, name = task.settings.privacy, task.listing.name
    values = {key: ordered(value) for key, value in given(task.filters).items() if key in held}
    return {key: wanted[key] for key, value in values.items() if privacy.may_be(held[key], name, key, value)}


def ordered(value: Any) -> Any:
    """Return a filter's value; the order of a list does not matter."""
    return sorted(value) if isinstance(value, list) else value


def held_window(audits: Sequence[Audit], days: int) -> int:
    """Return the length of the windows of mailings in the audits, or `days` if all of them may have been cut short."""
    asked = [(days_asked(audit["filters"]), audit["started_at"].astimezone(UTC).date()) for audit in audits]
    # today ends a window early; a load that runs over midnight took it for the day before
    whole = [dates.days for dates, today in asked if dates.last < today - timedelta(days=1)]
    return max(whole) if whole else max(days, *(dates.days for dates, _ in asked))


def selection(audit: Selection, days: int) -> dict[str, Any]:
    """Return what two loads must have in common; of mailings, the `days` of a window."""
    filters = dict(audit["filters"] or {})
    mode: str = audit.get("mode") or "replace"
    if mode == MERGE:
        # date ranges of another length would load the same mailing twice
        mode = f"{MERGE}, windows of {days} days"
        filters = {name: value for name, value in filters.items() if name not in DAYS}
    return {
        "filters": {name: ordered(value) for name, value in filters.items()},
        "account_id": audit["account_id"],
        "environment": audit["environment"],
        "mode": mode,
        # history would keep values that an earlier policy did not remove, and see a change in each rehashed row
        "pii": dict(audit.get("pii") or {}) if mode == "history" else {},
    }


def difference(selection: dict[str, Any], other: dict[str, Any], task: Task) -> str:
    """Return in words how a selection differs from another one, for a message without personal values."""
    mine, theirs = ({**each, **each["filters"]} for each in (selection, other))
    names = {*mine, *theirs} - {"filters"}
    differing = sorted(name for name in names if mine.get(name) != theirs.get(name))
    chosen = {name: mine[name] for name in differing if mine.get(name) not in (None, {})}
    lacking = ["policies for personal values" if name == "pii" else name for name in differing if name not in chosen]
    policy_of, listing = task.settings.privacy.policy_of_filter, task.listing.name
    filters = ", ".join(
        f"{name}={json.dumps(value) if policy_of(listing, name) == 'keep' else '(hidden)'}"
        for name, value in chosen.items()
        if name in mine["filters"]
    )
    words = [f"with {filters}"] if filters else []
    words += [f"without {' and '.join(lacking)}"] if lacking else []
    words += [f"in mode {chosen['mode']}"] if "mode" in chosen else []
    words += [f"with personal values {json.dumps(chosen['pii'])}"] if "pii" in chosen else []
    words += [f"for {key} {chosen[key]}" for key in ("account_id", "environment") if key in chosen]
    return " ".join(words)
