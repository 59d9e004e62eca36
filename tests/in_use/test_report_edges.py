"""Reports of unusual datasets: empty, partial, with markup, treated, with history, after runs that failed."""

import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from holdings import change, held_tables
from looks import PHONE, look_at
from playwright.sync_api import Browser
from reports import NOT_ASKED, USUAL, charted, report_of, report_of_file, shares, summary_of
from row_changes import amend, refill
from terminals import Letters
from worlds import Begin, World, serve_world

from letters_source import LettersError, make_pipeline, run
from letters_source.config.settings import Kind
from letters_source.report.dataset import open_tables
from letters_source.report.queries import LAST_LOADS, loads, read
from letters_source.report.summary import VERDICTS
from letters_source.service.listings import ContactFilters
from programmable_emulator import Emulator, Reply, Row, Traits, When

HOSTILE = "</script><script>alert(1)</script><img src=https://example.org/x onerror=alert(1)>\"'&\x01\u202e"
NONE = "\u2013"
AUDIT = "letters_data.listing_audit"
UNFINISHED = ("Not complete", "A load did not finish and left some of its rows. Run the load again.")


@pytest.fixture
def file(loaded: World, tmp_path: Path) -> Path:
    """A copy of what was loaded, to be changed."""
    return Path(shutil.copy(loaded.place, tmp_path))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of an account without rows, whose audits are of account 501."""
    with serve_world(tmp_path_factory.mktemp("empty"), emulator=Emulator(0, 0)) as world:
        world.load(account_id="501")
        yield world.place


@pytest.fixture
def audits(empty: Path, tmp_path: Path) -> Path:
    """A copy of the file without rows, whose audits lack the service, as those of version 0.1.0 do."""
    copy = Path(shutil.copy(empty, tmp_path))
    change(copy, f"ALTER TABLE {AUDIT} DROP COLUMN IF EXISTS service")
    return copy


def title_of(file: Path) -> tuple[str, list[str]]:
    """The title of a file's page, and the line on where its rows are from, if there is one."""
    page = report_of_file(file).read_text()
    [title] = re.findall("<title>(Letters: .*?)</title>", page)
    return title, re.findall('<p id="read_from">(.*?)</p>', page)


def verdict_of(place: Path) -> tuple[str, str]:
    """The headline of a report and the sentence below it."""
    summary = summary_of(place)
    return summary["headline"], summary["text"]


def test_an_empty_account_has_a_page(empty: Path, browser: Browser) -> None:
    """The page of an account without rows shows zeros and says that there are no charts yet."""
    with look_at(browser, report_of_file(empty), PHONE) as look:
        assert look.texts(".figures dd") == ["0", "0", "0"]
        assert look.charts() == set()
        assert look.text("#verdict p:nth-child(2)") == (
            "The service has 0 contacts and 0 templates. It is proven that nothing is missing."
        )
        assert "No charts yet" in look.texts("main h2")


def test_what_was_not_loaded_is_named(file: Path, browser: Browser) -> None:
    """The page names what was not loaded, each with the option that loads it."""
    with look_at(browser, report_of_file(file)) as look:
        assert look.charts() == USUAL
        assert look.text("#absent") == (
            "Not loaded: address and mailing status (letters load --facets), "
            "contacts last mailed (letters load --mailings --mailings-since DAY)."
        )


def test_a_status_that_was_not_requested_is_not_called_none(begin: Begin) -> None:
    """Contacts without one of the requested statuses count as not asked or none, because the two look alike."""
    world = begin(Emulator(200, 0))
    world.load(only=("contacts",), facets=True, last_mailed_statuses=("Mailed",))
    traits = [row.traits for row in world.emulator.contacts.rows()]
    is_mailed = [each.last_mailed_status == "Mailed" for each in traits]
    assert charted(world.place, "mailed_status", "address_status") == {
        "mailed_status": shares("Mailed" if each else NOT_ASKED for each in is_mailed),
        "address_status": shares(each.address_status for each in traits),
    }


