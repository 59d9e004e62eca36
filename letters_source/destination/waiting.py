"""How is a place waited for that somebody else uses?"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dlt.common.destination.exceptions import DestinationException
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from letters_source.destination.quoting import without_advice
from letters_source.errors import DestinationInUse, LoadFailed

# how often to look whether a place is free again: a load takes seconds at least
LOOK_SECONDS = 0.2
T = TypeVar("T")


def patiently(attempt: Callable[[], T], wait: float) -> T:
    """Make an attempt, again and again until the place that it needs is free or the time is over.

    Raises:
        DestinationInUse: it was not free in time.
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
    """Make an attempt that opens a DuckDB file, until no other process holds it or the time is over.

    Raises:
        DestinationInUse: one held it all the time.
    """
    return patiently(partial(tell_holder, attempt), wait)


def tell_holder(attempt: Callable[[], T]) -> T:
    """Make an attempt that opens a DuckDB file.

    Raises:
        DestinationInUse: another process holds it.
    """
    try:
        return attempt()
    except (DestinationException, LoadFailed) as error:
        words, mark, who = str(error).partition("Could not set lock")
        if not mark:
            raise
        # of ours the beginning tells what was not done; of dlt's it is about credentials
        begun = words if isinstance(error, LoadFailed) else ""
        raise DestinationInUse(f"{begun}{without_advice(mark + who)}") from None
