"""What do charts show, whatever values the rows have?"""

import re
from datetime import datetime
from typing import Any

import duckdb
import pytest

from letters_source.report.charts import CHARTS
from letters_source.report.page import draw_svg
from letters_source.report.queries import read


def drawn(chart: str, column: str, values: list[Any]) -> str:
    """A chart of contacts that have these values in one column, as SVG."""
    [found] = [each for each in CHARTS if each.name == chart]
    with duckdb.connect() as connection:
        connection.execute(f"create table contacts as select unnest(?) as {column}", [values])
        return draw_svg(found.draw(read(connection, found.query)), chart)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Buyers of last summer \U0001f389 2024", "Buyers of last summ…"),
        ("Customers of the nor\U0001f389th", "Customers of the no…"),
        ("\U0001f389" * 30, "\U0001f389" * 9 + "…"),
        ("Friends of the house", "Friends of the house"),
    ],
)
def test_long_names_are_cut_between_characters(name: str, shown: str) -> None:
    """Long names are cut between characters, and never within an emoji."""
    svg = drawn("states", "state", [name])
    assert f">{shown}</text>" in svg
    assert f"{name}: 1" in svg


@pytest.mark.parametrize(
    ("moments", "names"),
    [
        (["2024-02-29T23:30:00Z"], {"Feb 29, 2024, 23:00": 1}),
        (["2024-01-01T00:00:00Z", "2024-01-31T00:00:00Z"], {"Jan 1, 2024": 1, "Jan 31, 2024": 1}),
        (
            ["2024-01-01T00:00:00Z", "2024-12-31T00:00:00Z"],
            {"week of Jan 1, 2024": 1, "week of Dec 30, 2024": 1},
        ),
        (["2020-01-01T00:00:00Z", "2024-12-31T00:00:00Z"], {"Jan 2020": 1, "Dec 2024": 1}),
        (
            ["2015-01-01T00:00:00Z", "2024-12-31T00:00:00Z"],
            {"quarter from Jan 2015": 1, "quarter from Oct 2024": 1},
        ),
        (["1990-01-01T00:00:00Z", "2024-12-31T00:00:00Z"], {"1990": 1, "2024": 1}),
        (["1024-01-01T00:00:00Z", "2024-12-31T00:00:00Z"], {"century from 1000": 1, "century from 2000": 1}),
    ],
)
def test_periods_fit_the_time_they_span(moments: list[str], names: dict[str, int]) -> None:
    """Periods are hours to centuries, whichever fits the time that they span."""
    svg = drawn("created", "created_at", list(map(datetime.fromisoformat, moments)))
    marks = re.findall(r"<title>([^<]*): (\d+)</title>", svg)
    assert [(name, int(number)) for name, number in marks] == list(names.items())
