"""What stopped a load, in our own words, without dlt's account of its steps around it?"""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from dlt.common.configuration.exceptions import ConfigurationException
from dlt.common.destination.exceptions import DestinationException
from dlt.pipeline.exceptions import PipelineStepFailed

from letters_source.errors import LettersError, LoadFailed

ENGINES = (duckdb.Error, pa.ArrowException)
"""What the engines raise that look at tables."""
QUOTING = {"DataError", "IntegrityError"}
"""Errors of databases (PEP 249) whose words hold the value that they are about."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what stopped the load, without dlt's account of its own steps around it.

    Raises:
        LettersError: ours, from inside the source.
        LoadFailed: anything else that stopped dlt.
        KeyboardInterrupt: the user did, also where DuckDB calls it an error.
    """
    try:
        yield
    except RuntimeError as failure:
        # DuckDB's word for a statement that was interrupted
        if any(isinstance(cause, KeyboardInterrupt) for cause in causes(failure)):
            raise KeyboardInterrupt from None
        raise
    except (PipelineStepFailed, DestinationException, ConfigurationException, *ENGINES) as failure:
        ours = (cause for cause in causes(failure) if isinstance(cause, LettersError | KeyboardInterrupt))
        step = f"{failure.step}: " if isinstance(failure, PipelineStepFailed) else ""
        raise next(ours, LoadFailed(f"{step}{innermost(failure)}")) from failure


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
