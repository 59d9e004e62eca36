"""Translates errors of dlt and of query engines into ours, each in one line."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import duckdb
import pyarrow as pa
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.errors import LettersError, LoadFailed
from letters_source.wording import causes, is_interrupt, reason, root_cause

FOREIGN = (PipelineStepFailed, DestinationException, ConfigurationException, duckdb.Error, pa.ArrowException)
"""Errors of dlt and of the engines that read tables."""
ADVICE = "load again, and see the cause if that fails too (--debug shows it)."
P = ParamSpec("P")
T = TypeVar("T")


def plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function to raise the error that stopped a load, as `plain_error` returns it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (RuntimeError, *FOREIGN) as error:
            failure = error
        # outside the `except` block: dlt's errors chain to ours, so chaining back would make a cycle
        try:
            raise plain_error(failure)
        finally:
            # breaks the reference cycle between the error's traceback and this frame
            del failure

    return call


def plain_error(failure: Exception) -> BaseException:
    """Return our error, or the interrupt, that caused a failure; `LoadFailed` for other errors of dlt and engines."""
    found = next((cause for cause in causes(failure) if isinstance(cause, LettersError) or is_interrupt(cause)), None)
    if found:
        return found if isinstance(found, LettersError) else KeyboardInterrupt()
    if not isinstance(failure, FOREIGN):
        return failure
    translated = LoadFailed(f"{step_prefix(failure)}{reason(root_cause(failure))}", advice=ADVICE)
    translated.__cause__ = failure
    return translated


def step_prefix(failure: Exception) -> str:
    """Return the start of a message, with the step of dlt's pipeline that failed, if any."""
    return f"{failure.step}: " if isinstance(failure, PipelineStepFailed) else ""
