"""A count that stops before the listing does never passes for all rows; with a setting, all rows are loaded."""

from pathlib import Path
from typing import Any

import pytest
from terminals import Letters
from worlds import Begin, World

from letters_source import IncompleteListing, WrongCount, letters, plan_parts, read_part
from letters_source.extract.check import check_service
from programmable_emulator import Behavior, Drift, Emulator, Reply, When

CAP = 300
CAPPED = Behavior(count_cap=CAP)
MODES: list[dict[str, Any]] = [{}, {"sync": True}, {"history": True}]


@pytest.fixture
def capped(begin: Begin) -> World:
    """A service that counts at most 300 of 730 contacts."""
    return begin(Emulator(730, 7, behavior=CAPPED))


def contact_pages(world: World) -> list[int]:
    """The pages of contacts that were requested."""
    queries = [hit.query for hit in world.emulator.hits if hit.path.endswith("/contacts")]
    return [int(query.partition("page=")[2].partition("&")[0]) for query in queries]


def ids_of(world: World, **settings: Any) -> list[str]:
    """The ids of the contacts that a source yields."""
    return [str(row["id"]) for row in world.read("contacts", **settings)["contacts"]]


@pytest.mark.parametrize("proof", ["continuous", "exact"])
@pytest.mark.parametrize("page_size", [300, 150, 100, 37])
def test_a_count_that_stops_is_never_a_load_of_fewer_rows(capped: World, page_size: int, proof: str) -> None:
    """Whether the count is a multiple of the page size or not, the load is refused; the setting loads all rows."""
    with pytest.raises(WrongCount, match=r"Set sources\.letters\.count to at_least"):
        capped.load(page_size=page_size, proof=proof)
    assert not capped.place.exists()
    settings = {**capped.settings, "page_size": page_size, "proof": proof, "count": "at_least"}
    assert sorted(ids_of(capped, **settings)) == sorted(capped.emulator.contacts.ids())


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_the_audit_has_the_count_and_the_rows_that_were_seen(capped: World, mode: dict[str, Any]) -> None:
    """In each mode all rows are loaded; the first count is the service's, the last is up to the end."""
    with pytest.raises(WrongCount):
        capped.load(**mode)
    result = capped.load(count="at_least", **mode)
    [audit] = [audit for audit in result.audits if audit["listing"] == "contacts"]
    figures = "verdict", "count_first", "count_last", "rows_yielded", "count_changes"
    assert [audit[name] for name in figures] == ["stable", CAP, 730, 730, 0]  # type: ignore[literal-required]
    assert len(capped.tables()["contacts"]) == 730


@pytest.mark.parametrize("how", ["empty", "refused", "failed", "malformed", "repeated"])
def test_whatever_comes_past_the_end_an_honest_listing_is_loaded(begin: Begin, how: str) -> None:
    """An empty page, an error, or the last page again is no row more; the page is requested at most twice."""
    world = begin(Emulator(300, 7))
    last = {"count": 300, "rows": [row.document for row in world.emulator.contacts.rows()[200:]]}
    answers = {
        "refused": Reply.of({"message": "No such page"}, 404),
        "failed": Reply.of({"message": "Offset too large"}, 500),
        "malformed": Reply.of({"message": "Success", "data": None}),
        "repeated": Reply.of({"message": "Success", "data": last}),
    }
    if how in answers:
        world.emulator.canned.always(When("contacts", 3), answers[how])
    assert len(ids_of(world)) == 300
    # page 3 comes last; the service may receive two pages that are read again in any order
    assert contact_pages(world)[5:] == [3] * (2 if how in ("failed", "malformed") else 1)
    assert sorted(contact_pages(world)[:5]) == [0, 0, 1, 2, 2]


@pytest.mark.parametrize(("rows", "requests"), [(0, 1), (1, 1), (99, 1), (100, 2), (101, 4), (250, 5), (300, 6)])
def test_only_a_full_last_page_costs_a_request_more(begin: Begin, rows: int, requests: int) -> None:
    """The end of an honest listing is seen on a page that is not full."""
    world = begin(Emulator(rows, 7))
    ids_of(world, allow_empty=True)
    assert len(contact_pages(world)) == requests


