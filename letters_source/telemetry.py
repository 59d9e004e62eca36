"""Phases of a load: lines of the log, and spans and counters for OpenTelemetry where its SDK is configured.

Whoever configures the SDK has imported OpenTelemetry's API: our command (`cli/exporting.py`), the user's program, or
`opentelemetry-instrument`.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from opentelemetry.trace import Span

NAME = "letters_source"
PHASES = logging.getLogger("letters_source.phases")
"""The log of phases, which a terminal shows as a line that is replaced."""
UNITS = {"rows": "{row}", "requests": "{request}", "retries": "{retry}"}
T = TypeVar("T")


def is_in_use() -> bool:
    """Return whether the program uses OpenTelemetry; importing its API would take 90 ms of every load."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def phase(words: str, name: str, level: int = logging.INFO) -> Iterator[None]:
    """Run the block as a phase of the load: a line of the log in these words, and a span of this name."""
    PHASES.log(level, words)
    with span(name):
        yield


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """Run the block in a span of this name; an error sets its status and `error.type`, without a message."""
    if not is_in_use():
        yield
        return
    from opentelemetry import trace

    tracer = trace.get_tracer(NAME)
    # messages and tracebacks can quote a filter or a value
    with tracer.start_as_current_span(
        f"letters.{name}",
        attributes=named({**shared_attributes(), **attributes}),
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield
        except BaseException as error:
            mark_failed(current, error)
            raise


def mark_failed(current: "Span", error: BaseException) -> None:
    """Set the status of a span whose block raised."""
    from opentelemetry.trace import StatusCode

    current.set_status(StatusCode.ERROR)
    current.set_attribute("error.type", type(error).__name__)


@contextmanager
def entered(name: str, context: AbstractContextManager[T]) -> Iterator[T]:
    """Enter a context manager in a span that ends before the block."""
    with ExitStack() as stack:
        with span(name):
            value = stack.enter_context(context)
        yield value


@contextmanager
def shared(**attributes: str) -> Iterator[None]:
    """Give the attributes to all spans and counters of the block."""
    if not is_in_use():
        yield
        return
    from opentelemetry import context

    # a value of the context, which stays in the process: baggage could be sent to the service
    token = context.attach(context.set_value(NAME, attributes))
    try:
        yield
    finally:
        context.detach(token)


def shared_attributes() -> dict[str, str]:
    """Return the attributes that `shared` gave."""
    from opentelemetry import context

    found: Any = context.get_value(NAME) or {}
    return dict(found)


def count(name: str, number: int, **attributes: str) -> None:
    """Add to a counter: rows, requests or retries."""
    if not is_in_use():
        return
    from opentelemetry import metrics

    counter = metrics.get_meter(NAME).create_counter(f"letters.{name}", UNITS[name])
    counter.add(number, named({**shared_attributes(), **attributes}))


@contextmanager
def counted(totals: Mapping[str, int], **attributes: str) -> Iterator[None]:
    """Add a client's totals to the counters of requests and retries when the block ends, also by an error."""
    try:
        yield
    finally:
        for name in ("requests", "retries"):
            count(name, totals[name], **attributes)


def named(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes with the names that OpenTelemetry gets."""
    return {f"letters.{name}": value for name, value in attributes.items()}
