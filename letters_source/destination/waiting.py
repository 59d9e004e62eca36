"""Waits until a destination that others use is free."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dlt.common.destination.exceptions import DestinationException
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from letters_source.errors import DestinationInUse, LoadFailed, without_advice

# seconds between attempts; a load takes seconds at least
LOOK_SECONDS = 0.2
T = TypeVar("T")


def patiently(attempt: Callable[[], T], wait: float) -> T:
    """Retry an attempt while the destination is in use, for up to `wait` seconds.

    Raises:
        DestinationInUse: it was still in use.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(DestinationInUse),
        stop=stop_after_delay(wait),
        wait=wait_fixed(min(LOOK_SECONDS, wait)),
        reraise=True,
    )
    result: T = retrying(attempt)
    return result


def when_free(attempt: Callable[[], T], wait: float) -> T:
    """Retry an attempt that opens a DuckDB file while another process holds it, for up to `wait` seconds.

    Raises:
        DestinationInUse: it was still held.
    """
    return patiently(partial(tell_holder, attempt), wait)


def tell_holder(attempt: Callable[[], T]) -> T:
    """Make an attempt that opens a DuckDB file.

    Raises:
        DestinationInUse: another process holds it; the message has DuckDB's reason.
    """
    try:
        return attempt()
    except (DestinationException, LoadFailed) as error:
        words, mark, who = str(error).partition("Could not set lock")
        if not mark:
            raise
        # our text begins with what was not done, dlt's with its credentials
        begun = words if isinstance(error, LoadFailed) else ""
        raise DestinationInUse(f"{begun}{without_advice(mark + who)}") from None
