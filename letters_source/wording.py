"""How messages word numbers, pages, and the reasons of other libraries' errors."""

import re
from collections.abc import Iterator

QUOTING = {"DataError", "IntegrityError"}
"""Errors of databases (PEP 249) whose text quotes the value that they are about."""
DUCKDB_KIND = re.compile(r"^(?:[A-Za-z]+ )+Error: ")
"""The kind of error that DuckDB puts before its text."""
CHECKPOINT = re.compile(r'^Original error: "(Failed to create checkpoint .+)"$', re.MULTILINE)
"""Why a checkpoint failed, such as a full disk: the first line only says that nothing works after it."""
AROUND = "response."
"""How the names of fields begin that stand around the rows of a page."""


def counted(number: int, noun: str = "row") -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def field_times(name: str, times: int) -> str:
    """Return how often a field came: in how many rows, or in how many pages around them."""
    return counted(times, "page" if name.startswith(AROUND) else "row")


def page_title(listing: str, page: int) -> str:
    """Return the name of a page in messages."""
    return f"{listing} page {page}"


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the outermost first."""
    current: BaseException | None = error
    while current:
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error stands for Ctrl-C: DuckDB raises its own, in release 2 without the interrupt as cause."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, RuntimeError) and str(error) == "Query interrupted"
    )


def root_cause(error: BaseException) -> BaseException:
    """Return the error that came first."""
    return list(causes(error))[-1]


def reason(error: BaseException) -> str:
    """Return the first line of an error, or its type where the text is empty or could quote a value of a row."""
    kind, module = type(error).__name__, type(error).__module__
    if constraint := getattr(getattr(error, "diag", None), "constraint_name", None):
        kind = f"{kind} ({constraint})"
    quotes = QUOTING.intersection(base.__name__ for base in type(error).__mro__)
    checkpoint = CHECKPOINT.search(str(error))
    text = checkpoint[1] if checkpoint else str(error).strip()
    words = "" if quotes else without_advice(DUCKDB_KIND.sub("", text))
    return f"{'PostgreSQL: ' if module.startswith('psycopg2') else ''}{words or kind}"


def without_advice(words: str) -> str:
    """Return the first line of a message, up to where DuckDB begins to give advice."""
    return words.partition("\n")[0].partition(" See also ")[0].partition(". However, ")[0].rstrip(".")
