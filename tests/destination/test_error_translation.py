"""Errors of dlt and of engines become ours, without values of rows."""

import os
import signal
from functools import partial
from threading import Event, Thread

import duckdb
import pytest
from dlt.common.destination.exceptions import DestinationException

from letters_source.destination.error_translation import plain_errors
from letters_source.errors import (
    DestinationError,
    DestinationInUse,
    DestinationUnreachable,
    IncompleteListing,
    LettersError,
    LoadFailed,
    ServiceUnreachable,
    SettingsError,
)
from letters_source.wording import reason


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("select 'canary'::int", "ConversionException"),
        ("create table t (a text primary key); insert into t values ('canary'), ('canary')", "ConstraintException"),
        ("from nowhere", "Table with name nowhere does not exist!"),
    ],
)
def test_a_database_s_words_about_a_value_are_left_out(statement: str, words: str) -> None:
    """The reason of a database's error leaves out values of rows, and keeps messages without any."""
    with pytest.raises(duckdb.Error) as caught:
        duckdb.connect().execute(statement)
    assert reason(caught.value) == words


def test_an_interrupt_that_duckdb_calls_an_error_is_one() -> None:
    """Ctrl-C during a statement of DuckDB raises KeyboardInterrupt."""
    under_way = Event()

    def begin(number: int) -> int:
        under_way.set()
        return number

    def interrupt() -> None:
        under_way.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    with duckdb.connect() as connection:
        connection.create_function("begin", begin, side_effects=True)
        connection.execute("CREATE TABLE numbers AS FROM range(3000000) numbers(n)")
        started = "SELECT begin(n) AS n FROM numbers WHERE n = 1"
        endless = partial(
            connection.execute, f"SELECT count(*) FROM ({started}) s, numbers a, numbers b WHERE a.n * b.n % 7 = s.n"
        )
        Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            plain_errors(endless)()
        # closing waits for DuckDB's other threads, which may still be computing the result
        connection.interrupt()


def fail_without_the_interrupt() -> None:
    """Raise what DuckDB 2 raises for an interrupt."""
    raise RuntimeError("Query interrupted")


def test_an_interrupt_that_duckdb_2_calls_an_error_is_one() -> None:
    """Ctrl-C raises KeyboardInterrupt with DuckDB 2, too, which does not name it as the cause of its error."""
    with pytest.raises(KeyboardInterrupt):
        plain_errors(fail_without_the_interrupt)()


def fail_hiding_why() -> None:
    """Raise an error that hides its cause."""
    try:
        next(iter(()))
    except StopIteration:
        raise DestinationException("what matters") from None


def test_a_cause_that_an_error_hides_on_purpose_is_not_reported() -> None:
    """The reason of a failed load leaves out a cause that the error hides with `from None`."""
    with pytest.raises(
        LoadFailed, match=r"^what matters; load again, and see the cause if that fails too \(--debug shows it\)\.$"
    ):
        plain_errors(fail_hiding_why)()


def fail_for_a_reason() -> None:
    """Raise an error that is neither ours nor dlt's."""
    raise RuntimeError("of neither") from KeyError("why")


def test_an_error_that_is_no_interrupt_stays_what_it_is() -> None:
    """An error that is neither ours nor an interrupt is raised unchanged, with its cause."""
    with pytest.raises(RuntimeError, match=r"^of neither$") as caught:
        plain_errors(fail_for_a_reason)()
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (DestinationInUse, True),
        (DestinationError, False),
        (DestinationUnreachable, True),
        (LoadFailed, True),
        (ServiceUnreachable, True),
        (IncompleteListing, False),
        (SettingsError, False),
    ],
)
def test_errors_say_whether_a_retry_may_help(error: type[LettersError], *, may_pass: bool) -> None:
    """`may_pass` says of each error whether Airflow and Dagster should retry."""
    assert error.may_pass is may_pass


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            'IO Error: Could not set lock on file "a: b". See also https://duckdb.org',
            'Could not set lock on file "a: b"',
        ),
        ("IO Error: no link", "no link"),
        ("no kind", "no kind"),
        (
            (
                "FATAL Error: Failed: database has been invalidated because of a previous fatal error. The database "
                'must be restarted prior to being used again.\nOriginal error: "Failed to create checkpoint because of '
                'error: Could not write file "/d/l.duckdb": No space left on device"'
            ),
            'Failed to create checkpoint because of error: Could not write file "/d/l.duckdb": No space left on device',
        ),
    ],
)
def test_duckdbs_reason_is_reported_alone(message: str, cause: str) -> None:
    """DuckDB's reason is reported without the error's kind and without links; a checkpoint's is in another line."""
    assert reason(duckdb.IOException(message)) == cause
