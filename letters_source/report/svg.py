"""How does a chart become a drawing that needs neither a program nor a network to be seen?"""

import re

import altair as alt
import vl_convert

# Vega escapes what is written in attributes
SIZE = re.compile(r'(<svg [^>]*?) width="[^"]*" height="[^"]*"')
MARK = re.compile(r'<path aria-label="([^"]*)"( role="graphics-symbol"[^>]*)/>')
# colours are those of the page around it, light or dark
STYLE = {
    "background": "transparent",
    # of the fonts that vl-convert brings, so that lengths of texts do not depend on the machine
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


def draw_svg(chart: alt.LayerChart, words: str) -> str:
    """The chart as SVG text, as wide as its place, each mark with a title that shows under the pointer.

    Args:
        words: what the drawing shows, for who cannot see it; escaped already.
    """
    drawn = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": STYLE})
    named = SIZE.sub(rf'\1 role="group" aria-label="{words}"', drawn, count=1)
    return MARK.sub(r'<path aria-label="\1"\2><title>\1</title></path>', named)
