"""The report's charts: for each a query, and a function that draws the query's rows with Altair."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from unicodedata import east_asian_width

import altair as alt

from letters_source.report.queries import (
    GRAINS,
    LABELED,
    MINUTE,
    NONE,
    NOT_ASKED,
    PRODUCTS,
    Rows,
    facet,
    loads,
    periods,
    share,
    top,
    utc,
)
from letters_source.report.summary import number_of

WIDTH = 340
"""Pixels: about the width of a phone."""
LABEL_WIDTH, LABEL_CHARACTERS = 130, 20
"""The room for a bar's label, in pixels and in characters."""
EXTENT = LABEL_WIDTH + 8
COLORS = {"contacts": "#23688f", "templates": "#b4512d"}
"""The colors of charts that count contacts or templates, in light mode; the same as in `page.css`."""
PLAIN: Any = {"title": None, "domain": False, "ticks": False}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a query's rows; without rows there is nothing to draw."""

    name: str
    group: str  # a heading for one or more charts
    title: str
    query: str
    draw: Callable[[Rows], alt.LayerChart]
    option: str = ""  # of `letters load`, that loads the data
    table: str = ""  # that the option loads
    counts: str = "contacts"  # or templates

    def heading(self, rows: Rows) -> str:
        """Return the group's name, with the length of the periods if the rows are periods."""
        return f"{self.group} per {rows[0]['grain']}" if rows and "grain" in rows[0] else self.group

    def sentence(self, rows: Rows) -> str:
        """Return what a chart of a single value would show; empty if there are more."""
        if len(rows) != 1:
            return ""
        [row] = rows
        number = number_of(row["number"], self.counts)
        if "grain" in row:
            return f"All within one {row['grain']}: {row['name']} ({number})."
        return f"The only value is {row['name']} ({number})."


def bars(rows: Rows) -> alt.LayerChart:
    """Draw a bar with its number for each name. The sum of all others has no bar, because it would dwarf the rest."""
    longest = max((row["number"] for row in rows if row["gathered"] == 1), default=0)
    labels = {row["place"]: row["name"] for row in rows}
    # Vega counts UTF-16 units when it shortens a label, and fails to draw half of a character such as an emoji
    is_cut_here = max("".join(labels.values()), default="") > "\uffff"
    if is_cut_here:
        labels = {place: shortened(label) for place, label in labels.items()}
    limit, names = 0 if is_cut_here else LABEL_WIDTH, f"{json.dumps(labels)}[datum.value]"
    axis = alt.Axis(labelLimit=limit, labelExpr=names, labelPadding=8, minExtent=EXTENT, maxExtent=EXTENT, **PLAIN)
    base = described(rows).transform_calculate(length="datum.gathered == 1 ? datum.number : 0")
    base = base.encode(
        x=alt.X("length:Q", axis=None, stack=None, scale=alt.Scale(domain=[0, longest * 1.25 or 1])),
        y=alt.Y("place:O", axis=axis, scale=alt.Scale(paddingInner=0.35, paddingOuter=0.1)),
        opacity=alt.when(f"indexof({json.dumps([NONE, NOT_ASKED])}, datum.name) >= 0")
        .then(alt.value(0.45))
        .otherwise(alt.value(1)),
    )
    numbers = base.mark_text(align="left", dx=6, aria=False, tooltip=False)
    digits = numbers.encode(text=alt.Text("number:Q", format=","), opacity=alt.value(1))
    return layered(base.mark_bar(cornerRadius=2), digits, height=24 * len(rows))


def shortened(name: str) -> str:
    """Return a name cut to the room for a label; wide characters, such as emoji, count as two."""
    widths = accumulate(2 if east_asian_width(character) in "WF" else 1 for character in name)
    fitting = sum(width <= LABEL_CHARACTERS for width in widths)
    return name if fitting == len(name) else f"{name[: fitting - 1].rstrip()}…"


