"""How may the stand-in misbehave?  Nothing does by default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Drift:
    """Rows that come or go while a listing is read.

    `rate` is the chance of one change before each answer of a listing. A `swap` deletes a row anywhere and inserts a
    new one at `place`, so that the count stays the same.
    """

    kind: Literal["insert", "delete", "swap"]
    place: Literal["front", "end", "anywhere"] = "anywhere"
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the service departs from a prompt and honest one.

    Args:
        latency_ms: wait before each answer of a listing.
        max_page_size: a larger pageSize is silently served as this one.
        ignore_page: every page is answered with page 0.
        rate_limit: listing requests per second; what exceeds it is answered 429.
        rate_style: a token bucket as large as a second's requests (at least one), or fixed windows of one second.
        retry_after: seconds in the Retry-After header of a 429; None leaves the header out.
        fault_every: each n-th request is answered with `fault_status`, rows untouched.
        drift: changes to the rows, applied in this order before a listing is answered.
        extra_fields: undocumented fields, by wire name, of every template and contact.
    """

    latency_ms: float = 0
    max_page_size: int | None = None
    ignore_page: bool = False
    rate_limit: float | None = None
    rate_style: Literal["bucket", "windows"] = "bucket"
    retry_after: int | None = None
    fault_every: int | None = None
    fault_status: int = 500
    drift: tuple[Drift, ...] | list[Drift] = ()
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
