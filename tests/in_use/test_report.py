"""The report shows what the service holds, is accessible, and makes no requests."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from holdings import held_tables
from looks import DESKTOP, PHONE, Look, Scheme, look_at
from playwright.sync_api import Browser
from realistic_account import LABELS, realistic_account
from reports import NOT_ASKED, WHOLE, report_of, shares
from worlds import World, serve_world

SINCE = date(2024, 10, 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A realistic account, loaded twice, the second time with all that can be loaded."""
    with serve_world(tmp_path_factory.mktemp("account"), emulator=realistic_account()) as world:
        world.load(page_size=1_000)
        world.load(page_size=1_000, facets=True, mailings=True, mailings_since=SINCE, mailings_window=7)
        yield world


@pytest.fixture(scope="module")
def page(world: World) -> Path:
    """The report of the world."""
    return report_of(world)


@pytest.fixture(scope="module")
def look(page: Path, browser: Browser) -> Iterator[Look]:
    """The page on a desktop, for all tests that only read it."""
    with look_at(browser, page) as look:
        yield look


@pytest.fixture(scope="module")
def phone(page: Path, browser: Browser) -> Iterator[Look]:
    """The page on a phone."""
    with look_at(browser, page, PHONE) as look:
        yield look


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_page_fits_any_screen_and_requests_nothing(
    look: Look, phone: Look, images: Path, width: int, scheme: Scheme
) -> None:
    """The page fits a desktop and a phone, light and dark, and requests nothing; its screenshots are documents."""
    image = images / f"report_{width}{'_dark' if scheme == 'dark' else ''}.png"
    seen = {DESKTOP: look, PHONE: phone}[width]
    seen.page.emulate_media(color_scheme=scheme)
    seen.check_width()
    assert seen.charts() == WHOLE
    seen.screenshot(image)
    ink, paper, bar = map(brightness, seen.colors())
    assert (ink < paper) == (scheme == "light")
    assert min(abs(paper - ink), abs(paper - bar)) > 200
    assert image.stat().st_size < 300_000


def brightness(color: str) -> int:
    """The sum of a color's parts."""
    return sum(map(int, color.removeprefix("rgb(").removesuffix(")").split(", ")))


def test_no_label_is_cut(phone: Look) -> None:
    """Names of states, papers and labels of usual length are shown whole."""
    texts = phone.page.locator("figure text").all_text_contents()
    assert "60# Statement, 8.5x11" in texts
    assert [text for text in texts if "…" in text] == []
    assert phone.overflowing() == []


def test_the_page_s_numbers_are_those_of_the_service(world: World, look: Look) -> None:
    """Each number on the page is the one that is counted from the service's rows."""
    held = held_tables(world.emulator)
    traits = [row.traits for row in world.emulator.contacts.rows()]
    products = [row["product"] or {} for row in (row.document for row in world.emulator.templates.rows())]
    paper = [", ".join(filter(None, (row.get("paperType"), row.get("paperSize")))) for row in products]
    assert look.text("#contacts") == "4,000"
    assert look.text("#templates") == "32"
    assert look.text("#labels_used") == str(len(LABELS))
    assert look.numbers("states") == shares(row["state"] for row in held["contacts"])
    assert look.numbers("labels") == shares(row["title"] for row in held["contacts__contact_labels"])
    assert look.numbers("address_status") == shares(row.address_status for row in traits)
    assert look.numbers("mailed_status") == shares(row.last_mailed_status or NOT_ASKED for row in traits)
    assert look.numbers("created") == dict(Counter(f"{row['created_at']:%b %Y}" for row in held["contacts"]))
    assert sum(look.numbers("mailings").values()) == sum(row.last_mailed_date is not None for row in traits)
    assert [heading for heading in look.texts("h2") if " per " in heading] == [
        "Contacts created per month", "Contacts last mailed per week",
    ]  # fmt: skip
    assert look.numbers("paper") == shares(paper)
    for name in ("envelope", "postage", "delivery"):
        assert look.numbers(name) == shares(row.get(f"{name}Type") for row in products)
    titles = [row["title"] for row in held["templates"]]
    assert sorted(look.texts(".gallery .name")) == sorted(titles)


def test_the_page_says_how_complete_each_load_was(look: Look) -> None:
    """The page says at its top and for each load how complete it was."""
    assert look.text("#verdict .headline") == "Complete"
    assert look.text("#verdict p:nth-child(2)") == (
        "Everything is here: 4,000 contacts and 32 templates. No change was seen during the load."
    )
    # one time, or one for each listing where their minutes differ
    assert re.search(r"oaded [A-Z][a-z]{2} \d+, \d{4}, \d\d:\d\d UTC", look.text("#verdict"))
    assert [row.split()[-2:] for row in look.texts("#loads tbody tr")] == [["Complete,", "unchanged"]] * 2
    assert look.page.locator("#absent").count() == 0


def test_thumbnails_are_linked_and_not_fetched(world: World, look: Look) -> None:
    """The page links each template's thumbnail and contains no image, script, frame or style sheet from elsewhere."""
    held = {row["thumbnail_url"] for row in held_tables(world.emulator)["templates"]}
    links = look.page.locator(".gallery a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
    assert set(links) == held - {None}
    assert look.page.locator("img, script, link, iframe").count() == 0


def test_the_same_data_make_the_same_page(world: World, page: Path) -> None:
    """Two reports of the same data are the same, byte by byte."""
    before = page.read_bytes()
    assert report_of(world).read_bytes() == before
