"""Do our own words tell what stopped a load, and nothing that a row holds?"""

import duckdb
import pytest

from letters_source.errors import (
    DestinationInUse,
    DestinationUnreachable,
    IncompleteListing,
    LettersError,
    LoadFailed,
    ServiceUnreachable,
    SettingsError,
)
from letters_source.failures import innermost


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("select 'canary'::int", "ConversionException"),
        ("create table t (a text primary key); insert into t values ('canary'), ('canary')", "ConstraintException"),
        ("from nowhere", "Catalog Error: Table with name nowhere does not exist!"),
    ],
)
def test_what_a_database_says_of_a_value_is_left_out(statement: str, words: str) -> None:
    """Its other words are told."""
    with pytest.raises(duckdb.Error) as caught:
        duckdb.connect().execute(statement)
    assert innermost(caught.value) == words


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (DestinationInUse, True),
        (DestinationUnreachable, True),
        (LoadFailed, True),
        (ServiceUnreachable, True),
        (IncompleteListing, False),
        (SettingsError, False),
    ],
)
def test_errors_tell_whether_trying_again_may_help(error: type[LettersError], *, may_pass: bool) -> None:
    """As Airflow and Dagster heed it."""
    assert error.may_pass is may_pass
