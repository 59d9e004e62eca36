"""Translates errors of dlt, databases and engines into ours, in one line each."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

import duckdb
import pyarrow as pa
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.errors import LettersError, LoadFailed

FOREIGN = (PipelineStepFailed, DestinationException, ConfigurationException, duckdb.Error, pa.ArrowException)
"""What dlt, and the engines that read tables, raise."""
QUOTING = {"DataError", "IntegrityError"}
"""Errors of databases (PEP 249) whose words hold the value that they are about."""
P = ParamSpec("P")
T = TypeVar("T")


def plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that it raises what stopped a load, without dlt's account of its own steps around it.

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
    """Ours where one stopped the load, else what stopped it in a line; an error of nobody's stays what it is."""
    ours = next((cause for cause in causes(failure) if isinstance(cause, LettersError | KeyboardInterrupt)), None)
    if ours or not isinstance(failure, FOREIGN):
        return ours or failure
    step = f"{failure.step}: " if isinstance(failure, PipelineStepFailed) else ""
    translated = LoadFailed(f"{step}{innermost(failure)}")
    translated.__cause__ = failure
    return translated


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, the outermost first."""
    current: BaseException | None = error
    while current:
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def innermost(error: BaseException) -> str:
    """The first line of the error that came first, or its kind where it says nothing, or could say a row's value.

    Of PostgreSQL's errors a kind has the constraint with it, and words tell who says them.
    """
    first = list(causes(error))[-1]
    quotes = QUOTING.intersection(kind.__name__ for kind in type(first).__mro__)
    words = "" if quotes else str(first).strip().partition("\n")[0]
    constraint = getattr(getattr(first, "diag", None), "constraint_name", None)
    kind = f"{type(first).__name__} ({constraint})" if constraint else type(first).__name__
    speaker = "PostgreSQL: " if type(first).__module__.startswith("psycopg2") else ""
    return f"{speaker}{words or kind}"
