"""Is there a report of whatever was loaded: of nothing, of parts, of hostile texts, of treated values, of a history?"""

from datetime import date
from typing import Any

import duckdb
import pytest
from holdings import change, held_tables
from looks import PHONE, look_at
from playwright.sync_api import Browser
from reports import USUAL, report_of, shares
from shelves import amend, refill
from worlds import Begin

from letters_source.destination.pipeline import Kind
from letters_source.report.charts import CHARTS
from letters_source.report.page import draw_svg
from letters_source.report.queries import read
from letters_source.service.listings import ContactFilters
from programmable_emulator import Emulator, Row

HOSTILE = "</script><script>alert(1)</script><img src=https://example.org/x onerror=alert(1)>\"'&\x01\u202e"
NOT_LOADED = "\u2013"


def test_an_empty_account_has_a_page(begin: Begin, browser: Browser) -> None:
    """Which says so."""
    world = begin(Emulator(0, 0))
    world.load()
    with look_at(browser, report_of(world), PHONE) as look:
        assert look.texts(".figures dd") == ["0", "0", "0"]
        assert look.charts() == set()
        assert "The service has 0 contacts and 0 templates. It is proven" in look.text("#verdict")
        assert "No charts yet" in look.text("main")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Buyers of last summer \U0001f389 2024", "Buyers of last summ…"),
        ("Customers of the nor\U0001f389th", "Customers of the no…"),
        ("\U0001f389" * 30, "\U0001f389" * 9 + "…"),
        ("Friends of the house", "Friends of the house"),
    ],
)
def test_long_names_are_cut_between_their_signs(name: str, shown: str) -> None:
    """An emoji is two units of UTF-16, and half of it nothing that can be drawn."""
    [chart] = [each for each in CHARTS if each.name == "states"]
    with duckdb.connect() as connection:
        connection.execute("create table contacts as select ? as state", [name])
        drawn = draw_svg(chart.draw(read(connection, chart.query)), "states")
    assert f">{shown}</text>" in drawn
    assert f"{name}: 1" in drawn


def test_what_was_not_loaded_is_named(begin: Begin, browser: Browser) -> None:
    """With the option that loads it."""
    world = begin(Emulator(30, 5))
    world.load()
    with look_at(browser, report_of(world)) as look:
        assert look.charts() == USUAL
        assert look.text("#absent") == (
            "Not loaded: address and mailing status (letters load --facets), "
            "last mailed over time (letters load --mailings --mailings-since DAY)."
        )


