"""Reports of unusual datasets: empty, partial, hostile, treated, with history."""

import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest
from holdings import change, held_tables
from looks import PHONE, look_at
from playwright.sync_api import Browser
from reports import NOT_ASKED, USUAL, report_of, report_of_file, shares
from shelves import amend, refill
from worlds import Begin, World

from letters_source.destination.pipeline import Kind
from letters_source.report.dataset import open_tables
from letters_source.report.queries import LAST_LOADS, read
from letters_source.report.summary import VERDICTS, summarize
from letters_source.service.listings import ContactFilters
from programmable_emulator import Emulator, Reply, Row, Traits, When

HOSTILE = "</script><script>alert(1)</script><img src=https://example.org/x onerror=alert(1)>\"'&\x01\u202e"
NOT_LOADED = "\u2013"


@pytest.fixture
def file(loaded: World, tmp_path: Path) -> Path:
    """A copy of what was loaded, to be changed."""
    return Path(shutil.copy(loaded.place, tmp_path))


def test_an_empty_account_has_a_page(begin: Begin, browser: Browser) -> None:
    """Which says so."""
    world = begin(Emulator(0, 0))
    world.load()
    with look_at(browser, report_of(world), PHONE) as look:
        assert look.texts(".figures dd") == ["0", "0", "0"]
        assert look.charts() == set()
        assert "The service has 0 contacts and 0 templates. It is proven" in look.text("#verdict")
        assert "No charts yet" in look.text("main")


def test_what_was_not_loaded_is_named(file: Path, browser: Browser) -> None:
    """With the option that loads it."""
    with look_at(browser, report_of_file(file)) as look:
        assert look.charts() == USUAL
        assert look.text("#absent") == (
            "Not loaded: address and mailing status (letters load --facets), "
            "contacts last mailed (letters load --mailings --mailings-since DAY)."
        )


def test_a_status_that_was_not_asked_for_is_not_called_none(begin: Begin, browser: Browser) -> None:
    """The contacts who have it cannot be told from those without any."""
    world = begin(Emulator(200, 0))
    world.load(facets=True, last_mailed_statuses=("Mailed",))
    mailed = [row.traits.last_mailed_status == "Mailed" for row in world.emulator.contacts.rows()]
    with look_at(browser, report_of(world)) as look:
        assert look.numbers("mailed_status") == shares("Mailed" if each else NOT_ASKED for each in mailed)
        assert "none" in look.numbers("address_status")


def test_an_ignored_facet_has_no_verdict(begin: Begin, browser: Browser) -> None:
    """It is named as ignored, and not as something that could be loaded."""
    world = begin(Emulator(40, 5))
    rows = [row.document for row in world.emulator.contacts.rows()]
    world.emulator.canned.always(When("contacts"), Reply.of({"data": {"count": len(rows), "rows": rows}}))
    world.load(facets=True)
    change(
        world.place,
        "UPDATE letters_data.listing_audit SET verdict = 'stable' WHERE listing LIKE 'contacts\\_\\_%' ESCAPE '\\'",
    )
    with look_at(browser, report_of(world)) as look:
        assert look.charts() == USUAL
        assert look.texts("#absent p") == [
            "Ignored by the service, so not shown: address, last mailing.",
            "Not loaded: contacts last mailed (letters load --mailings --mailings-since DAY).",
        ]
        assert [row.partition("Complete")[2] for row in look.texts("#loads tbody tr")] == [
            ", proven ignored: address statuses, last mailed statuses, return addresses"
        ]


def test_a_facet_that_nobody_has_is_told_in_a_sentence(begin: Begin, browser: Browser) -> None:
    """So is a state that all contacts have, and the hour in which all were created."""
    world = begin(Emulator(0, 0))
    for number in ("1", "2"):
        labels = [{"id": "4", "title": "office"}] if number == "1" else []
        row = {"id": number, "state": "Maine", "createdAt": "2024-02-29T23:30:00Z", "ContactLabels": labels}
        world.emulator.contacts.insert(row, traits=Traits(last_mailed_date=date(2024, 3, 5)))
    world.emulator.templates.insert({"id": "1"})
    world.load(facets=True, mailings=True, mailings_since=date(2024, 3, 3), mailings_window=7)
    with look_at(browser, report_of(world)) as look:
        figures = USUAL | {"address_status", "mailed_status", "mailings"}
        assert look.charts() == figures
        assert {name: look.text(f"#{name} p") for name in figures} == {
            "states": "The only value is Maine (2 contacts).",
            "created": "All within one hour: Feb 29, 2024, 23:00 (2 contacts).",
            "labels": "The only value is office (1 contact).",
            "address_status": "The only value is none (2 contacts).",
            "mailed_status": "The only value is not asked or none (2 contacts).",
            "mailings": "All within one week: week of Mar 4, 2024 (2 contacts).",
            **dict.fromkeys(("paper", "envelope", "postage", "delivery"), "The only value is none (1 template)."),
        }
        assert look.page.locator("figure svg").count() == 0