def test_a_count_of_the_rows_so_far_is_refused(begin: Begin) -> None:
    """A count that grows with the page never includes rows that were not requested."""
    world = begin(Emulator(250, 7))
    for number in range(4):
        rows = [row.document for row in world.emulator.contacts.rows()[number * 100 :][:100]]
        data = {"count": number * 100 + len(rows), "rows": rows}
        world.emulator.canned.always(When("contacts", number), Reply.of({"message": "Success", "data": data}))
    with pytest.raises(IncompleteListing, match="contacts: rows came past its end while it was read"):
        world.load()
    assert len(ids_of(world, count="at_least")) == 250


def statuses(world: World) -> set[tuple[Any, ...]]:
    """The rows of the facet of address statuses."""
    return {tuple(row.values()) for row in world.tables()["contacts__address_statuses"]}


def test_facets_are_read_to_their_ends(capped: World) -> None:
    """A filter that returns more rows than are counted is refused, or read whole."""
    capped.emulator.behavior = Behavior(count_cap=100)
    with pytest.raises(WrongCount):
        capped.load(facets=True)
    capped.load(facets=True, count="at_least")
    at_least = statuses(capped)
    capped.emulator.behavior = Behavior()
    capped.load(facets=True)
    assert at_least == statuses(capped)
    assert len(at_least) > 100


def test_mailings_are_read_to_their_ends(capped: World) -> None:
    """A date range with more contacts than are counted is refused, or read whole."""
    capped.emulator.behavior = Behavior(count_cap=100)
    mailed = {"mailings": True, "mailings_since": "2024-01-01", "mailings_window": 366}
    settings = {**capped.settings, **mailed}
    with pytest.raises(Exception, match="past its count") as caught:
        list(letters(**settings).with_resources("mailings"))
    assert caught.value
    found = sum(table.num_rows for table in letters(**settings, count="at_least").with_resources("mailings"))
    capped.emulator.behavior = Behavior()
    assert found == sum(table.num_rows for table in letters(**settings).with_resources("mailings"))
    assert found > 100


def test_parts_are_read_to_the_end(capped: World, tmp_path: Path) -> None:
    """Parts of the rows that are counted are refused once they are joined; with the setting, they have all rows."""
    capped.settings.update(page_size=50, parts=str(tmp_path / "parts"))
    *before, last = plan_parts("contacts", 3, **capped.settings)
    for place in before:
        read_part("contacts", place, **capped.settings)
    with pytest.raises(WrongCount, match="its count implies"):
        read_part("contacts", last, **capped.settings)
    capped.settings["count"] = "at_least"
    for place in plan_parts("contacts", 3, **capped.settings):
        read_part("contacts", place, **capped.settings)
    result = capped.load()
    assert capped.is_exact()
    [audit] = [audit for audit in result.audits if audit["listing"] == "contacts"]
    assert (audit["count_first"], audit["count_last"], audit["rows_yielded"]) == (CAP, 730, 730)


def test_a_listing_that_grows_while_it_is_read_is_loaded_as_before(begin: Begin) -> None:
    """Rows that come at either end are no sign of a wrong count."""
    behavior = Behavior(drift=[Drift("insert", "end", 0.3), Drift("insert", "front", 0.3)])
    world = begin(Emulator(1_000, 7, behavior=behavior))
    stayed = set(world.emulator.contacts.ids())
    assert stayed <= set(ids_of(world))
    world.emulator.behavior = Behavior(drift=[Drift("insert", "front", 0.1)], count_cap=500)
    stayed = set(world.emulator.contacts.ids())
    assert stayed <= set(ids_of(world, count="at_least"))


def test_check_says_that_a_listing_has_more_rows_than_it_counts(
    capped: World, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for the page past the count shows it; an honest listing says nothing."""
    capped.configure(monkeypatch)
    done = letters("check")
    said = "contacts: the service lists more rows than it counts; set sources.letters.count to at_least to load them"
    assert said in " ".join(done.out.split())
    assert "300 or more" in done.out
    capped.emulator.behavior = Behavior()
    templates, contacts = check_service(**capped.settings).listings
    assert (templates.has_more, contacts.has_more, contacts.count) == (False, False, 730)