def test_an_ignored_facet_has_no_verdict(begin: Begin, browser: Browser) -> None:
    """A facet whose filter the service ignores is named as ignored, and neither judged nor called not loaded."""
    world = begin(Emulator(40, 5))
    rows = [row.document for row in world.emulator.contacts.rows()]
    world.emulator.canned.always(When("contacts"), Reply.of({"data": {"count": len(rows), "rows": rows}}))
    world.load(facets=True)
    change(world.place, f"UPDATE {AUDIT} SET verdict = 'stable' WHERE listing LIKE 'contacts\\_\\_%' ESCAPE '\\'")
    with look_at(browser, report_of(world)) as look:
        assert look.charts() == USUAL
        assert look.texts("#absent p") == [
            "Ignored by the service, so not shown: address, last mailing.",
            "Not loaded: contacts last mailed (letters load --mailings --mailings-since DAY).",
        ]
        assert [row.partition("Complete")[2] for row in look.texts("#loads tbody tr")] == [
            ", proven ignored: address statuses, last mailed statuses, return addresses"
        ]


def test_a_chart_of_one_value_is_a_sentence(begin: Begin, browser: Browser) -> None:
    """A state that all contacts have, a facet that none has, and a single period are described in a sentence each."""
    world = begin(Emulator(0, 0))
    for number in ("1", "2"):
        labels = [{"id": "4", "title": "office"}] if number == "1" else []
        row = {"id": number, "state": "Maine", "createdAt": "2024-02-29T23:30:00Z", "ContactLabels": labels}
        world.emulator.contacts.insert(row, traits=Traits(last_mailed_date=date(2024, 3, 5)))
    world.emulator.templates.insert({"id": "1"})
    world.load(facets=True, mailings=True, mailings_since=date(2024, 3, 3), mailings_window=365)
    with look_at(browser, report_of(world)) as look:
        figures = USUAL | {"address_status", "mailed_status", "mailings"}
        assert look.charts() == figures
        assert {name: look.text(f"#{name} p") for name in figures} == {
            "states": "The only value is Maine (2 contacts).",
            "created": "All within one hour: Feb 29, 2024, 23:00 (2 contacts).",
            "labels": "The only value is office (1 contact).",
            "address_status": "The only value is none (2 contacts).",
            "mailed_status": "The only value is not asked or none (2 contacts).",
            "mailings": "All within one year: 2024 (2 contacts).",
            **dict.fromkeys(("paper", "envelope", "postage", "delivery"), "The only value is none (1 template)."),
        }
        assert look.page.locator("figure svg").count() == 0


def test_the_title_says_what_was_read(audits: Path) -> None:
    """The title names the account, environment and service of the last load, and without these the file."""
    assert title_of(audits) == ("Letters: account 501", ["Account 501"])
    change(audits, f"ALTER TABLE {AUDIT} ADD COLUMN service VARCHAR")
    change(audits, f"UPDATE {AUDIT} SET environment = 'production', service = 'https://mail.example.org/api/v1'")
    assert title_of(audits) == (
        "Letters: account 501, production, https://mail.example.org/api/v1",
        ["Account 501 · production · https://mail.example.org/api/v1"],
    )
    change(audits, f"UPDATE {AUDIT} SET account_id = NULL, environment = NULL, service = NULL")
    assert title_of(audits) == ("Letters: letters.duckdb, letters_data", [])


@pytest.mark.parametrize(("accounts", "words"), [(2, "accounts 500, 501"), (4, "4 accounts")])
def test_the_title_names_a_few_accounts_and_counts_many(audits: Path, accounts: int, words: str) -> None:
    """The title of several accounts, as the views that unite them have, names up to three and counts more."""
    more = " UNION ALL ".join(
        f"SELECT * REPLACE ('{500 + number}' AS account_id) FROM {AUDIT}" for number in range(accounts)
    )
    change(audits, f"CREATE OR REPLACE TABLE {AUDIT} AS {more}")
    assert summary_of(audits)["read_from"] == [words]


def test_one_listing_alone_has_a_page(begin: Begin) -> None:
    """A report of filtered contacts has no figure for templates, and says that the filters limit what is there."""
    world = begin(Emulator(30, 5))
    contacts = world.load(only=("contacts",), contact_filters=ContactFilters(tags=("office",))).tables["contacts"]
    summary = summary_of(world.place)
    figures = summary["figures"]
    assert (figures["contacts"], figures["templates"]) == (contacts, None)
    assert summary["text"] == (
        f"Everything that matches the filters is here: {contacts} contacts. It is proven that nothing is missing."
    )


