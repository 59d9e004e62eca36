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
from letters_source.report.queries import FIGURES, GALLERY, LAST_LOADS, NEWEST, UNFINISHED, Rows, read
from letters_source.results import Run
from letters_source.tables import DATASET, weakest

VERDICTS = {"continuous": "Complete, changing", "stable": "Complete, unchanged", "exact": "Complete, proven"}
PROOFS = {
    "continuous": " The listing changed during the load; no row that stayed was missed.",
    "stable": " No change was seen during the load.",
    "exact": " It is proven that nothing is missing.",
}
for texts in (VERDICTS, PROOFS):
    # the names in version 0.1.0
    texts.update(fenced=texts["stable"], certified=texts["exact"])
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


def write_report(file: Path, source: Path | str, dataset: str = DATASET, runs: Sequence[Run] = ()) -> int:
    """Write the page of a dataset in a DuckDB file or folder; return its size in bytes, or raise `SettingsError`.

    `runs` are the last runs of the ledger, the newest first.
    """
    if os.path.exists(file) and not (file.is_file() and file.read_bytes().startswith(PAGE)):
        raise SettingsError(f"{file} exists and is not an HTML page; choose another --html.")
    with open_tables(source, dataset) as connection:
        page = render({"source": Path(source).name, "dataset": dataset, "runs": runs, **contents(connection)})
    partial = file.with_name(f".{file.name}.partial")
    try:
        size = partial.write_bytes(page.encode())
        partial.replace(file)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}; choose another --html.") from None
    return size


def render(contents: Mapping[str, Any]) -> str:
    """Return the page as HTML; every value is escaped, and a missing one is an error."""
    page, style = ((files(__package__) / f"page.{kind}").read_text("utf-8") for kind in ("html", "css"))
    # browsers apply only this style, whatever a text on the page contains
    digest = b64encode(sha256(style.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["digits"] = lambda number: "\u2013" if number is None else f"{number:,}"
    return environment.from_string(page).render(style=style, style_hash=digest, verdicts=VERDICTS, **contents)


def contents(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return what the page shows, under the names that `page.html` uses."""
    newest, figures = read(connection, NEWEST), read(connection, FIGURES)[0]
    found = [(chart, read(connection, chart.query)) for chart in CHARTS]
    groups = draw_groups(found)
    return {
        "figures": figures,
        "loaded": [row["listing"] for row in newest],
        "summary": summarize(newest, figures, is_finished=not read(connection, UNFINISHED)),
        "history": groups.pop(HISTORY, []),
        "groups": groups,
        "absent": sorted({(chart.group, chart.option) for chart, rows in found if chart.option and not rows}),
        "gallery": [thumbnail(row) for row in read(connection, GALLERY)],
        "loads": read(connection, LAST_LOADS),
    }


def draw_groups(found: Iterable[tuple[Chart, Rows]]) -> dict[str, list[dict[str, str]]]:
    """Return the charts that have rows as SVG, by the headings of their groups."""
    groups = defaultdict(list)
    for chart, rows in found:
        if rows:
            svg = draw_svg(chart.draw(rows), escape(chart.title or chart.group))
            groups[chart.group].append({"name": chart.name, "title": chart.title, "svg": svg})
    return dict(groups)


def draw_svg(chart: alt.LayerChart, label: str) -> str:
    """Return the chart as SVG of flexible width, with a tooltip for each mark; the label must be escaped."""
    svg = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": STYLE})
    labeled = SIZE.sub(rf'\1 role="group" aria-label="{label}"', svg, count=1)
    return MARK.sub(r'<path aria-label="\1"\2><title>\1</title></path>', labeled)


def summarize(newest: Rows, figures: Mapping[str, int], *, is_finished: bool) -> dict[str, str]:
    """Compare the last audits with the rows there are now; return a headline, the details, and when it was loaded."""
    missing = " and ".join(
        f"{figures[row['listing']]:,} of {row['rows']:,} {row['listing']}"
        for row in newest
        if figures[row["listing"]] < row["rows"]
    )
    if not is_finished:
        headline, text = "Not complete", "A load did not finish and left some of its rows. Run the load again."
    elif not newest:
        headline, text = "Nothing loaded yet", "This dataset has no loads of contacts or templates."
    elif missing:
        headline, text = "Not complete", f"Only {missing} are in the dataset. Run the load again."
    else:
        headline, text = "Complete", found_all(newest)
    return {"headline": headline, "text": text, "loaded": loaded_at(newest)}


def found_all(newest: Rows) -> str:
    """Return what a complete dataset holds, how that is known, and what was rejected."""
    counts = " and ".join(
        f"{row['rows']:,} {row['listing'].removesuffix('s') if row['rows'] == 1 else row['listing']}" for row in newest
    )
    scope = "Everything that matches the filters" if any(row["filters"] for row in newest) else "Everything"
    rejected = sum(row["rejected"] for row in newest)
    text = f"{scope} is here: {counts}." if any(row["rows"] for row in newest) else f"The service has {counts}."
    proof = PROOFS.get(weakest(row["verdict"] for row in newest) or "", "")
    return f"{text}{proof}" + (f" {rejected:,} more without an ID were rejected." if rejected else "")


def loaded_at(newest: Rows) -> str:
    """Return when the listings were loaded, as one time if they were loaded together."""
    if len({row["at"] for row in newest}) == 1:
        return f"Loaded {newest[0]['at']} UTC"
    text = "; ".join(f"{row['listing']} loaded {row['at']} UTC" for row in newest)
    return text[:1].upper() + text[1:]


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
