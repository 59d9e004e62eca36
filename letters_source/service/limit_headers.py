"""When a request may be sent again, as headers say: Retry-After, or those of rate limits.

Rate limits have the fields of an IETF draft, draft-ietf-httpapi-ratelimit-headers, or those in use before it.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# beyond any retry budget; much longer waits overflow
LONGEST_RETRY_AFTER = 10.0**7
SECONDS = re.compile(r"\d+(?:\.\d*)?", re.ASCII)
# a number of seconds or milliseconds as large as this is a moment, counted from 1970
EPOCH, EPOCH_MILLISECONDS = 10.0**9, 10.0**11
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
PAIR = re.compile(r"\b(\w+)=(\d+)\b", re.ASCII)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the header's seconds or date (RFC 9110, 10.2.3) as seconds from now; None if it is neither.

    Seconds may have a fraction, which the RFC does not allow and some services send.
    """
    if not header:
        return None
    if SECONDS.fullmatch(header.strip()):
        return min(float(header), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(header)
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(LONGEST_RETRY_AFTER, max(0.0, seconds))


def limit_ends_in(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return in how many seconds requests are allowed again; None if the headers do not say, or some are still left."""
    waits = [wait for left, wait in limits(headers, now) if not left and wait]
    return max(waits, default=None)


def is_used_up(headers: Mapping[str, str], now: datetime) -> bool:
    """Return whether the headers say that no request is left."""
    return any(left == 0 for left, _ in limits(headers, now))


def limits(headers: Mapping[str, str], now: datetime) -> Iterator[tuple[int | None, float | None]]:
    """Yield how many requests are left of each limit, and the seconds until it is reset; None for what is not said."""
    # X-RateLimit-Reset, X-Rate-Limit-Reset and RateLimit-Reset are one field
    fields = {name.lower().replace("-", "").removeprefix("x"): value for name, value in headers.items()}
    parts = QUOTED.sub("", fields.get("ratelimit", "")).split(",")
    for part in map(dict, map(PAIR.findall, parts)):
        yield number(part.get("r")), number(part.get("t"))
    earlier = dict(PAIR.findall(fields.get("ratelimit", "")))
    left = number(earlier.get("remaining", fields.get("ratelimitremaining")))
    reset = earlier.get("reset") or fields.get("ratelimitreset") or fields.get("ratelimitresetafter")
    yield left, reset_in(reset, now)


def number(text: str | None) -> int | None:
    """Return a whole number; None for anything else."""
    return int(text[:18]) if text and text.strip().isdecimal() else None


def reset_in(value: str | None, now: datetime) -> float | None:
    """Return seconds, seconds or milliseconds since 1970, or a date, as seconds from now."""
    seconds = retry_after(value, now)
    if value is None or seconds is None or not SECONDS.fullmatch(value.strip()):
        return seconds
    moment = float(value)
    if moment < EPOCH:
        return seconds
    moment = moment / 1000 if moment >= EPOCH_MILLISECONDS else moment
    return min(LONGEST_RETRY_AFTER, max(0.0, moment - now.timestamp()))