def test_one_listing_alone_has_a_page(begin: Begin, browser: Browser) -> None:
    """Chosen by a filter; what was not loaded is no zero."""
    world = begin(Emulator(30, 5))
    world.load(only=("contacts",), contact_filters=ContactFilters(tags=("office",)))
    with look_at(browser, report_of(world)) as look:
        assert look.texts(".figures dd")[:2] == [str(len(world.tables()["contacts"])), NOT_LOADED]
        assert "Everything that matches the filters is here" in look.text("#verdict")


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_hostile_texts_are_shown_as_texts(begin: Begin, browser: Browser, kind: Any) -> None:
    """In labels, states, titles and names; a link that would run something is none."""
    world = begin(Emulator(3, 2), kind)
    long = "w" * 5_000
    amend(world.emulator.contacts, "1", state=HOSTILE, ContactLabels=[{"id": "1", "title": HOSTILE}])
    amend(world.emulator.contacts, "2", state=long, ContactLabels=[{"id": "2", "title": long}])
    creator = {"id": "1", "fullName": HOSTILE}
    amend(world.emulator.templates, "1", title=HOSTILE, thumbnailUrl="javascript:alert(1)", creator=creator)
    amend(world.emulator.templates, "2", title=long, product={"paperType": HOSTILE, "paperSize": "0x0", "id": "1"})
    world.load()
    with look_at(browser, report_of(world), PHONE) as look:
        assert next(name for name in look.numbers("states") if name.startswith("<")) == HOSTILE[:80]
        assert max(map(len, look.numbers("labels"))) == 80
        assert HOSTILE[:30] in " ".join(look.texts(".gallery .name"))
        assert look.page.locator("img, script").count() == 0
        links = look.page.locator(".gallery a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert all(link.startswith("https://") for link in links)


@pytest.mark.parametrize(("policy", "key"), [("hash", "a key of sixteen bytes"), ("mask", None), ("drop", None)])
def test_treated_values_leave_numbers_as_they_are(begin: Begin, browser: Browser, policy: str, key: str | None) -> None:
    """Labels are told by their ids then, and creators not at all."""
    world = begin(Emulator(200, 5))
    world.load(pii={"all": policy}, **({"pii_key": key} if key else {}))
    held = held_tables(world.emulator)
    file = report_of(world)
    with look_at(browser, file) as look:
        assert look.numbers("labels") == shares(f"label {row['id']}" for row in held["contacts__contact_labels"])
        assert look.numbers("states") == shares(row["state"] for row in held["contacts"])
    page = file.read_text()
    assert not any(row["full_name"] in page for row in held["templates__creator"])


def test_of_a_history_the_present_rows_count(begin: Begin, browser: Browser) -> None:
    """After a contact has moved, lost its label, and another has gone."""
    world = begin(Emulator(40, 3))
    world.load(history=True)
    amend(world.emulator.contacts, "1", state="Guam", ContactLabels=[])
    world.emulator.contacts.delete(world.emulator.contacts.ids().index("2"))
    world.load(history=True)
    held = held_tables(world.emulator)
    with look_at(browser, report_of(world)) as look:
        assert look.text("#contacts") == "39"
        assert look.numbers("states") == shares(row["state"] for row in held["contacts"])
        assert look.numbers("labels") == shares(row["title"] for row in held["contacts__contact_labels"])
        assert [number for _, number in look.marks("contacts_loaded")] == [40, 39]


def test_a_page_stays_small_however_many_things_there_are(begin: Begin, browser: Browser) -> None:
    """What comes least is gathered, and of templates the last 60 are shown."""
    world = begin(Emulator(200, 100))
    for number in map(str, range(1, 201)):
        amend(world.emulator.contacts, number, state=f"State {number}", ContactLabels=[{"id": number, "title": number}])
    world.load()
    file = report_of(world)
    assert file.stat().st_size < 200_000
    with look_at(browser, file, PHONE) as look:
        assert look.numbers("states") == shares(f"State {number}" for number in range(1, 201))
        assert look.numbers("labels")["186 others"] == 186
        assert look.text("#gallery h2") == "Templates 60 of 100"


def test_a_dataset_that_lost_rows_is_not_called_complete(begin: Begin, browser: Browser) -> None:
    """Whatever the audit says."""
    world = begin(Emulator(30, 5))
    world.load()
    change(world.place, "DELETE FROM letters_data.contacts WHERE id IN ('1', '2')")
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict").startswith(
            "Not complete Only 28 of 30 contacts are in the dataset. Run the load again."
        )


@pytest.mark.parametrize(("kind", "loads"), [("duckdb", 2), ("parquet", 1)])
def test_what_a_killed_load_left_is_not_called_complete(begin: Begin, browser: Browser, kind: Kind, loads: int) -> None:
    """dlt notes a load last, and what it did not note may lack rows of any table."""
    world = begin(Emulator(30, 5), kind)
    for _ in range(loads):
        last = world.load()
    if kind == "duckdb":
        change(world.place, f"DELETE FROM letters_data._dlt_loads WHERE load_id = '{last.load_id}'")
    else:
        [noted] = world.place.glob(f"letters_data/_dlt_loads/*{last.load_id}.jsonl")
        noted.unlink()
    told = "Not complete A load did not finish and left some of its rows. Run the load again."
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict").startswith(told)
        # each listing tells its minute where the two differ
        assert ("loaded" in look.text("#verdict").lower()) == (loads == 2)
    world.load()
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict .headline") == "Complete"


def test_what_a_load_that_finished_has_compared_is_complete(begin: Begin, browser: Browser) -> None:
    """Rows that sync found unchanged are still those of an earlier load, and facets may not be loaded any more."""
    world = begin(Emulator(30, 5))
    killed = world.load(sync=True, facets=True)
    change(world.place, f"DELETE FROM letters_data._dlt_loads WHERE load_id = '{killed.load_id}'")
    finished = world.load(sync=True)
    change(world.place, f"UPDATE letters_data.contacts SET _dlt_load_id = '{killed.load_id}'")
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict .headline") == "Complete"
    change(world.place, f"DELETE FROM letters_data._dlt_loads WHERE load_id = '{finished.load_id}'")
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict .headline") == "Not complete"


def test_loads_of_plain_files_are_known_whatever_their_schema_is_called(begin: Begin, browser: Browser) -> None:
    """dlt notes a load as a file with both names."""
    world = begin(Emulator(30, 5), "parquet")
    world.load()
    [noted] = world.place.glob("letters_data/_dlt_loads/*.jsonl")
    noted.rename(noted.with_name(f"my__{noted.name}"))
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict .headline") == "Complete"
        assert "loaded" in look.text("#verdict").lower()


