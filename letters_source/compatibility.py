"""Refuses loads whose rows are selected or written in another way than those that the dataset holds."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from letters_source.config.providers import where_to_set
from letters_source.destination.audits import finished_audits, holds_rows, read_columns, unfinished_audits
from letters_source.errors import SettingsError
from letters_source.extract.mailings import DAYS, window_of
from letters_source.extract.task import Job
from letters_source.service.listings import given
from letters_source.tables import LOAD_ID, MAILINGS, MERGE, tables_of
from letters_source.transform.privacy import CHOICES, PERSONAL, Policy
from letters_source.transform.row_hash import ROW_HASH

logger = logging.getLogger("letters_source")


def check_selection(client: Any, dataset: str, job: Job, audits: Sequence[dict[str, Any]]) -> None:
    """Check that the dataset was not loaded with other filters, for another account or environment, or in another mode.

    Its newest audit counts; environments count where both loads name theirs.

    Args:
        client: SQL on the dataset, None where there is none.
        dataset: its name.
        job: what is to be loaded.
        audits: the job's audits in the dataset, newest first.

    Raises:
        SettingsError: it was, even by a first load that was killed, or its tables were made in another mode.
    """
    check_account(client, dataset, job)
    if not audits:
        check_columns(client, dataset, job)
        # rows that are not replaced would be kept beside this load's rows
        audits = left_behind(client, job)
    if not audits:
        return
    # loads that name no environment may come between those that do
    newest = next((audit for audit in audits if audit["environment"]), audits[0])
    held, wanted = remembered(newest), selection_of(job)
    if held["environment"] is None or wanted["environment"] is None:
        held = {**held, "environment": wanted["environment"]}
    if held["mode"] == wanted["mode"] != "history":
        check_policies(job, dict(audits[0].get("pii") or {}))
    if held != wanted:
        raise SettingsError(
            f"{job.name}: the dataset {dataset} was loaded {describe(held)}, and this load is "
            f"{describe(wanted)}; to keep both, choose another dataset with --dataset."
        )


def left_behind(client: Any, job: Job) -> list[dict[str, Any]]:
    """The audits, newest first, of loads that never finished and whose rows would stay beside those of the job."""
    is_mailings = job.name == MAILINGS.name
    if not is_mailings and job.settings.mode != "history":
        return []
    tables = (MAILINGS,) if is_mailings else tables_of(job.name)
    return [
        audit
        for audit in unfinished_audits(client, job.name)
        if any(holds_rows(client, table.name, audit[LOAD_ID.name]) for table in tables)
    ]


def check_account(client: Any, dataset: str, job: Job) -> None:
    """See that mailings and the contacts beside them are of one account.

    Raises:
        SettingsError: the dataset holds the others for another.
    """
    other = {MAILINGS.name: MAILINGS.listing, MAILINGS.listing: MAILINGS.name}.get(job.name)
    for audit in finished_audits(client, other)[:1] if other else ():
        if audit["account_id"] != job.filters.account_id:
            held, wanted = (name or "the token's own" for name in (audit["account_id"], job.filters.account_id))
            raise SettingsError(
                f"{job.name}: the dataset {dataset} holds {other} of the account {held}, and this load "
                f"is for {wanted}; to keep both, choose another dataset with --dataset."
            )


def check_policies(job: Job, before: dict[str, Policy]) -> None:
    """Warn of other policies for personal values than before.

    Raises:
        SettingsError: what was not kept as it is has no policy any more, which may have been forgotten.
    """
    privacy = job.settings.privacy
    named = {*privacy.policies, *privacy.kept}
    forgotten = [name for name in CHOICES if before.get(name, "keep") != "keep" and name not in named]
    if forgotten:
        first, more = forgotten[0], len(forgotten) - 1
        others, key = (f" and {more} more", "all") if more and first in PERSONAL else ("", first)
        raise SettingsError(
            f"{job.name}: the last load had the policy {before[first]} for {first}{others}, and this one has none; "
            f"to treat values so again, or with keep to write them as they are, {where_to_set(f'pii.{key}')}."
        )
    if before != dict(privacy.policies):
        logger.warning("%s: personal values are treated otherwise than in the last load", job.name)


def check_columns(client: Any, dataset: str, job: Job) -> None:
    """See that tables that no finished load accounts for are of this mode.

    Raises:
        SettingsError: they are not.
    """
    held = [read_columns(client, table.name) for table in tables_of(job.name)]
    is_versioned = job.settings.mode != "replace"
    if any(columns and (ROW_HASH.name in columns) != is_versioned for columns in held):
        raise SettingsError(
            f"{job.name}: the dataset {dataset} holds tables of another mode than {job.settings.mode}, "
            "from a load that broke off or was not ours; load in that mode, or choose another dataset with --dataset."
        )


def selection_of(job: Job) -> dict[str, Any]:
    """What the job's rows are chosen by, and how they are written."""
    is_mailings = job.name == MAILINGS.name
    filters = without_days(given(job.filters)) if is_mailings else given(job.filters)
    mode = windows_mode(job.settings.mailings_window) if is_mailings else job.settings.mode
    return {
        "filters": unordered(filters),
        "account_id": job.filters.account_id,
        "environment": job.settings.environment,
        "mode": mode,
        # history would keep what an earlier policy let through
        "pii": dict(job.settings.privacy.policies) if mode == "history" else {},
    }


def remembered(audit: dict[str, Any]) -> dict[str, Any]:
    """An audit as a selection; the days of a window of mailings are not chosen but counted."""
    filters, mode = dict(audit["filters"] or {}), audit.get("mode") or "replace"
    if mode == MERGE:
        mode = windows_mode(window_of(filters).days)
        filters = without_days(filters)
    return {
        "filters": unordered(filters),
        "account_id": audit["account_id"],
        "environment": audit["environment"],
        "mode": mode,
        "pii": dict(audit.get("pii") or {}) if mode == "history" else {},
    }


def without_days(filters: dict[str, Any]) -> dict[str, Any]:
    """The filters but for the days of a window."""
    return {name: value for name, value in filters.items() if name not in DAYS}


def unordered(filters: dict[str, Any]) -> dict[str, Any]:
    """The filters with lists in one order, as theirs means nothing."""
    return {name: sorted(value) if isinstance(value, list) else value for name, value in filters.items()}


def windows_mode(days: int) -> str:
    """The mode of mailings: windows of another length would tell the same mailing twice."""
    return f"{MERGE}, windows of {days} days"


def describe(selection: dict[str, Any]) -> str:
    """A selection in words."""
    filters = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(selection["filters"].items()))
    words = [f"with {filters}" if filters else "without filters", f"in mode {selection['mode']}"]
    words += [f"with personal values {json.dumps(selection['pii'])}"] if selection["pii"] else []
    words += [f"for {key} {selection[key]}" for key in ("account_id", "environment") if selection[key]]
    return " ".join(words)