def test_markup_in_texts_is_shown_as_text(begin: Begin, browser: Browser) -> None:
    """Markup in labels, states, titles and names stays text, and only web addresses become links."""
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
def test_treated_values_leave_numbers_as_they_are(begin: Begin, policy: str, key: str | None) -> None:
    """Where personal values are hashed, masked or dropped, numbers stay, labels go by id, and creators are left out."""
    world = begin(Emulator(200, 5))
    world.load(pii={"all": policy}, **({"pii_key": key} if key else {}))
    held = held_tables(world.emulator)
    assert charted(world.place, "labels", "states") == {
        "labels": shares(f"label {row['id']}" for row in held["contacts__contact_labels"]),
        "states": shares(row["state"] for row in held["contacts"]),
    }
    page = report_of(world).read_text()
    assert [row["full_name"] for row in held["templates__creator"] if row["full_name"] in page] == []


def test_of_a_history_the_present_rows_count(begin: Begin) -> None:
    """A report of row history counts current rows only: not previous states or labels, nor contacts that are gone."""
    world = begin(Emulator(40, 3))
    world.load(history=True)
    amend(world.emulator.contacts, "1", state="Guam", ContactLabels=[])
    world.emulator.contacts.delete(world.emulator.contacts.ids().index("2"))
    world.load(history=True)
    held = held_tables(world.emulator)
    shown = charted(world.place, "states", "labels")
    assert summary_of(world.place)["figures"]["contacts"] == 39
    assert shown["states"] == shares(row["state"] for row in held["contacts"])
    assert shown["labels"] == shares(row["title"] for row in held["contacts__contact_labels"])
    with open_tables(world.place) as connection:
        assert [row["number"] for row in read(connection, loads("contacts"))] == [40, 39]


def test_a_page_stays_small_however_many_things_there_are(begin: Begin, browser: Browser) -> None:
    """The rarest values are summed up, the last 60 templates are drawn, and the other templates are listed."""
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


def test_the_last_runs_of_the_file_are_listed(begin: Begin, letters: Letters, browser: Browser) -> None:
    """The page lists the file's last runs, also failed ones, newest first, and no list where the ledger has none."""
    world = begin(Emulator(1, 1))
    world.load()
    for settings in ({"access_token": "another"}, {"page_size": -1}):
        with pytest.raises(LettersError):
            world.load(**settings)
    world.load(only=("templates",), publish="readers.duckdb")
    with pytest.raises(LettersError):
        run(make_pipeline("duckdb", "other.duckdb"), **{**world.settings, "page_size": -1})
    assert letters("report", "--html", "letters.html").code == 0
    with look_at(browser, Path.cwd() / "letters.html", PHONE) as look:
        assert look.texts("#runs td:last-child") == [
            "Complete, proven",
            "SettingsError (exit code 2)",
            "NotAuthorized (exit code 3)",
            "Complete, proven",
        ]
        assert look.texts("#runs td:nth-child(2)") == ["1", NONE, NONE, "2"]
    assert letters("report", "--html", "letters.html", "--from", "readers.duckdb").code == 0
    assert 'id="runs"' not in Path("letters.html").read_text()


def test_a_dataset_that_lost_rows_is_not_called_complete(file: Path) -> None:
    """A dataset with fewer rows than its audit is not complete, whatever the audit's verdict is."""
    change(file, "DELETE FROM letters_data.contacts WHERE id IN ('1', '2')")
    assert verdict_of(file) == (
        "Not complete",
        "Only 28 of 30 contacts are in the dataset. Run the load again.",
    )


