"""Which pictures show what an account holds? Each as data: a query of the tables, and how its rows are drawn.

`queries.read` reads the rows from the connection of `opening.open_tables`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from unicodedata import east_asian_width

import altair as alt

from letters_source.report.queries import LABELED, PRODUCTS, Rows, facet, loads, most, periods, share, utc

WIDTH = 340
"""Pixels: about a phone's."""
LABEL_WIDTH, LABEL_SIGNS = 130, 20
"""What fits before a bar, in pixels, and about as many signs."""
TICKS = {
    "hour": "%-d %b %Y, %H:%M",
    "day": "%-d %b %Y",
    "week": "%-d %b %Y",
    "month": "%b %Y",
    "quarter": "%b %Y",
    "year": "%Y",
    "century": "%Y",
}
"""How the ends of each length of time in `queries.GRAINS` are written."""
SAID = {"tooltip": "said:N", "description": "said:N"}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture; without rows there is nothing to draw.

    `group` is the heading that it stands under with others, `title` its own; `option` what `letters load` needs for it.
    """

    name: str
    group: str
    title: str
    query: str
    draw: Callable[[Rows], alt.LayerChart]
    option: str = ""


def bars(rows: Rows) -> alt.LayerChart:
    """A bar for each name, its number beside it; what was gathered has no bar, which would dwarf all others."""
    lengths = [row["number"] if row["gathered"] == 1 else 0 for row in rows]
    labels = {row["place"]: row["name"] for row in rows}
    # Vega would cut in half what takes two units of UTF-16, such as an emoji, and nothing draws that
    is_cut_here = any(sign > "\uffff" for label in labels.values() for sign in label)
    if is_cut_here:
        labels = {place: shortened(label) for place, label in labels.items()}
    names = alt.Axis(
        title=None,
        domain=False,
        ticks=False,
        labelLimit=0 if is_cut_here else LABEL_WIDTH,
        labelExpr=f"{json.dumps(labels)}[datum.value]",
        labelPadding=8,
        minExtent=138,
        maxExtent=138,
    )
    base = alt.Chart(said([{**row, "length": length} for row, length in zip(rows, lengths, strict=True)])).encode(
        x=alt.X("length:Q", axis=None, stack=None, scale=alt.Scale(domain=[0, max(lengths) * 1.25 or 1])),
        y=alt.Y("place:O", axis=names, scale=alt.Scale(paddingInner=0.35, paddingOuter=0.1)),
        opacity=alt.when("datum.name == 'none'").then(alt.value(0.45)).otherwise(alt.value(1)),
        **SAID,
    )
    numbers = base.mark_text(align="left", dx=6, aria=False, tooltip=False)
    digits = numbers.encode(text="digits:N", opacity=alt.value(1))
    return framed(base.mark_bar(cornerRadius=2), digits, height=24 * len(rows))


def shortened(name: str) -> str:
    """A name as long as there is room for, with a sign for the rest; wide signs, such as emoji, count as two."""
    widths = accumulate(2 if east_asian_width(sign) in "WF" else 1 for sign in name)
    fitting = sum(width <= LABEL_SIGNS for width in widths)
    return name if fitting == len(name) else f"{name[: fitting - 1].rstrip()}…"


def columns(rows: Rows) -> alt.LayerChart:
    """A column for each period."""
    ticks = alt.Axis(
        grid=False, tickCount=4, labelFlush=24, labelOverlap=True, labelSeparation=12, format=TICKS[rows[0]["grain"]]
    )
    base = alt.Chart(said(rows)).encode(x=time("since", ticks), x2="until", y=number(), y2=alt.datum(0), **SAID)
    return framed(base.mark_bar(orient="vertical", binSpacing=1), height=200)


def line(rows: Rows) -> alt.LayerChart:
    """A point for each load, a line for each account; the first and the last load's time are told."""
    ends = [rows[0]["at"], rows[-1]["at"]]
    ticks = alt.Axis(grid=False, values=ends, labelFlush=True, labelOverlap=False, format="%-d %b %Y, %H:%M")
    base = alt.Chart(said(rows)).encode(x=time("at", ticks), y=number(), detail="account:N", **SAID)
    points = base.mark_point(filled=True, opacity=1, size=40)
    return framed(base.mark_line(aria=False, tooltip=False), points, height=110)


def said(rows: Rows) -> alt.InlineData:
    """The rows with what a reader hears, or sees under the pointer."""
    digits = [f"{row['number']:,}" for row in rows]
    return alt.InlineData(
        [
            {**row, "digits": number, "said": f"{row['name']}: {number}"}
            for row, number in zip(rows, digits, strict=True)
        ]
    )


def time(name: str, axis: alt.Axis) -> alt.X:
    """Moments, of UTC."""
    return alt.X(f"{name}:T", title=None, scale=alt.Scale(type="utc"), axis=axis)


def number() -> alt.Y:
    """Numbers from zero, with few lines to hold on to."""
    axis = alt.Axis(tickCount=3, tickMinStep=1, format=",d", domain=False, ticks=False)
    return alt.Y("number:Q", title=None, axis=axis, scale=alt.Scale(zero=True))


def framed(*layers: alt.Chart, height: int) -> alt.LayerChart:
    """The layers as one chart, all of it within the width."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.LayerChart(layer=list(layers), width=WIDTH, height=height, autosize=fit)


MAILED = facet("contacts__last_mailed_statuses", "last_mailed_status")
STATUSES = "Address and mailing status"
TEMPLATES = "Templates by product"
LAST_MAILED = "Last mailed over time"
HISTORY = "Loads over time"
FACETS = "--facets"

PICTURES = (
    Picture("states", "Contacts by state", "", share("state", "contacts"), bars),
    Picture("created", "Contacts created over time", "", periods(utc("created_at"), "contacts"), columns),
    Picture("labels", "Labels", "Contacts with each label", most(LABELED), bars),
    Picture("address_status", STATUSES, "Address", facet("contacts__address_statuses", "address_status"), bars, FACETS),
    Picture("mailed_status", STATUSES, "Last mailing", MAILED, bars, FACETS),
    Picture("mailings", LAST_MAILED, "", periods("mailed_on::TIMESTAMP", "mailings"), columns, "--mailings"),
    Picture("paper", TEMPLATES, "Paper", share("concat_ws(', ', paper_type, paper_size)", PRODUCTS), bars),
    Picture("envelope", TEMPLATES, "Envelope", share("envelope_type", PRODUCTS), bars),
    Picture("postage", TEMPLATES, "Postage", share("postage_type", PRODUCTS), bars),
    Picture("delivery", TEMPLATES, "Delivery", share("delivery_type", PRODUCTS), bars),
    Picture("contacts_loaded", HISTORY, "Contacts", loads("contacts"), line),
    Picture("templates_loaded", HISTORY, "Templates", loads("templates"), line),
)
"""In the order in which they are shown."""
