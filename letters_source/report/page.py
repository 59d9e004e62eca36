"""Writes the report: one HTML page with an account's charts, its templates, and how complete the last load is."""

import os
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import duckdb
import vl_convert
from jinja2 import Environment, StrictUndefined

from letters_source.errors import SettingsError
from letters_source.report.charts import CHARTS, HISTORY, Chart
from letters_source.report.dataset import open_tables
from letters_source.report.queries import GALLERY, LAST_LOADS, LAST_READ, Rows, read
from letters_source.report.summary import VERDICTS, summarize
from letters_source.results import Run
from letters_source.tables import DATASET

PAGE = b"<!DOCTYPE html>"
# Vega escapes attribute values
SIZE = re.compile(r'(<svg [^>]*?) width="[^"]*" height="[^"]*"')
MARK = re.compile(r'<path aria-label="([^"]*)"( role="graphics-symbol"[^>]*)/>')
# the page sets the colors, for light and dark mode
STYLE = {
    "background": "transparent",
    # vl-convert brings this font, so text widths do not depend on the machine
    "font": "sans-serif",
    "bar": {"color": "var(--accent)"},
    "line": {"color": "var(--accent)", "strokeWidth": 2},
    "point": {"color": "var(--accent)"},
    "text": {"color": "var(--muted)", "fontSize": 12},
    "view": {"stroke": "transparent"},
    "axis": {
        "labelColor": "var(--ink)",
        "labelFontSize": 12,
        "labelPadding": 6,
        "gridColor": "var(--rule)",
        "domainColor": "var(--rule)",
        "tickColor": "var(--rule)",
    },
    "padding": 0,
}

ANOTHER_PAGE = "choose another $page."


def write_report(file: Path, source: Path | str, dataset: str = DATASET, runs: Sequence[Run] = ()) -> int:
    """Write the page of a dataset in a DuckDB file or folder; return its size in bytes, or raise `SettingsError`.

    `runs` are the last runs of the ledger, the newest first.
    """
    if os.path.exists(file) and not (file.is_file() and file.read_bytes().startswith(PAGE)):
        raise SettingsError(f"{file} exists and is not an HTML page", advice=ANOTHER_PAGE, key="page")
    with open_tables(source, dataset, every_table=True) as connection:
        page = render({"source": Path(source).name, "dataset": dataset, "runs": runs, **contents(connection)})
    partial = file.with_name(f".{file.name}.partial")
    try:
        size = partial.write_bytes(page.encode())
        partial.replace(file)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}", advice=ANOTHER_PAGE, key="page") from None
    return size


def in_words(ending: str) -> str:
    """Return how a run ended, with verdicts in the report's words."""
    return "; ".join(VERDICTS.get(word, word) for word in ending.split(", "))


def render(contents: Mapping[str, Any]) -> str:
    """Return the page as HTML; every value is escaped, and a missing one is an error."""
    page, style = ((files(__package__) / f"page.{kind}").read_text("utf-8") for kind in ("html", "css"))
    # browsers apply only this style, whatever a text on the page contains
    digest = b64encode(sha256(style.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["in_words"] = in_words
    environment.filters["digits"] = lambda number: "\u2013" if number is None else f"{number:,}"
    return environment.from_string(page).render(style=style, style_hash=digest, verdicts=VERDICTS, **contents)


def contents(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return what the page shows, under the names that `page.html` uses."""
    found = [(chart, read(connection, chart.query)) for chart in CHARTS]
    groups = draw_groups(found)
    was_ignored = {row["listing"]: row["is_ignored"] for row in read(connection, LAST_READ)}
    optional = [chart for chart, rows in found if chart.table and not rows]
    return {
        "summary": summarize(connection),
        "history": groups.pop(HISTORY, []),
        "groups": groups,
        "ignored": [chart for chart in optional if was_ignored.get(chart.table)],
        "absent": {chart.group: chart.option for chart in optional if chart.table not in was_ignored},
        "gallery": [thumbnail(row) for row in read(connection, GALLERY)],
        "loads": read(connection, LAST_LOADS),
    }


def draw_groups(found: Iterable[tuple[Chart, Rows]]) -> dict[str, list[dict[str, Any]]]:
    """Return the charts that have rows, as SVG or as a sentence, by the headings of their groups."""
    groups = defaultdict(list)
    for chart, rows in found:
        if rows:
            heading, sentence = chart.heading(rows), chart.sentence(rows)
            svg = "" if sentence else draw_svg(chart.draw(rows), escape(chart.title or heading))
            groups[heading].append({"chart": chart, "svg": svg, "sentence": sentence})
    return dict(groups)


def draw_svg(chart: alt.LayerChart, label: str) -> str:
    """Return the chart as SVG of flexible width, with a tooltip for each mark; the label must be escaped."""
    svg = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": STYLE})
    labeled = SIZE.sub(rf'\1 role="group" aria-label="{label}"', svg, count=1)
    return MARK.sub(r'<path aria-label="\1"\2><title>\1</title></path>', labeled)


def thumbnail(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template of the gallery with what its drawn sheet needs: initials, width and height."""
    title, link = template["title"] or "Untitled", template["thumbnail_url"] or ""
    width, height = sheet(template["paper_size"] or "")
    return {
        **template,
        "title": title,
        "initials": "".join(word[0].upper() for word in re.findall(r"\w+", template["title"] or "")[:2]),
        "width": width,
        "height": height,
        # any other scheme, such as javascript:, could run code
        "link": link if re.match("https?://", link) else None,
    }


def sheet(size: str) -> tuple[int, int]:
    """Return the width and height to draw, 100 at most, of a paper size such as 8.5x11."""
    numbers = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*x\s*(\d+(?:\.\d+)?)\s*", size)
    width, height = map(float, numbers.groups()) if numbers else (8.5, 11.0)
    # narrower or wider sheets would not fit their place
    ratio = min(max(width / (height or 1), 0.6), 1.6)
    return (round(100 * ratio), 100) if ratio < 1 else (100, round(100 / ratio))
