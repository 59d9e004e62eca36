"""Refuses loads whose selection or mode differs from that of the rows in the dataset."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from letters_source.config.messages import where_to_set
from letters_source.destination.audits import finished_audits, holds_rows, read_columns, unfinished_audits
from letters_source.destination.sql import SqlClient
from letters_source.errors import SettingsError
from letters_source.extract.mailings import DAYS, window_of
from letters_source.extract.task import Task
from letters_source.service.listings import SECTION, given
from letters_source.tables import LOAD_ID, MAILINGS, MERGE, TABLES, tables_of
from letters_source.transform.privacy import CHOICES, PERSONAL, Policy
from letters_source.transform.row_hash import ROW_HASH

logger = logging.getLogger("letters_source")


def check_selection(client: SqlClient | None, dataset: str, task: Task, audits: Sequence[dict[str, Any]]) -> None:
    """Check that the dataset was loaded with the same filters, account, environment and mode, or raise `SettingsError`.

    The newest of the task's `audits`, which are newest first, decides; environments are compared if both loads set one.
    """
    check_account(client, dataset, task)
    if not audits:
        check_owner(client, dataset)
        check_columns(client, dataset, task)
        # in these modes, rows of an unfinished load would stay next to this load's rows
        audits = left_behind(client, task)
    if not audits:
        return
    # loads without an environment may lie between loads with one
    newest = next((audit for audit in audits if audit["environment"]), audits[0])
    held, wanted = selection(newest), selection_of(task)
    if held["environment"] is None or wanted["environment"] is None:
        held = {**held, "environment": wanted["environment"]}
    if held["mode"] == wanted["mode"] != "history":
        check_policies(task, dict(audits[0].get("pii") or {}))
    if held != wanted:
        raise SettingsError(
            f"{task.name}: the dataset {dataset} was loaded {describe(held)}, and this load is "
            f"{describe(wanted)}; to keep both, choose another dataset with --dataset."
        )


def left_behind(client: SqlClient | None, task: Task) -> list[dict[str, Any]]:
    """Return the audits, newest first, of unfinished loads whose rows would stay next to those of the task."""
    if task.name != MAILINGS.name and task.settings.mode != "history":
        return []
    tables = tables_of(task.name) or (MAILINGS,)
    return [
        audit
        for audit in unfinished_audits(client, task.name)
        if any(holds_rows(client, table.name, audit[LOAD_ID.name]) for table in tables)
    ]


def check_account(client: SqlClient | None, dataset: str, task: Task) -> None:
    """Check that mailings and contacts in a dataset belong to one account, or raise `SettingsError`."""
    other = {MAILINGS.name: MAILINGS.listing, MAILINGS.listing: MAILINGS.name}.get(task.name)
    for audit in finished_audits(client, other)[:1] if other else ():
        if audit["account_id"] != task.filters.account_id:
            held, wanted = (name or "the token's own" for name in (audit["account_id"], task.filters.account_id))
            raise SettingsError(
                f"{task.name}: the dataset {dataset} holds {other} of the account {held}, and this load "
                f"is for {wanted}; to keep both, choose another dataset with --dataset."
            )


def check_policies(task: Task, before: dict[str, Policy]) -> None:
    """Warn if the policies for personal data differ from the last load's; raise if one is omitted."""
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
        logger.warning("%s: the policies for personal data differ from the last load's", task.name)


def check_owner(client: SqlClient | None, dataset: str) -> None:
    """Check that no table of ours is another program's in the dataset, or raise `SettingsError`."""
    for table in TABLES:
        columns = read_columns(client, table.name)
        if columns and LOAD_ID.name not in columns:
            raise SettingsError(
                f"the dataset {dataset} holds a table {table.name} that is not from a load; "
                "choose another dataset with --dataset."
            )


def check_columns(client: SqlClient | None, dataset: str, task: Task) -> None:
    """Check that tables without a finished load have the columns of this mode, or raise `SettingsError`."""
    held = [read_columns(client, table.name) for table in tables_of(task.name)]
    is_versioned = task.settings.mode != "replace"
    if any(columns and (ROW_HASH.name in columns) != is_versioned for columns in held):
        raise SettingsError(
            f"{task.name}: the dataset {dataset} holds tables of another mode than {task.settings.mode}, "
            "from an unfinished load or another program; load in that mode, or choose another dataset with --dataset."
        )


def selection_of(task: Task) -> dict[str, Any]:
    """Return the task's selection."""
    settings = task.settings
    audit = {
        "filters": given(task.filters),
        "account_id": task.filters.account_id,
        "environment": settings.environment,
        "mode": MERGE if task.name == MAILINGS.name else settings.mode,
        "pii": settings.privacy.recorded,
    }
    return selection(audit, settings.mailings_window)


def selection(audit: dict[str, Any], window: int = 0) -> dict[str, Any]:
    """Return what two loads must have in common; of mailings, the days in a `window`, by default the audit's own."""
    filters, mode = dict(audit["filters"] or {}), audit.get("mode") or "replace"
    if mode == MERGE:
        # windows of another length would load the same mailing twice
        mode = f"{MERGE}, windows of {window or window_of(filters).days} days"
        filters = {name: value for name, value in filters.items() if name not in DAYS}
    return {
        # the order of values does not matter
        "filters": {name: sorted(value) if isinstance(value, list) else value for name, value in filters.items()},
        "account_id": audit["account_id"],
        "environment": audit["environment"],
        "mode": mode,
        # history would keep values that an earlier policy did not remove, and see a change in each rehashed row
        "pii": dict(audit.get("pii") or {}) if mode == "history" else {},
    }


def describe(selection: dict[str, Any]) -> str:
    """Return a selection in words, for a message."""
    filters = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(selection["filters"].items()))
    words = [f"with {filters}" if filters else "without filters", f"in mode {selection['mode']}"]
    words += [f"with personal values {json.dumps(selection['pii'])}"] if selection["pii"] else []
    words += [f"for {key} {selection[key]}" for key in ("account_id", "environment") if selection[key]]
    return " ".join(words)
