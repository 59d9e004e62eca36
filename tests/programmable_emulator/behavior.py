"""How the emulator misbehaves; by default it does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from programmable_emulator.canned_replies import Reply


@dataclass(frozen=True, slots=True)
class Drift:
    """Rows that are inserted or deleted while a listing is read.

    `rate` is the probability of one change before each page. A `swap` deletes a row anywhere and inserts a new one at
    `place`, so the count stays the same.
    """

    kind: Literal["insert", "delete", "swap"]
    place: Literal["front", "end", "anywhere"] = "anywhere"
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Behavior:
    """Faults of the service.

    Args:
        latency_ms: wait before each response of a listing.
        row_ms: wait further for each row that a response may have.
        at_once: listing requests that are served at the same time; others wait.
        max_page_size: a larger pageSize is silently reduced to this one.
        ignore_page: every page is page 0.
        ignore_account: rows of all accounts are listed, whichever is requested.
        miscount: added to the count of every page.
        count_cap: a larger count is reduced to this one; pages beyond it have their rows.
        rate_limit: listing requests per second; requests above it are answered with 429.
        rate_style: a token bucket that holds one second of requests (at least one), or fixed windows of one second.
        retry_after: seconds in the Retry-After header of a 429; None omits the header.
        fault_every: every n-th request is answered with `fault_reply`, or else `fault_status`; rows do not change.
        drift: changes to the rows before each page, in this order.
        extra_fields: undocumented fields, by wire name, of every template and contact.
    """

    latency_ms: float = 0
    row_ms: float = 0
    at_once: int = 1_000
    max_page_size: int | None = None
    ignore_page: bool = False
    ignore_account: bool = False
    miscount: int = 0
    count_cap: int | None = None
    rate_limit: float | None = None
    rate_style: Literal["bucket", "windows"] = "bucket"
    retry_after: int | None = None
    fault_every: int | None = None
    fault_status: int = 500
    fault_reply: Reply | None = None
    drift: Sequence[Drift] = ()
    extra_fields: Mapping[str, Any] = field(default_factory=dict)

    def count(self, rows: int) -> int:
        """Return the count of a listing with so many rows."""
        return (rows if self.count_cap is None else min(rows, self.count_cap)) + self.miscount
