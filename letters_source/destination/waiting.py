"""Waits for a destination that another process is using."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dlt.common.destination.exceptions import DestinationException
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from letters_source.errors import DestinationInUse, LoadFailed, without_advice

# seconds between attempts; loads take seconds
LOOK_SECONDS = 0.2
T = TypeVar("T")


def patiently(attempt: Callable[[], T], wait: float) -> T:
    """Retry an attempt while the destination is in use, for up to `wait` seconds, or raise `DestinationInUse`."""
    retrying = Retrying(
        retry=retry_if_exception_type(DestinationInUse),
        stop=stop_after_delay(wait),
        wait=wait_fixed(min(LOOK_SECONDS, wait)),
        reraise=True,
    )
    result: T = retrying(attempt)
    return result


def when_free(attempt: Callable[[], T], wait: float) -> T:
    """Retry an attempt to open a DuckDB file while another process has it open, for up to `wait` seconds.

    Raises:
        DestinationInUse: it is still open after that.
    """
    return patiently(partial(tell_holder, attempt), wait)


def tell_holder(attempt: Callable[[], T]) -> T:
    """Attempt to open a DuckDB file, or raise `DestinationInUse`."""
    try:
        return attempt()
    except (DestinationException, LoadFailed) as error:
        before, mark, after = str(error).partition("Could not set lock")
        if not mark:
            raise
        # our message starts with what failed, dlt's with its credentials
        prefix = before if isinstance(error, LoadFailed) else ""
        raise DestinationInUse(f"{prefix}{without_advice(mark + after)}") from None
