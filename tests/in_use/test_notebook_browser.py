"""The notebook as a user sees it: served by marimo, opened in Chromium."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from looks import PHONE
from notebooks import serve_notebook
from playwright.sync_api import Browser, FloatRect, Page, ViewportSize, expect
from worlds import World, serve_world

from letters_source.report.charts import CHARTS
from programmable_emulator import Emulator

# marimo and a browser start slowly on a busy machine
PATIENCE = 120_000
DESK: ViewportSize = {"width": 1280, "height": 1900}
DRAWN = "canvas.marks, svg.marks"
ONE_DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


class Traffic:
    """The URLs that a page requested."""

    def __init__(self, page: Page) -> None:
        self.urls: list[str] = []
        page.on("request", lambda request: self.urls.append(request.url))
        page.on("websocket", lambda socket: self.urls.append(socket.url))

    def elsewhere(self) -> list[str]:
        """Return the URLs on other machines; data and blobs are within the page."""
        parts = [(url, urlsplit(url)) for url in self.urls]
        return [url for url, part in parts if part.scheme not in ("data", "blob") and part.hostname != "127.0.0.1"]


@contextmanager
def open_notebook(browser: Browser, address: str) -> Iterator[tuple[Page, Traffic]]:
    """The notebook in a page of desktop width, high enough for the charts, and what the page requests."""
    page = browser.new_page(viewport=DESK)
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    traffic = Traffic(page)
    page.goto(address)
    yield page, traffic
    page.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """2,000 contacts and 40 templates, loaded twice, the second time with facets."""
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=Emulator(2_000, 40)) as world:
        world.load()
        world.load(facets=True)
        yield world


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    """Where the notebook of the world is served; each visitor has one of their own."""
    with serve_notebook("--from", world.place.name) as address:
        yield address


@pytest.fixture(scope="module")
def visited(browser: Browser, address: str) -> Iterator[tuple[Page, Traffic]]:
    """The notebook in a page, and its traffic.

    The first tests only read it. The others change fields of their own, and leave the world's file open.
    """
    with open_notebook(browser, address) as visited:
        yield visited


@pytest.fixture
def opened(visited: tuple[Page, Traffic]) -> tuple[Page, Traffic]:
    """The page at desktop width, and its traffic."""
    page, _ = visited
    page.set_viewport_size(DESK)
    return visited


def test_the_notebook_draws_every_chart(images: Path, opened: tuple[Page, Traffic]) -> None:
    """The notebook draws every chart, requests nothing from elsewhere, and shows no traceback."""
    page, traffic = opened
    # one more is the chart to change, and one that of the question at the end; mailings were not loaded
    expect(page.locator(DRAWN)).to_have_count(len(CHARTS) + 1)
    expect(page.get_by_text("24 of 40 templates")).to_be_visible()
    expect(page.get_by_text("letters load --mailings")).to_be_visible()
    below = page.get_by_text("Templates by product: Paper", exact=True).first.bounding_box()
    assert below
    clip: FloatRect = {"x": 0, "y": 0, "width": 1280, "height": below["y"]}
    page.screenshot(path=images / "notebook.png", clip=clip)
    page.locator("div:has(> figure)").screenshot(path=images / "notebook-templates.png")
    assert page.get_by_text("Traceback").count() == 0
    assert traffic.urls
    assert traffic.elsewhere() == []
    assert all(image.stat().st_size < 300_000 for image in images.glob("notebook*.png"))


@pytest.mark.parametrize("width", [700, PHONE])
def test_the_notebook_is_readable_in_narrow_windows(opened: tuple[Page, Traffic], width: int) -> None:
    """In a narrow window nothing is wider than it, and charts stand in a column, wide enough for their labels."""
    page, _ = opened
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.locator(DRAWN)).to_have_count(len(CHARTS) + 1)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    boxes = page.locator(".letters.charts > div").evaluate_all("all => all.map(each => each.getBoundingClientRect())")
    assert len({box["x"] for box in boxes}) == 1
    assert min(box["width"] for box in boxes) >= 320
    answer, first = (page.locator(name).first.bounding_box() for name in (".letters.answer", "table:visible"))
    assert answer
    assert first
    assert answer["y"] < first["y"]


def test_all_templates_can_be_reached(opened: tuple[Page, Traffic]) -> None:
    """A table below the drawn templates lists all of them."""
    page, traffic = opened
    page.get_by_text("All 40 as a table").click()
    expect(page.get_by_text("40 rows, 3 columns")).to_be_visible()
    assert traffic.elsewhere() == []


def test_thumbnails_are_loaded_when_they_are_switched_on(world: World, opened: tuple[Page, Traffic]) -> None:
    """Thumbnails are loaded once they are switched on, those of the templates that match the typed title alone."""
    [one, *_] = [
        row.document
        for row in world.emulator.templates.rows()
        if row.document["thumbnailUrl"] and row.document["title"]
    ]
    shown = {
        row.document["thumbnailUrl"] for row in world.emulator.templates.rows() if one["title"] == row.document["title"]
    }
    page, traffic = opened
    page.route("https://files.example.org/**", lambda route: route.fulfill(body=ONE_DOT, content_type="image/png"))
    page.get_by_label("Title contains").fill(one["title"])
    page.keyboard.press("Enter")
    expect(page.locator("figure b")).not_to_have_count(24)
    assert traffic.elsewhere() == []
    page.get_by_role("switch").click()
    expect(page.locator("figure img")).to_have_count(len(shown - {None}))
    for image in page.locator("figure img").all():
        expect(image).to_have_js_property("naturalWidth", 1)
    assert set(traffic.elsewhere()) == shown - {None}
    page.get_by_role("switch").click()
    page.get_by_label("Title contains").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("figure b")).to_have_count(24)
    expect(page.locator("figure img")).to_have_count(0)
    page.unroute("https://files.example.org/**")
    traffic.urls.clear()


def test_a_missing_file_is_reported_and_another_opened(world: World, opened: tuple[Page, Traffic]) -> None:
    """A file that does not exist is named on the page, where another one can be opened."""
    page, traffic = opened
    file = page.get_by_label("DuckDB file")
    file.fill("nowhere.duckdb")
    page.keyboard.press("Enter")
    expect(page.get_by_text("nowhere.duckdb does not exist")).to_be_visible()
    assert page.locator("h1, h2").all_inner_texts() == ["Letters"]
    file.fill(str(world.place))
    page.keyboard.press("Enter")
    expect(page.get_by_text("24 of 40 templates")).to_be_visible()
    assert page.get_by_text("Traceback").count() == 0
    assert traffic.elsewhere() == []


def test_a_chart_s_query_is_changed_on_the_page(opened: tuple[Page, Traffic]) -> None:
    """A query that is typed on the page shows its rows as a table where they cannot be drawn."""
    page, _ = opened
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("SELECT count(*) AS how_many FROM contacts")
    expect(page.get_by_text("how_many").last).to_be_visible()
    expect(page.get_by_role("cell", name="2,000").last).to_be_visible()
