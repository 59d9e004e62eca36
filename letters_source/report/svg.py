"""Renders charts as static SVG, which needs no JavaScript and no network."""

import re

import altair as alt
import vl_convert

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


def draw_svg(chart: alt.LayerChart, label: str) -> str:
    """Return the chart as SVG of flexible width, with a tooltip for each mark; the label must be escaped."""
    svg = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": STYLE})
    labeled = SIZE.sub(rf'\1 role="group" aria-label="{label}"', svg, count=1)
    return MARK.sub(r'<path aria-label="\1"\2><title>\1</title></path>', labeled)
