"""What a browser shows of a report, and the requests it makes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

DESKTOP, PHONE = 1280, 390
FAR = 2_200
Scheme = Literal["light", "dark"]
OVERFLOWING = """
    all => all.filter(text => {
        const inner = text.getBoundingClientRect(), outer = text.closest('figure').getBoundingClientRect();
        return inner.left < outer.left - 1 || inner.right > outer.right + 1;
    }).map(text => text.textContent)
"""


@dataclass(frozen=True)
class Look:
    """A page that is open in a browser."""

    page: Page

    def text(self, selector: str) -> str:
        """The text of an element."""
        return " ".join(self.page.locator(selector).inner_text().split())

    def texts(self, selector: str) -> list[str]:
        """The texts of all such elements."""
        return [" ".join(each.split()) for each in self.page.locator(selector).all_inner_texts()]

    def marks(self, chart: str) -> list[tuple[str, int]]:
        """A chart's marks: what each shows under the pointer, as a name and a number."""
        titles = self.page.locator(f"#{chart} path > title").all_text_contents()
        pairs = (title.rpartition(": ") for title in titles)
        return [(name, int(digits.replace(",", ""))) for name, _, digits in pairs]

    def numbers(self, chart: str) -> dict[str, int]:
        """A chart's numbers by name; no name may occur twice."""
        marks = self.marks(chart)
        numbers = dict(marks)
        assert len(numbers) == len(marks)
        return numbers

    def colors(self) -> list[str]:
        """The colors of text, of its background, and of bars."""
        style = "getComputedStyle(document.body)"
        bar = "getComputedStyle(document.querySelector('#states path:has(title)'))"
        colors: list[str] = self.page.evaluate(f"[{style}.color, {style}.backgroundColor, {bar}.fill]")
        return colors

    def overflowing(self) -> list[str]:
        """The texts in charts that reach out of their chart."""
        found: list[str] = self.page.locator("figure text").evaluate_all(OVERFLOWING)
        return found

    def screenshot(self, file: Path) -> None:
        """Write a screenshot of the page, its details closed, up to a height that users would scroll."""
        size = self.page.viewport_size
        assert size
        self.open_details(is_open=False)
        height = self.page.evaluate("document.documentElement.scrollHeight")
        self.page.set_viewport_size({"width": size["width"], "height": min(height, FAR)})
        self.page.screenshot(path=file)
        self.page.set_viewport_size(size)
        self.open_details(is_open=True)

    def open_details(self, *, is_open: bool) -> None:
        """Open or close all details."""
        self.page.locator("details").evaluate_all("(all, isOpen) => all.forEach(each => each.open = isOpen)", is_open)

    def check_width(self) -> None:
        """Raise if the page is wider than its window."""
        size = self.page.viewport_size
        assert size
        assert self.page.evaluate("document.documentElement.scrollWidth") == size["width"]

    def charts(self) -> set[str]:
        """The names of the charts on the page."""
        return set(self.page.locator("figure").evaluate_all("all => all.map(each => each.id)"))


@contextmanager
def look_at(browser: Browser, file: Path, width: int = DESKTOP) -> Iterator[Look]:
    """A page from disk; it requests nothing else, logs no error, and fits the window."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(file.as_uri())
    look = Look(page)
    look.open_details(is_open=True)
    yield look
    look.check_width()
    assert requests == [file.as_uri()]
    assert complaints == []
    page.close()
