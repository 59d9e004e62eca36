"""A load without settings finds a page size that works."""

from typing import Any
from urllib.parse import parse_qs

import pytest
from holdings import Rows
from row_changes import amend
from worlds import Begin, World

from letters_source import RepeatedIds, ServiceRejected, ServiceUnreachable, WrongCount, letters
from letters_source.extract.check import check_service
from programmable_emulator import Behavior, Drift, Emulator, Reply, When

AUTO: dict[str, Any] = {"page_size": "auto"}
FALLBACK = "contacts: pages of 1000 rows fail. Requesting 100; set sources.letters.page_size to 100 to save the trial."
TOO_LARGE = Reply.of({"message": "pageSize must not be greater than 100"}, status=400)


def sizes_requested(world: World, listing: str) -> list[int]:
    """The page sizes of all requests for a listing, in order."""
    hits = (hit for hit in world.emulator.hits if hit.path.endswith(listing))
    return [int(parse_qs(hit.query)["pageSize"][0]) for hit in hits]


def audited(tables: dict[str, Rows], columns: str) -> list[tuple[Any, ...]]:
    """Columns of the audit of contacts."""
    audits = (audit for audit in tables["listing_audit"] if audit["listing"] == "contacts")
    return [tuple(audit[column] for column in columns.split(", ")) for audit in audits]


def ids_in(tables: dict[str, Rows]) -> list[str]:
    """The ids of the contacts."""
    return [row["id"] for row in tables["contacts"]]


def read_mailings(world: World, **settings: Any) -> None:
    """Read all mailings from a source, which no pipeline loads."""
    for _ in letters(**{**world.settings, "mailings": True, **settings, **AUTO}).resources["mailings"]:
        pass


def test_large_pages_are_requested_first(begin: Begin) -> None:
    """A load without settings requests large pages first, so a small listing takes one request."""
    world = begin(Emulator(950, 7))
    tables = world.read("templates", "contacts", **AUTO)
    assert (sizes_requested(world, "templates"), sizes_requested(world, "contacts")) == ([1000], [1000])
    assert audited(tables, "verdict, page_size_asked, requests") == [("exact", 1000, 1)]
    assert world.is_exact(tables)


def test_a_service_that_returns_fewer_rows_is_read_in_its_pages(begin: Begin) -> None:
    """A service that returns fewer rows than requested is read in pages of the size of its page 0."""
    world = begin(Emulator(450, 7, behavior=Behavior(max_page_size=100)))
    tables = world.read("templates", "contacts", **AUTO)
    assert audited(tables, "verdict, page_size_asked, page_size_given, requests") == [("stable", 1000, 100, 7)]
    assert world.is_exact(tables)