def test_listings_of_different_loads_have_a_time_each(begin: Begin, browser: Browser) -> None:
    """As they were read then."""
    world = begin(Emulator(30, 5))
    world.load()
    times = "CASE listing WHEN 'contacts' THEN '2026-03-04 10:00:00Z' ELSE '2026-03-05 11:30:00Z' END::TIMESTAMPTZ"
    change(world.place, f"UPDATE letters_data.listing_audit SET started_at = {times}")
    with look_at(browser, report_of(world)) as look:
        told = "Contacts loaded Mar 4, 2026, 10:00 UTC; templates loaded Mar 5, 2026, 11:30 UTC"
        assert told in look.text("#verdict")


@pytest.mark.parametrize(
    ("verdicts", "told", "shown"),
    [
        (("certified", "certified"), "It is proven that nothing is missing.", "Complete, proven"),
        (("certified", "fenced"), "No change was seen during the load.", "Complete, unchanged"),
        (("fenced", "certified"), "No change was seen during the load.", "Complete, unchanged"),
        (("exact", "stable"), "No change was seen during the load.", "Complete, unchanged"),
        (
            ("continuous", "stable"),
            "The listing changed during the load; no row that stayed was missed.",
            "Complete, changing",
        ),
        (
            ("exact", "continuous"),
            "The listing changed during the load; no row that stayed was missed.",
            "Complete, changing",
        ),
    ],
)
def test_the_weaker_verdict_is_told(
    begin: Begin, browser: Browser, verdicts: tuple[str, str], told: str, shown: str
) -> None:
    """In the words of this version and of 0.1.0."""
    world = begin(Emulator(30, 5))
    world.load()
    contacts, templates = verdicts
    change(
        world.place,
        f"UPDATE letters_data.listing_audit SET verdict = if(listing = 'contacts', '{contacts}', '{templates}')",
    )
    with look_at(browser, report_of(world)) as look:
        assert look.text("#verdict .headline") == "Complete"
        assert look.text("#verdict p:nth-child(2)") == f"Everything is here: 30 contacts and 5 templates. {told}"
        assert [row.endswith(shown) for row in look.texts("#loads tbody tr")] == [True]


def test_mailings_alone_have_a_page(begin: Begin, browser: Browser) -> None:
    """Of which contacts and templates are no part."""
    world = begin(Emulator(200, 5))
    world.load(only=("mailings",), mailings_since=date(2024, 12, 1), mailings_window=7)
    with look_at(browser, report_of(world)) as look:
        assert look.charts() == {"mailings"}
        assert look.texts(".figures dd") == [NOT_LOADED] * 3
        assert look.text("#verdict .headline") == "Nothing loaded yet"


def test_rejected_rows_are_counted(begin: Begin, browser: Browser) -> None:
    """They have no identifier."""
    world = begin(Emulator(3, 1))
    refill(world.emulator.contacts, [*world.emulator.contacts.rows()[:1], Row.of({"firstName": "x"})])
    world.load()
    with look_at(browser, report_of(world)) as look:
        assert "Everything is here: 1 contact and 1 template." in look.text("#verdict")
        assert "1 more without an ID were rejected." in look.text("#verdict")


@pytest.mark.parametrize(
    ("moments", "names"),
    [
        (["2024-02-29T23:30:00Z"], {"Feb 29, 2024, 23:00": 1}),
        (["2024-01-01T00:00:00Z", "2024-01-31T00:00:00Z"], {"Jan 1, 2024": 1, "Jan 31, 2024": 1}),
        (
            ["2024-01-01T00:00:00Z", "2024-12-31T00:00:00Z"],
            {"week of Jan 1, 2024": 1, "week of Dec 30, 2024": 1},
        ),
        (["2020-01-01T00:00:00Z", "2024-12-31T00:00:00Z"], {"Jan 2020": 1, "Dec 2024": 1}),
        (
            ["2015-01-01T00:00:00Z", "2024-12-31T00:00:00Z"],
            {"quarter from Jan 2015": 1, "quarter from Oct 2024": 1},
        ),
        (["1990-01-01T00:00:00Z", "2024-12-31T00:00:00Z"], {"1990": 1, "2024": 1}),
        (["1024-01-01T00:00:00Z", "2024-12-31T00:00:00Z"], {"century from 1000": 1, "century from 2000": 1}),
    ],
)
def test_periods_fit_the_time_they_span(
    begin: Begin, browser: Browser, moments: list[str], names: dict[str, int]
) -> None:
    """Hours to centuries, so that there are never more than 60."""
    world = begin(Emulator(len(moments), 0))
    for number, moment in enumerate(moments, start=1):
        amend(world.emulator.contacts, str(number), createdAt=moment)
    world.load()
    with look_at(browser, report_of(world)) as look:
        assert look.numbers("created") == names
