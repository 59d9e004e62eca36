"""How does a chart become a drawing that needs neither a program nor a network to be seen?"""

from xml.etree import ElementTree as ET

import altair as alt
import vl_convert

SVG = "http://www.w3.org/2000/svg"
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
    """The chart as SVG text, each mark with a title that shows under the pointer.

    Args:
        words: what the drawing shows, for who cannot see it.
    """
    spec = {**chart.to_dict(), "config": STYLE}
    root = ET.fromstring(vl_convert.vegalite_to_svg(spec))
    root.set("role", "group")
    root.set("aria-label", words)
    del root.attrib["width"], root.attrib["height"]
    for mark in root.iterfind(f".//{{{SVG}}}path[@aria-roledescription][@role='graphics-symbol']"):
        ET.SubElement(mark, f"{{{SVG}}}title").text = mark.get("aria-label")
    ET.register_namespace("", SVG)
    return ET.tostring(root, encoding="unicode")