def test_a_service_that_fails_at_large_pages_gets_smaller_ones(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A load continues with smaller pages and logs a line; facets of contacts use the size that works."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), *[Reply(504)] * 2)
    tables = world.read("templates", "contacts", facets=True, **AUTO)
    sizes = sizes_requested(world, "contacts")
    assert (sizes[:2], set(sizes[2:]) - {1}) == ([1000] * 2, {100})
    assert set(sizes_requested(world, "templates")) == {1000}
    assert caplog.messages.count(FALLBACK) == 1
    assert audited(tables, "page_size_asked, page_size_given") == [(100, 100)]
    assert set(ids_in(tables)) == set(world.emulator.contacts.ids())


@pytest.mark.parametrize(
    ("reply", "tries"), [(TOO_LARGE, 1), (Reply(413), 1), (Reply(422), 1), (Reply(500), 2)], ids=str
)
def test_each_refusal_of_large_pages_makes_them_smaller(
    begin: Begin, caplog: pytest.LogCaptureFixture, reply: Reply, tries: int
) -> None:
    """A refusal of the size takes effect at once, and a failure of the service after a second try."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), *[reply] * tries)
    tables = list(letters(**{**world.settings, **AUTO}).resources["contacts"])
    sizes = sizes_requested(world, "contacts")
    assert (sizes[:tries], set(sizes[tries:])) == ([1000] * tries, {100})
    assert caplog.messages.count(FALLBACK) == 1
    assert [row["id"] for table in tables for row in table.to_pylist()] == world.emulator.contacts.ids()


def test_windows_of_mailings_find_the_page_size_too(begin: Begin) -> None:
    """Mailings find the page size too, also in the requests that test whether the service honors the days."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), TOO_LARGE)
    read_mailings(world, mailings_since="2026-11-20")
    assert sizes_requested(world, "contacts")[:2] == [1000, 100]
    assert set(sizes_requested(world, "contacts")[1:]) == {100}


def test_an_empty_page_shows_nothing_about_large_ones(begin: Begin) -> None:
    """An empty page proves nothing about large pages: the page size still falls when the first page with rows fails."""
    world = begin(Emulator(450, 7))
    for number in (3, 4):
        world.emulator.canned.once(When("contacts", number=number), Reply(504))
    read_mailings(world, mailings_since="2025-01-01", mailings_window=366)
    sizes = sizes_requested(world, "contacts")
    assert sizes[:2] == [1000, 1000]
    assert sizes[-1] == 100


def test_a_retry_after_does_not_make_pages_smaller(begin: Begin) -> None:
    """A failure with a Retry-After beyond the budget fails the load without a smaller page."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.always(When("contacts"), Reply(500, headers={"Retry-After": "25"}))
    with pytest.raises(ServiceUnreachable, match="asks to wait 25 s"):
        world.load(retry_budget=2.0, **AUTO)
    assert sizes_requested(world, "contacts") == [1000]


def test_a_check_finds_the_page_size_as_a_load_does(begin: Begin) -> None:
    """A check finds the same page size as a load."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), TOO_LARGE)
    settings = {**world.settings, **AUTO}
    contacts = next(found for found in check_service(**settings).listings if found.listing == "contacts")
    assert (contacts.count, contacts.page_size, contacts.requests) == (450, 100, 7)


def test_heavy_pages_are_requested_smaller(begin: Begin) -> None:
    """Pages with many bytes are requested smaller, since several of them must fit into memory."""
    world = begin(Emulator(210, 7))
    for contact in world.emulator.contacts.ids():
        amend(world.emulator.contacts, contact, address2="x" * 50_000)
    tables = world.read("templates", "contacts", **AUTO)
    assert audited(tables, "verdict, page_size_asked, page_size_given") == [("stable", 100, 100)]
    assert world.is_exact(tables)


def test_a_size_refused_again_is_an_error(begin: Begin) -> None:
    """A smaller page that is refused too fails the load, and no further size is tried."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.always(When("contacts"), TOO_LARGE)
    with pytest.raises(ServiceRejected, match=r"It may need a smaller sources\.letters\.page_size"):
        world.load(**AUTO)
    assert sizes_requested(world, "contacts") == [1000, 100]
    assert not world.place.exists()


def test_a_page_size_that_is_set_is_used(begin: Begin) -> None:
    """A page size that is set is never changed, whatever the service answers."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), TOO_LARGE)
    with pytest.raises(ServiceRejected):
        world.load(page_size=1000)
    assert sizes_requested(world, "contacts") == [1000]


def test_pages_that_take_too_long_are_requested_smaller(begin: Begin) -> None:
    """A page of 1,000 rows that takes too long is requested again with 100 rows."""
    world = begin(Emulator(450, 7, behavior=Behavior(row_ms=1.5)))
    tables = world.read("templates", "contacts", retry_budget=1.0, **AUTO)
    assert audited(tables, "verdict, page_size_asked, page_size_given") == [("stable", 100, 100)]
    assert world.is_exact(tables)


def test_a_service_that_never_answers_in_time_is_unreachable(begin: Begin) -> None:
    """A service that answers neither size of page in time is unreachable."""
    world = begin(Emulator(30, 7, behavior=Behavior(latency_ms=60_000)))
    with pytest.raises(ServiceUnreachable, match="no response in time"):
        world.load(retry_budget=0.5, **AUTO)


def test_large_pages_overlap_from_the_start(begin: Begin) -> None:
    """A listing that does not change is proven stable with hardly more requests than it has pages."""
    world = begin(Emulator(11_500, 7))
    tables = world.read("templates", "contacts", **AUTO)
    [(verdict, walks, pages, requests, repaired)] = audited(tables, "verdict, walks, pages, requests, links_mended")
    assert (verdict, walks, pages, repaired) == ("stable", 1, requests - 3, 0)
    assert requests <= 12 * 1.1 + 3
    assert world.is_exact(tables)


@pytest.mark.parametrize(("kind", "limit"), [("insert", {}), ("delete", {"max_walks": 1})])
def test_a_long_listing_that_changes_is_read_in_one_pass(begin: Begin, kind: Any, limit: dict[str, Any]) -> None:
    """A long listing that changes is continuous after one pass, and needs no second one where none is allowed."""
    world = begin(Emulator(11_500, 7, behavior=Behavior(drift=[Drift(kind, "anywhere", 0.9)])))
    stayed = set(world.emulator.contacts.ids())
    tables = world.read("contacts", **limit, **AUTO)
    stayed &= set(world.emulator.contacts.ids())
    [(verdict, walks, requests)] = audited(tables, "verdict, walks, requests")
    assert (verdict, walks) == ("continuous", 1)
    assert requests <= 12 * 1.1 + 4
    found = ids_in(tables)
    assert len(found) == len(set(found))
    assert stayed <= set(found)


@pytest.mark.parametrize("off", [1, -1])
def test_a_wrong_count_of_a_long_listing_is_reported(begin: Begin, off: int) -> None:
    """Overlapping pages show that nothing changed, so a count that does not match is an error."""
    world = begin(Emulator(11_500, 7, behavior=Behavior(miscount=off)))
    with pytest.raises(WrongCount):
        world.load(only=("contacts",), **AUTO)


def test_ids_listed_twice_in_a_long_listing_are_reported_and_dropped(begin: Begin) -> None:
    """Ids listed twice in a long listing are an error, or dropped where the settings say so."""
    world = begin(Emulator(11_500, 7))
    twice = world.emulator.contacts.rows()[5]
    world.emulator.contacts.insert(twice, 9_000)
    with pytest.raises(RepeatedIds):
        world.load(only=("contacts",), max_walks=2, **AUTO)
    tables = world.read("contacts", max_walks=2, duplicates="drop", **AUTO)
    assert len(ids_in(tables)) == 11_500
