"""Into which periods do mailings fall?"""

from datetime import date, timedelta

import duckdb
import pytest

from letters_source.report.charts import CHARTS
from letters_source.report.queries import read

MONDAY = date(2024, 3, 4)


@pytest.mark.parametrize(
    ("days", "names"),
    [
        (1, {"Mar 4, 2024": 1, "Mar 5, 2024": 1}),
        (7, {"week of Mar 4, 2024": 1, "week of Mar 11, 2024": 1}),
        (31, {"Mar 2024": 1, "Apr 2024": 1}),
    ],
)
def test_no_period_is_shorter_than_the_windows_of_requested_mailings(days: int, names: dict[str, int]) -> None:
    """Mailings that were requested by windows of days are charted by periods that are not shorter than a window."""
    [chart] = [chart for chart in CHARTS if chart.name == "mailings"]
    starts = [MONDAY + timedelta(days=number * days) for number in (0, 1)]
    windows = [(start, start + timedelta(days=days - 1)) for start in starts]
    with duckdb.connect() as connection:
        connection.execute("create table mailings (mailed_on date, mailed_until date)")
        connection.executemany("insert into mailings values (?, ?)", windows)
        assert {row["name"]: row["number"] for row in read(connection, chart.query)} == names
