"""Which pictures show what an account holds? Each as data: a query of the tables, and how its rows are drawn.

`queries.read` reads the rows from the connection of `opening.open_tables`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import altair as alt

from letters_source.queries import LABELED, PRODUCTS, Rows, facet, loads, most, periods, share, utc

WIDTH = 340
"""Pixels: about a phone's."""


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
    """A bar for each name, its number beside it."""
    largest = max(row["number"] for row in rows)
    data = alt.InlineData(values=[{**row, "words": f"{row['number']:,}"} for row in rows])
    axis = alt.Axis(title=None, domain=False, ticks=False, labelLimit=128, labelPadding=8)
    base = alt.Chart(data).encode(
        x=alt.X("number:Q", axis=None, scale=alt.Scale(domain=[0, largest * 1.2 or 1])),
        y=alt.Y("name:N", axis=axis, sort=alt.SortField("place"), scale=alt.Scale(paddingInner=0.35, paddingOuter=0.1)),
        tooltip=["name:N", alt.Tooltip("words:N", title="number")],
    )
    numbers = base.mark_text(align="left", dx=6).encode(text="words:N")
    return framed(base.mark_bar(cornerRadius=2), numbers, height=24 * len(rows))


def columns(rows: Rows) -> alt.LayerChart:
    """A column for each period."""
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=time_axis("since"), x2="until", y=number_axis(), tooltip=["name:N", alt.Tooltip("number:Q", format=",")]
    )
    return framed(base.mark_bar(binSpacing=1), height=200)


def line(rows: Rows) -> alt.LayerChart:
    """A point for each load, a line for each account."""
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=time_axis("at"),
        y=number_axis(),
        detail="account:N",
        tooltip=["name:N", alt.Tooltip("number:Q", format=","), "verdict:N"],
    )
    return framed(base.mark_line(tooltip=False), base.mark_point(filled=True, size=40), height=140)


def time_axis(name: str) -> alt.X:
    """Moments, of UTC."""
    axis = alt.Axis(grid=False, tickCount=4, labelFlush=True)
    return alt.X(f"{name}:T", title=None, scale=alt.Scale(type="utc"), axis=axis)


def number_axis() -> alt.Y:
    """Numbers from zero, with few lines to hold on to."""
    axis = alt.Axis(tickCount=4, tickMinStep=1, format="~s", domain=False, ticks=False)
    return alt.Y("number:Q", title=None, axis=axis)


def framed(*layers: alt.Chart, height: int) -> alt.LayerChart:
    """The layers as one chart, all of it within the width."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.LayerChart(layer=list(layers), width=WIDTH, height=height, autosize=fit)


MAILED = facet("contacts__last_mailed_statuses", "last_mailed_status")
STATUSES = "Address and mailing status"
TEMPLATES = "Templates by product"
HISTORY = "Loads over time"
FACETS = "--facets"

PICTURES = (
    Picture("states", "Contacts by state", "", share("state", "contacts"), bars),
    Picture("created", "Contacts created over time", "", periods(utc("created_at"), "contacts"), columns),
    Picture("labels", "Labels", "Contacts with each label", most(LABELED), bars),
    Picture("address_status", STATUSES, "Address", facet("contacts__address_statuses", "address_status"), bars, FACETS),
    Picture("mailed_status", STATUSES, "Last mailing", MAILED, bars, FACETS),
    Picture("mailings", "Mailed over time", "", periods("mailed_on::TIMESTAMP", "mailings"), columns, "--mailings"),
    Picture("product", TEMPLATES, "Product", share("product_type", PRODUCTS), bars),
    Picture("paper", TEMPLATES, "Paper", share("concat_ws(', ', paper_type, paper_size)", PRODUCTS), bars),
    Picture("envelope", TEMPLATES, "Envelope", share("envelope_type", PRODUCTS), bars),
    Picture("postage", TEMPLATES, "Postage", share("postage_type", PRODUCTS), bars),
    Picture("delivery", TEMPLATES, "Delivery", share("delivery_type", PRODUCTS), bars),
    Picture("contacts_loaded", HISTORY, "Contacts", loads("contacts"), line),
    Picture("templates_loaded", HISTORY, "Templates", loads("templates"), line),
)
"""In the order in which they are shown."""