@pytest.mark.parametrize(("kind", "times"), [("duckdb", 2), ("parquet", 1)])
def test_what_a_killed_load_left_is_not_called_complete(begin: Begin, kind: Kind, times: int) -> None:
    """A dataset with rows of a load that dlt did not note as finished is not complete until the next load."""
    world = begin(Emulator(30, 5), kind)
    for _ in range(times):
        last = world.load()
    if kind == "duckdb":
        change(world.place, f"DELETE FROM letters_data._dlt_loads WHERE load_id = '{last.load_id}'")
    else:
        [noted] = world.place.glob(f"letters_data/_dlt_loads/*{last.load_id}.jsonl")
        noted.unlink()
    assert verdict_of(world.place) == UNFINISHED
    # each listing has its minute where the two differ
    assert ("loaded" in summary_of(world.place)["loaded"].lower()) == (times == 2)
    world.load()
    assert summary_of(world.place)["headline"] == "Complete"


def test_what_a_load_that_finished_has_compared_is_complete(begin: Begin) -> None:
    """Rows of a killed load count as complete once a finished sync has compared them, also without their facets."""
    world = begin(Emulator(30, 5))
    killed = world.load(sync=True, facets=True)
    change(world.place, f"DELETE FROM letters_data._dlt_loads WHERE load_id = '{killed.load_id}'")
    finished = world.load(sync=True)
    change(world.place, f"UPDATE letters_data.contacts SET _dlt_load_id = '{killed.load_id}'")
    assert summary_of(world.place)["headline"] == "Complete"
    change(world.place, f"DELETE FROM letters_data._dlt_loads WHERE load_id = '{finished.load_id}'")
    assert verdict_of(world.place) == UNFINISHED


def test_loads_of_plain_files_are_known_whatever_their_schema_is_called(begin: Begin) -> None:
    """A load into Parquet files counts as finished also where another schema name precedes its file of dlt's."""
    world = begin(Emulator(30, 5), "parquet")
    world.load()
    [noted] = world.place.glob("letters_data/_dlt_loads/*.jsonl")
    noted.rename(noted.with_name(f"my__{noted.name}"))
    summary = summary_of(world.place)
    assert summary["headline"] == "Complete"
    assert summary["loaded"]


def test_listings_of_different_loads_have_a_time_each(file: Path) -> None:
    """Where contacts and templates were loaded at different times, the report has both times."""
    times = "CASE listing WHEN 'contacts' THEN '2026-03-04 10:00:00Z' ELSE '2026-03-05 11:30:00Z' END::TIMESTAMPTZ"
    change(file, f"UPDATE {AUDIT} SET started_at = {times}")
    assert summary_of(file)["loaded"] == (
        "Contacts loaded Mar 4, 2026, 10:00 UTC; templates loaded Mar 5, 2026, 11:30 UTC"
    )


@pytest.mark.parametrize(
    ("verdicts", "words", "shown"),
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
def test_the_weaker_verdict_is_shown(file: Path, verdicts: tuple[str, str], words: str, shown: str) -> None:
    """The report shows the weaker of the two verdicts, in the words of this version or of 0.1.0."""
    contacts, templates = verdicts
    change(file, f"UPDATE {AUDIT} SET verdict = if(listing = 'contacts', '{contacts}', '{templates}')")
    with open_tables(file) as connection:
        found = [VERDICTS[row["verdict"]] for row in read(connection, LAST_LOADS)]
    assert verdict_of(file) == ("Complete", f"Everything is here: 30 contacts and 5 templates. {words}")
    assert found == [shown]


def test_mailings_alone_have_a_page(begin: Begin, browser: Browser) -> None:
    """The page of a dataset of mailings alone has their chart, and no figures of contacts and templates."""
    world = begin(Emulator(200, 5))
    world.load(only=("mailings",), mailings_since=date(2024, 1, 1), mailings_window=365)
    with look_at(browser, report_of(world)) as look:
        assert look.charts() == {"mailings"}
        assert look.texts(".figures dd") == [NONE] * 3
        assert look.text("#verdict .headline") == "Nothing loaded yet"


def test_rejected_rows_are_counted(begin: Begin) -> None:
    """The report counts the rows that were rejected because they have no identifier."""
    world = begin(Emulator(3, 1))
    refill(world.emulator.contacts, [*world.emulator.contacts.rows()[:1], Row.of({"firstName": "x"})])
    world.load()
    whole = "Everything is here: 1 contact and 1 template. It is proven that nothing is missing."
    assert verdict_of(world.place) == ("Complete", f"{whole} 1 more without an ID were rejected.")
