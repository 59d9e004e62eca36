"""What does the mail manager see? One page that shows an account's pictures, and how complete the last load was."""

import os
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment, StrictUndefined

from letters_source.errors import SettingsError
from letters_source.report.charts import HISTORY, PICTURES, Picture
from letters_source.report.dataset import open_tables
from letters_source.report.queries import FIGURES, GALLERY, LAST_LOADS, NEWEST, UNFINISHED, Rows, read
from letters_source.report.svg import draw_svg
from letters_source.tables import DATASET

VERDICTS = {"certified": "Complete, proven", "fenced": "Complete, checked"}
PROOFS = {
    "certified": "It is proven that nothing is missing.",
    "fenced": "The service's count stayed the same while it was read.",
}
# sheets may be of any size, but a tile holds only so long a shape
SHAPES = (0.6, 1.6)
PAGE = b"<!DOCTYPE html>"


def write_report(file: Path, source: Path | str, dataset: str = DATASET) -> int:
    """Write the page of a dataset, and return its size in bytes.

    Args:
        file: the page; an earlier one is replaced.
        source: a DuckDB file or a folder of Parquet files, as in `open_tables`.
        dataset: the schema in the file, or the folder in the folder.

    Raises:
        SettingsError: the dataset cannot be opened, or the page not be written.
    """
    if os.path.exists(file) and not (file.is_file() and file.read_bytes().startswith(PAGE)):
        raise SettingsError(f"{file} is no page, and would be lost: choose another --html.")
    with open_tables(source, dataset) as connection:
        page = render(connection, Path(source).name, dataset)
    half = file.with_name(f".{file.name}.half")
    try:
        size = half.write_bytes(page.encode())
        half.replace(file)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}; choose another --html.") from None
    return size


def render(connection: duckdb.DuckDBPyConnection, source: str, dataset: str) -> str:
    """The page as HTML text."""
    style = resource("page.css")
    # a browser heeds this style alone, whatever a text on the page may smuggle in
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = environment().from_string(resource("page.html"))
    return page.render(source=source, dataset=dataset, style=style, style_hash=digest, **contents(connection))


def contents(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """What the page shows, by the names that `page.html` has for it."""
    newest = read(connection, NEWEST)
    found = [(picture, read(connection, picture.query)) for picture in PICTURES]
    groups, figures = draw_groups(found), read(connection, FIGURES)[0]
    return {
        "figures": figures,
        "loaded": [row["listing"] for row in newest],
        "summary": summarise(newest, figures, is_finished=not read(connection, UNFINISHED)),
        "groups": {title: pictures for title, pictures in groups.items() if title != HISTORY},
        "history": groups.get(HISTORY, []),
        "absent": sorted({(each.group, each.option) for each, rows in found if each.option and not rows}),
        "gallery": [tile(row) for row in read(connection, GALLERY)],
        "loads": read(connection, LAST_LOADS),
        "verdicts": VERDICTS,
    }


def environment() -> Environment:
    """What fills the page: every value is escaped, a missing one is an error."""
    found = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters["digits"] = lambda number: f"{number:,}"
    return found


def resource(name: str) -> str:
    """A text file of this package."""
    return files("letters_source.report").joinpath(name).read_text("utf-8")


def summarise(newest: Rows, figures: Mapping[str, int], *, is_finished: bool) -> dict[str, Any]:
    """Whether everything is there, in a headline and a sentence or two, and since when.

    Args:
        newest: the last reading of each listing.
        figures: how many rows there are now.
        is_finished: whether all of them are of loads that finished.
    """
    if not is_finished:
        words = "A load did not finish, and has left some of its rows: load again."
        return {"headline": "Not complete", "words": words, "when": tell_when(newest), "whole": False}
    if not newest:
        words = "Neither contacts nor templates were loaded into this dataset."
        return {"headline": "Nothing loaded yet", "words": words, "when": "", "whole": False}
    short = [row for row in newest if figures[row["listing"]] < row["rows"]]
    if short:
        here = " and ".join(f"{figures[row['listing']]:,} of {row['rows']:,} {row['listing']}" for row in short)
        words = f"Of what was read, only {here} are in the dataset: load again."
        return {"headline": "Not complete", "words": words, "when": tell_when(newest), "whole": False}
    words = f"{all_there(newest)} {tell_proof(newest)}"
    return {"headline": "Complete", "words": words, "when": tell_when(newest), "whole": True}


def tell_proof(newest: Rows) -> str:
    """How that is known, and what was set aside."""
    rejected = sum(row["rejected"] for row in newest)
    aside = f" {rejected:,} more came without an identifier and were set aside." if rejected else ""
    # the weaker one, see walk.Proof
    return PROOFS.get(max(row["verdict"] for row in newest), "") + aside


def all_there(newest: Rows) -> str:
    """What is there, as a sentence."""
    if not any(row["rows"] for row in newest):
        return f"The service counts no {' and no '.join(row['listing'] for row in newest)}."
    chosen = "Everything that matches the chosen filters" if any(row["filters"] for row in newest) else "Everything"
    return f"{chosen} is here: {' and '.join(counted(row['rows'], row['listing']) for row in newest)}."


def counted(number: int, things: str) -> str:
    """A number of things."""
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def tell_when(newest: Rows) -> str:
    """When the listings were read."""
    moments = {row["listing"]: f"{row['at']} UTC" for row in newest}
    if not moments:
        return ""
    if len(set(moments.values())) == 1:
        return f"Loaded {newest[0]['at']} UTC"
    words = ", ".join(f"{listing} loaded {moment}" for listing, moment in moments.items())
    return words[0].upper() + words[1:]


def draw_groups(found: Iterable[tuple[Picture, Rows]]) -> dict[str, list[dict[str, str]]]:
    """The pictures that have something to show, by their headings."""
    groups = defaultdict(list)
    for picture, rows in found:
        if rows:
            svg = draw_svg(picture.draw(rows), escape(picture.title or picture.group))
            groups[picture.group].append({"name": picture.name, "title": picture.title, "svg": svg})
    return dict(groups)


def tile(template: dict[str, Any]) -> dict[str, Any]:
    """A template in the gallery: a sheet of its shape with its first letters, as the thumbnail itself is elsewhere."""
    width, height = sheet(template["paper_size"] or "")
    link = template["thumbnail_url"] or ""
    return {
        **template,
        "title": template["title"] or "Untitled",
        "letters": "".join(word[0].upper() for word in re.findall(r"\w+", template["title"] or "")[:2]),
        "width": width,
        "height": height,
        # any other scheme, such as javascript, would run something
        "link": link if re.match("https?://", link) else None,
    }


def sheet(size: str) -> tuple[int, int]:
    """Width and height of a sheet in a tile, from a paper size such as 8.5x11."""
    numbers = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*x\s*(\d+(?:\.\d+)?)\s*", size)
    width, height = map(float, numbers.groups()) if numbers else (8.5, 11.0)
    shape = min(max(width / (height or 1), SHAPES[0]), SHAPES[1])
    return (round(100 * shape), 100) if shape < 1 else (100, round(100 / shape))
