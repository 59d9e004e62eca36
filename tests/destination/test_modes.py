"""SQL of dlt that is rewritten before it runs."""

import pytest

from letters_source.destination.modes import not_exists

TABLE, STAGING = '"letters_data"."contacts"', '"letters_data_staging"."contacts"'


@pytest.mark.parametrize(
    ("condition", "inner"),
    [("", ""), (' WHERE "_dlt_valid_to" IS NULL', ' WHERE "_dlt_valid_to" IS NULL')],
    ids=["all rows", "current rows"],
)
def test_not_in_becomes_not_exists_where_the_table_is_searched(condition: str, inner: str) -> None:
    """The subquery stays as it is, and is joined with the row by the column that was looked for."""
    sql = f'SELECT 1 FROM {STAGING} AS s WHERE "row_hash" NOT IN (SELECT "row_hash" FROM {TABLE}{condition}) AND (true)'
    assert not_exists(sql, TABLE, "s") == (
        f'SELECT 1 FROM {STAGING} AS s WHERE NOT EXISTS (SELECT 1 FROM (SELECT "row_hash" FROM {TABLE}{inner}) AS held '
        'WHERE held."row_hash" = s."row_hash") AND (true)'
    )


@pytest.mark.parametrize(
    "condition",
    [
        f'"row_hash" NOT IN (SELECT "row_hash" FROM {STAGING})',
        f'"row_hash" NOT IN (SELECT "row_hash" FROM {TABLE}_of_another)',
        f'"id" NOT IN (SELECT "contact_id" FROM {TABLE})',
        f'd."row_hash" NOT IN (SELECT "row_hash" FROM {TABLE})',
        f'"row_hash" NOT IN (SELECT "row_hash" FROM {TABLE} WHERE id IN (SELECT 1))',
        f'"row_hash" IN (SELECT "row_hash" FROM {TABLE})',
    ],
)
def test_other_conditions_stay(condition: str) -> None:
    """Conditions of another table, column or form are not rewritten."""
    assert not_exists(condition, TABLE, "s") == condition


def test_names_are_taken_as_they_are() -> None:
    """A backslash or parenthesis in a name has no meaning for the pattern."""
    table = r'"a\1(b)"."contacts"'
    sql = f"DELETE FROM {table} WHERE id NOT IN (SELECT id FROM {STAGING})"
    expected = f"NOT EXISTS (SELECT 1 FROM (SELECT id FROM {STAGING}) AS held WHERE held.id = {table}.id)"
    assert not_exists(sql, STAGING, table) == f"DELETE FROM {table} WHERE {expected}"