def columns(rows: Rows) -> alt.LayerChart:
    """Draw a column for each period."""
    *_, form = GRAINS[rows[0]["grain"]]
    ticks = alt.Axis(grid=False, tickCount=4, labelFlush=24, labelOverlap=True, labelSeparation=12, format=form)
    base = time_chart(rows, "since", ticks).encode(x2="until", y2=alt.datum(0))
    return layered(base.mark_bar(orient="vertical", binSpacing=1), height=200)


def line(rows: Rows) -> alt.LayerChart:
    """Draw a point for each load and a line for each account; only the first and the last load's times are labeled."""
    ends = [rows[0]["at"], rows[-1]["at"]]
    ticks = alt.Axis(grid=False, values=ends, labelFlush=True, labelOverlap=False, format=MINUTE)
    base = time_chart(rows, "at", ticks).encode(detail="account:N")
    points = base.mark_point(filled=True, opacity=1, size=40)
    return layered(base.mark_line(aria=False, tooltip=False), points, height=110)


def time_chart(rows: Rows, moment: str, ticks: alt.Axis) -> alt.Chart:
    """Return a chart of numbers, from zero, over UTC time."""
    numbers = alt.Axis(tickCount=3, tickMinStep=1, format=",d", **PLAIN)
    return described(rows).encode(
        x=alt.X(f"{moment}:T", title=None, scale=alt.Scale(type="utc"), axis=ticks),
        y=alt.Y("number:Q", axis=numbers, scale=alt.Scale(zero=True)),
    )


def described(rows: Rows) -> alt.Chart:
    """Return a chart of rows whose marks have their name and number as tooltip and for screen readers."""
    text = "datum.name + ': ' + format(datum.number, ',')"
    return alt.Chart(alt.InlineData(rows)).transform_calculate(text=text).encode(tooltip="text:N", description="text:N")


def layered(*layers: alt.Chart, height: int) -> alt.LayerChart:
    """Return the layers as one chart that fits the width."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.LayerChart(layer=list(layers), width=WIDTH, height=height, autosize=fit)


ADDRESS, MAILED = "contacts__address_statuses", "contacts__last_mailed_statuses"
STATUSES = "Address and mailing status"
TEMPLATES = "Templates by product"
HISTORY = "Loads over time"
FACETS = "--facets"
# days of a longer window count where its middle is, since windows begin on other days of the week than DuckDB's weeks
MAILED_ON = "(mailed_on + ((mailed_until - mailed_on) // 2)::INTEGER)::TIMESTAMP"
WINDOW = "mailed_until - mailed_on + 1"


def of_templates(name: str, title: str, value: str) -> Chart:
    """Return the chart of a property of the templates' products."""
    return Chart(name, TEMPLATES, title, share(value, PRODUCTS), bars, counts="templates")


CHARTS = (
    Chart("states", "Contacts by state", "", share("state", "contacts"), bars),
    Chart("created", "Contacts created", "", periods(utc("created_at"), "contacts"), columns),
    Chart("labels", "Labels", "Contacts with each label", top(LABELED), bars),
    Chart("address_status", STATUSES, "Address", facet(ADDRESS, "address_status"), bars, FACETS, ADDRESS),
    Chart(
        "mailed_status", STATUSES, "Last mailing", facet(MAILED, "last_mailed_status", NOT_ASKED), bars, FACETS, MAILED
    ),
    Chart(
        "mailings",
        "Contacts last mailed",
        "",
        periods(MAILED_ON, "mailings", WINDOW),
        columns,
        "--mailings --mailings-since DAY",
        "mailings",
    ),
    of_templates("paper", "Paper", "concat_ws(', ', paper_type, paper_size)"),
    of_templates("envelope", "Envelope", "envelope_type"),
    of_templates("postage", "Postage", "postage_type"),
    of_templates("delivery", "Delivery", "delivery_type"),
    Chart("contacts_loaded", HISTORY, "Contacts", loads("contacts"), line),
    Chart("templates_loaded", HISTORY, "Templates", loads("templates"), line, counts="templates"),
)
"""In the order in which they are shown."""
