"""Writes the report of an account, reads its contents without a browser, and computes what it must show."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from worlds import World

from letters_source.report.charts import CHARTS
from letters_source.report.dataset import open_tables
from letters_source.report.page import write_report
from letters_source.report.queries import read
from letters_source.report.summary import summarize

NOT_ASKED = "not asked or none"
BARS = {"states", "labels", "paper", "envelope", "postage", "delivery"}
USUAL = BARS | {"created"}
WHOLE = USUAL | {"address_status", "mailed_status", "mailings", "contacts_loaded", "templates_loaded"}


def report_of(world: World) -> Path:
    """The report of what a world has loaded."""
    return report_of_file(world.place)


def report_of_file(place: Path) -> Path:
    """The report of a file, next to it."""
    file = place.parent / "letters.html"
    write_report(file, place)
    return file


def summary_of(place: Path) -> dict[str, Any]:
    """Return the head of the report: where the rows are from, the figures, the headline and its sentences."""
    with open_tables(place, every_table=True) as connection:
        return summarize(connection)


def charted(place: Path, *charts: str) -> dict[str, dict[str, int]]:
    """Return the number of each name in each chart."""
    with open_tables(place, every_table=True) as connection:
        rows = {chart.name: read(connection, chart.query) for chart in CHARTS if chart.name in charts}
    return {name: {row["name"]: row["number"] for row in found} for name, found in rows.items()}


def figure_of(page: Path, name: str) -> str:
    """A figure at the head of a page."""
    [figure] = re.findall(f'<dd id="{name}">(.*?)</dd>', page.read_text())
    return str(figure)


def shares(values: Iterable[str | None], among: int = 15) -> dict[str, int]:
    """Count each value, the most frequent first; the rest is counted as others."""
    counts = sorted(Counter(value or "none" for value in values).items(), key=lambda pair: (-pair[1], pair[0]))
    if len(counts) <= among:
        return dict(counts)
    rest = counts[among - 1 :]
    return {**dict(counts[: among - 1]), f"{len(rest)} others": sum(number for _, number in rest)}
