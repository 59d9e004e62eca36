"""Translates errors of dlt, databases and engines into ours, in one line each."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import duckdb
import pyarrow as pa
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.errors import LettersError, LoadFailed, causes, reason, root_cause

FOREIGN = (PipelineStepFailed, DestinationException, ConfigurationException, duckdb.Error, pa.ArrowException)
"""What dlt, and the engines that read tables, raise."""
P = ParamSpec("P")
T = TypeVar("T")


def plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that it raises what stopped a load, without the errors of dlt's steps around it.

    It raises outside the `except` block: dlt's errors chain to ours, so chaining back would make a cycle.

    Raises:
        LettersError: ours, from inside the source.
        LoadFailed: anything else that stopped dlt.
        KeyboardInterrupt: the user interrupted, even where DuckDB reports that as an error.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (RuntimeError, *FOREIGN) as error:
            failure = error
        try:
            raise plain_error(failure)
        finally:
            # its traceback holds this frame, which would hold it
            del failure

    return call


def plain_error(failure: Exception) -> BaseException:
    """Our error or the interrupt that stopped a load; `LoadFailed` for a foreign error; any other error itself."""
    ours = next((cause for cause in causes(failure) if isinstance(cause, LettersError | KeyboardInterrupt)), None)
    if ours or not isinstance(failure, FOREIGN):
        return ours or failure
    step = f"{failure.step}: " if isinstance(failure, PipelineStepFailed) else ""
    translated = LoadFailed(f"{step}{reason(root_cause(failure))}")
    translated.__cause__ = failure
    return translated
