"""Does the dataset hold rows that were chosen or written in another way? Then it must not be loaded over."""

import json
from datetime import date
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.destination.exceptions import DestinationUndefinedEntity, SqlClientNotAvailable
from dlt.common.pipeline import PipelineContext
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.pipeline.exceptions import PipelineConfigMissing

from letters_source.errors import SettingsError
from letters_source.job import Job
from letters_source.listing import given
from letters_source.tables import LISTING_AUDIT, MAILINGS

DAYS = ("last_mailed_from", "last_mailed_to")
MERGE = "merge"


def check_selection(job: Job) -> None:
    """See that the dataset was not loaded with other filters, for another account or environment, or in another mode.

    What it was loaded with is what its newest audit says. Outside a run, and where the destination has no SQL, there
    is nothing to ask.

    Raises:
        SettingsError: it was.
    """
    try:
        load_package_state()
    except CurrentLoadPackageStateNotAvailable:
        # rows that are looked at, not loaded; dlt still knows the pipeline that was made last
        return
    pipeline: Any = Container()[PipelineContext].pipeline()
    held = read_selection(pipeline, job.name)
    if held is None:
        return
    wanted = selection_of(job)
    if held["environment"] is None or wanted["environment"] is None:
        held = {**held, "environment": wanted["environment"]}
    if held != wanted:
        raise SettingsError(
            f"{job.name}: the dataset {pipeline.dataset_name} was loaded {describe(held)}, and this load is "
            f"{describe(wanted)}; to keep both, choose another dataset with --dataset."
        )


def selection_of(job: Job) -> dict[str, Any]:
    """What the job's rows are chosen by, and how they are written."""
    is_mailings = job.name == MAILINGS.name
    aside = ("account_id", *DAYS) if is_mailings else ("account_id",)
    filters = {name: value for name, value in given(job.filters).items() if name not in aside}
    mode = windows_mode(job.settings.mailings_window) if is_mailings else job.settings.mode
    return {
        "filters": unordered(filters),
        "account_id": job.filters.account_id,
        "environment": job.settings.environment,
        "mode": mode,
    }


def read_selection(pipeline: Any, name: str) -> dict[str, Any] | None:
    """The same of the newest finished load that the dataset holds, if one can be of one that names its environment.

    Loads that name none may come between those that do. None where there is no load.
    """
    try:
        with pipeline.sql_client() as client:
            audit, loads = (client.make_qualified_table_name(table) for table in (LISTING_AUDIT.name, "_dlt_loads"))
            # all columns, as an audit of version 0.1.0 has no mode
            query = (
                f"SELECT * FROM {audit} WHERE listing = %s AND _dlt_load_id IN "
                f"(SELECT load_id FROM {loads} WHERE status = 0) "
                "ORDER BY CASE WHEN environment IS NULL THEN 1 ELSE 0 END, started_at DESC LIMIT 1"
            )
            with client.execute_query(query, name) as cursor:
                names, row = [column[0].lower() for column in cursor.description], cursor.fetchone()
    except (DestinationUndefinedEntity, SqlClientNotAvailable, PipelineConfigMissing):
        # nothing was loaded yet, to tables or to files, or there is no SQL or no destination to ask
        return None
    return remembered(dict(zip(names, row, strict=True))) if row else None


def remembered(row: dict[str, Any]) -> dict[str, Any]:
    """An audit's row as a selection; the days of a window of mailings are not chosen but counted."""
    # some engines give JSON as text, others read
    filters = json.loads(row["filters"] or "{}") if isinstance(row["filters"], str | None) else dict(row["filters"])
    mode = row.get("mode") or "replace"
    if mode == MERGE:
        first, last = (date.fromisoformat(filters.pop(name)) for name in DAYS)
        mode = windows_mode((last - first).days + 1)
    return {
        "filters": unordered(filters),
        "account_id": row["account_id"],
        "environment": row["environment"],
        "mode": mode,
    }


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
    words += [f"for {key} {selection[key]}" for key in ("account_id", "environment") if selection[key]]
    return " ".join(words)
