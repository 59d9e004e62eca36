"""A view's statement without the name of its database, whatever part of the query names it."""

import duckdb
import pytest

from letters_source.destination.duckdb_views import portable


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("SELECT id FROM letters.own.areas", "SELECT id FROM own.areas"),
        ("SELECT letters.own.areas.id FROM letters.own.areas", "SELECT own.areas.id FROM own.areas"),
        ("SELECT id FROM letters.areas", "SELECT id FROM main.areas"),
        ("SELECT letters.own.twice(1)", "SELECT own.twice(1)"),
        ("SELECT letters.id FROM other AS letters", "SELECT letters.id FROM other AS letters"),
    ],
)
def test_portable_views_do_not_name_their_database(query: str, written: str) -> None:
    """Tables, columns and functions are named without the database; what only has its name stays."""
    with duckdb.connect() as connection:
        assert portable(connection, f"CREATE VIEW v AS {query}", "letters") == f"CREATE OR REPLACE VIEW v AS {written}"
