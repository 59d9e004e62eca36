"""How a load ended: the result in Python, its JSON form, and its line in the ledger of runs."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NotRequired

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from letters_source.errors import INTERRUPTED, INTERRUPTION
from letters_source.tables import LISTING_AUDIT, AuditColumns, Column, ColumnKind
from letters_source.wording import reason

JSON_TYPES: Mapping[ColumnKind, Any] = {
    "text": str,
    "bool": bool,
    "timestamp": datetime,
    "json": dict[str, Any],
    "bigint": int,
    "double": float,
}
"""The types of the columns of `listing_audit` in JSON."""


class Audit(AuditColumns):
    """A row of `listing_audit`."""

    _dlt_load_id: NotRequired[str]  # added when the row is loaded


@dataclass(frozen=True, slots=True)
class Result:
    """A finished, verified load.

    Args:
        load_id: dlt's id of the load, `_dlt_load_id` of its rows.
        tables: the number of rows in each table.
        audits: the load's rows of `listing_audit`, one for each listing, value of a facet, and window of mailings.
        seconds: the duration of the load.
    """

    load_id: str
    tables: Mapping[str, int]
    audits: tuple[Audit, ...]
    seconds: float


def audit_field(column: Column) -> tuple[str, Any]:
    """Return a column of `listing_audit` as the field of a struct."""
    return column.name, Annotated[JSON_TYPES[column.kind] | None, Meta(description=column.description)]


class Listing(Struct, frozen=True):  # noqa: D101 -- its docstring and fields are those of the declared table
    __doc__ = LISTING_AUDIT.description
    __annotations__ = dict(map(audit_field, LISTING_AUDIT.columns))


class Failure(Struct, frozen=True, kw_only=True):
    """Why a load failed."""

    kind: Annotated[str, Meta(description="The class of the error, such as NotAuthorized.")]
    message: Annotated[str, Meta(description="What happened and what to do; never a token, a row or a response body.")]
    exit_code: Annotated[int, Meta(description="The exit code of the command.")]


class Load(Struct, frozen=True, kw_only=True):
    """What the result of a load and its record in the ledger have in common: where it went, and what was loaded."""

    load_id: Annotated[str | None, Meta(description="_dlt_load_id of the load's rows; null if it failed.")]
    destination: Annotated[str, Meta(description="The kind of destination, as --destination names it.")]
    place: Annotated[str | None, Meta(description="The file, folder, bucket or server; null if unknown.")]
    dataset: Annotated[str, Meta(description="The schema or folder of the tables.")]
    tables: Annotated[dict[str, int], Meta(description="The number of rows in each table; empty if the load failed.")]
    seconds: Annotated[float, Meta(description="The duration.")]


class LoadResult(Load, frozen=True, kw_only=True):
    """A load into one dataset, verified or failed."""

    error: Annotated[Failure | UnsetType, Meta(description="Why it failed; absent from a verified load.")] = UNSET
    listings: Annotated[
        tuple[Listing, ...], Meta(description="The load's rows of listing_audit; empty if the load failed.")
    ]


class AccountsResult(Struct, frozen=True, kw_only=True):
    """The loads of several accounts by one command, each into a dataset of its own."""

    accounts: Annotated[
        dict[str, LoadResult],
        Meta(
            description="The loads that ended, by account; a failure before the first load is under the first account."
        ),
    ]
    seconds: Annotated[float, Meta(description="The duration of all loads.")]
    error: Annotated[Failure | UnsetType, Meta(description="Why the command failed; absent if it did not.")] = UNSET


class RunError(Struct, frozen=True, kw_only=True):
    """Why a run failed; without the message, which can quote a filter."""

    kind: str
    exit_code: int


class Run(Load, frozen=True, kw_only=True):
    """A load in the ledger of runs: no rows, filters or messages. The dataset's name can contain the account."""

    started_at: datetime
    verdicts: dict[str, list[str]]
    """The verdicts of each listing, facet or window of mailings that was read."""
    error: RunError | UnsetType = UNSET

    @property
    def rows(self) -> int:
        """The rows of the listings, facets and mailings that were read."""
        return sum(self.tables.get(listing, 0) for listing in self.verdicts)

    @property
    def ending(self) -> str:
        """The verdicts, or the error."""
        if isinstance(self.error, RunError):
            return f"{self.error.kind} (exit code {self.error.exit_code})"
        return ", ".join(sorted({verdict for found in self.verdicts.values() for verdict in found}))


def failure_of(error: BaseException) -> Failure:
    """Return an error for JSON output; messages of other libraries are cut to one line without values."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return Failure(kind=kind, message=INTERRUPTION, exit_code=INTERRUPTED)
    # our errors and click's have an exit code
    exit_code = getattr(error, "exit_code", None)
    if exit_code is None:
        return Failure(kind=kind, message=reason(error), exit_code=1)
    return Failure(kind=kind, message=str(error), exit_code=exit_code)


def run_of(load: LoadResult, started_at: datetime) -> Run:
    """Return what the ledger keeps of a load."""
    common = {name: getattr(load, name) for name in Load.__struct_fields__}
    verdicts = defaultdict[str, set[str]](set)
    for audit in map(msgspec.structs.asdict, load.listings):
        verdicts[audit["listing"]].add(audit["verdict"])
    error = load.error
    return Run(
        **common,
        started_at=started_at,
        verdicts={listing: sorted(found) for listing, found in verdicts.items()},
        error=RunError(kind=error.kind, exit_code=error.exit_code) if isinstance(error, Failure) else UNSET,
    )


def result_schema() -> dict[str, Any]:
    """Return the JSON Schema of the object that `letters load --json` prints."""
    kinds, definitions = msgspec.json.schema_components((LoadResult, AccountsResult), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The result of letters load --json",
        "anyOf": list(kinds),
        "$defs": definitions,
    }