def test_the_title_says_what_was_read(begin: Begin, browser: Browser) -> None:
    """The account and the environment of the last load, and the service where the audit has it."""
    world = begin(Emulator(30, 5))
    world.load(account_id="501")
    audit = "letters_data.listing_audit"
    change(world.place, f"ALTER TABLE {audit} DROP COLUMN IF EXISTS service")
    with look_at(browser, report_of(world)) as look:
        assert (look.page.title(), look.text("#read_from")) == ("Letters: account 501", "Account 501")
    change(world.place, f"ALTER TABLE {audit} ADD COLUMN service VARCHAR")
    change(world.place, f"UPDATE {audit} SET environment = 'production', service = 'https://mail.example.org/api/v1'")
    with look_at(browser, report_of(world)) as look:
        assert look.page.title() == "Letters: account 501, production, https://mail.example.org/api/v1"
        assert look.text("#read_from") == "Account 501 · production · https://mail.example.org/api/v1"
    change(world.place, f"UPDATE {audit} SET account_id = NULL, environment = NULL, service = NULL")
    with look_at(browser, report_of(world)) as look:
        assert look.page.title() == "Letters: letters.duckdb, letters_data"
        assert look.page.locator("#read_from").count() == 0


@pytest.mark.parametrize(("accounts", "told"), [(2, "accounts 500, 501"), (4, "4 accounts")])
def test_the_title_names_a_few_accounts_and_counts_many(
    begin: Begin, browser: Browser, accounts: int, told: str
) -> None:
    """As those of the views that unite them."""
    world = begin(Emulator(3, 1))
    world.load()
    change(world.place, "ALTER TABLE letters_data.listing_audit DROP COLUMN IF EXISTS service")
    more = " UNION ALL ".join(
        f"SELECT * REPLACE ('{500 + number}' AS account_id) FROM letters_data.listing_audit"
        for number in range(accounts)
    )
    change(world.place, f"CREATE OR REPLACE TABLE letters_data.listing_audit AS {more}")
    with look_at(browser, report_of(world)) as look:
        assert look.page.title() == f"Letters: {told}"


def test_one_listing_alone_has_a_page(begin: Begin, browser: Browser) -> None:
    """Chosen by a filter; what was not loaded is no zero."""
    world = begin(Emulator(30, 5))
    world.load(only=("contacts",), contact_filters=ContactFilters(tags=("office",)))
    with look_at(browser, report_of(world)) as look:
        assert look.texts(".figures dd")[:2] == [str(len(world.tables()["contacts"])), NOT_LOADED]
        assert "Everything that matches the filters is here" in look.text("#verdict")


def test_hostile_texts_are_shown_as_texts(begin: Begin, browser: Browser) -> None:
    """In labels, states, titles and names; a link that would run something is none."""
    world = begin(Emulator(3, 2))
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
    """What comes least is gathered; the last 60 templates are drawn, and all others listed."""
    world = begin(Emulator(200, 100))
    for number in map(str, range(1, 201)):
        amend(world.emulator.contacts, number, state=f"State {number}", ContactLabels=[{"id": number, "title": number}])
    world.load()
    file = report_of(world)
    assert file.stat().st_size < 200_000
    with look_at(browser, file, PHONE) as look:
        assert look.numbers("states") == shares(f"State {number}" for number in range(1, 201))
        assert look.numbers("labels")["186 others"] == 186
        assert (look.page.locator(".sheet").count(), look.page.locator(".rest li").count()) == (60, 40)
        titles = sorted(row.document["title"] or "Untitled" for row in world.emulator.templates.rows())
        assert sorted(look.texts("#gallery .name")) == titles
        assert look.text("#gallery summary") == "88 more"


def test_a_dataset_that_lost_rows_is_not_called_complete(file: Path, browser: Browser) -> None:
    """Whatever the audit says."""
    change(file, "DELETE FROM letters_data.contacts WHERE id IN ('1', '2')")
    with look_at(browser, report_of_file(file)) as look:
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


def test_listings_of_different_loads_have_a_time_each(file: Path, browser: Browser) -> None:
    """As they were read then."""
    times = "CASE listing WHEN 'contacts' THEN '2026-03-04 10:00:00Z' ELSE '2026-03-05 11:30:00Z' END::TIMESTAMPTZ"
    change(file, f"UPDATE letters_data.listing_audit SET started_at = {times}")
    with look_at(browser, report_of_file(file)) as look:
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
def test_the_weaker_verdict_is_told(file: Path, verdicts: tuple[str, str], told: str, shown: str) -> None:
    """In the words of this version and of 0.1.0."""
    contacts, templates = verdicts
    change(
        file, f"UPDATE letters_data.listing_audit SET verdict = if(listing = 'contacts', '{contacts}', '{templates}')"
    )
    with open_tables(file) as connection:
        summary = summarize(connection)
        loads = [VERDICTS[row["verdict"]] for row in read(connection, LAST_LOADS)]
    assert summary["headline"] == "Complete"
    assert summary["text"] == f"Everything is here: 30 contacts and 5 templates. {told}"
    assert loads == [shown]


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
    ("days", "names"),
    [
        (1, {"Mar 4, 2024": 1, "Mar 5, 2024": 1}),
        (7, {"week of Mar 4, 2024": 1, "week of Mar 11, 2024": 1}),
        (31, {"Mar 2024": 1, "Apr 2024": 1}),
    ],
)
def test_no_period_is_shorter_than_the_days_that_mailings_were_asked_for(
    begin: Begin, browser: Browser, days: int, names: dict[str, int]
) -> None:
    """An hour would be more than is known, and half of a week nothing to compare."""
    world = begin(Emulator(0, 0))
    for number in (0, 1):
        day = date(2024, 3, 4) + timedelta(days=number * days)
        world.emulator.contacts.insert({"id": str(number)}, traits=Traits(last_mailed_date=day))
    world.load(mailings=True, mailings_since=date(2024, 3, 4), mailings_window=days)
    with look_at(browser, report_of(world)) as look:
        assert look.numbers("mailings") == names
