"""Listings that change, shrink or page oddly are loaded right or refused."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from refusals import page, refused
from shelves import clear, refill
from worlds import Begin, World

from drifting_walks import Case, walk_over_http
from letters_source import ContactFilters, IncompleteListing, ListingShrank, RepeatedIds, ServiceRejected, WrongCount
from programmable_emulator import Behavior, Emulator, Reply, Row, When


def test_f39_a_page_size_that_the_service_clamps_loads_all(world: World) -> None:
    """Asked for 500 rows a page it gives 12."""
    world.emulator.behavior = Behavior(max_page_size=12)
    audits = world.load(page_size=500).audits
    assert [audit["page_size_given"] for audit in audits] == [None, 12]
    assert world.is_exact()


@pytest.mark.parametrize("reply", [Reply.of({"message": "No such page"}, 404), Reply.of({"message": "Bad page"}, 400)])
def test_f40_no_page_past_the_end_is_asked_for(world: World, reply: Reply) -> None:
    """What the service would answer there is not known, and does not matter."""
    for number in range(4, 9):
        world.emulator.canned.always(When("contacts", number), reply)
    asked = len(world.emulator.hits)
    world.load(page_size=10)
    assert world.is_exact()
    pages = {hit.query.partition("&")[0] for hit in world.emulator.hits[asked:] if "contacts" in hit.path}
    assert pages == {"page=0", "page=1", "page=2", "page=3"}


def test_f40_a_count_that_leads_past_the_end_is_refused_there(world: World) -> None:
    """A 404 where the count promised rows is an error and never an end."""
    for number in range(4):
        world.emulator.canned.always(When("contacts", number), page(world.emulator, number, 45))
    world.emulator.canned.always(When("contacts", 4), Reply.of({"message": "No such page"}, 404))
    assert str(refused(world, ServiceRejected)).startswith("contacts page 4: the service refused the request (404)")


CASES = {
    "f42_inserts_at_the_end": Case("insert", "end", 0.05),
    "f42_inserts_anywhere": Case("insert", "anywhere", 0.05, proof="exact"),
    "f43_deletes_anywhere": Case("delete", "anywhere", 0.05),
    "f44_swaps_to_the_end": Case("swap", "end", 0.05),
    "f44_swaps_to_anywhere": Case("swap", "anywhere", 0.05, proof="exact"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_f42_f43_f44_what_is_accepted_is_what_the_service_held_at_that_moment(name: str, seed: int) -> None:
    """The emulator writes down its rows at each answer; a certificate names its answer, a fence holds at its last."""
    outcome = walk_over_http(CASES[name], seed)
    assert not outcome.wrong
    assert outcome.requests > 15


def test_f44_a_certificate_sees_a_swap_that_no_count_shows(world: World) -> None:
    """A row leaves page 0 and another enters behind, between two answers: counts and distinct ids stay the same."""
    hits = len(world.emulator.hits)

    def swap(emulator: Emulator, number: int) -> None:
        """Once the last page has been read."""
        if number == hits + 3:
            emulator.contacts.delete(0)
            emulator.contacts.grow()

    world.emulator.before_answer = swap
    [audit] = world.load(only=("contacts",), page_size=10, max_workers=1).audits
    assert (audit["verdict"], audit["walks"]) == ("exact", 2)
    assert world.is_exact()


def test_f44_an_id_that_is_listed_twice_is_told_and_can_be_loaded_once(world: World) -> None:
    """All rows arrive, so no quieter hour would help: the error names the setting that accepts them."""
    again = world.emulator.contacts.rows()[3]
    world.emulator.contacts.insert(again)
    error = refused(world, RepeatedIds, max_walks=2)
    assert str(error) == (
        f"contacts: 1 row repeats the id of another row, for example {again.id}, the same in two passes: count 41, "
        "received 41, missing 0, passes 2; nothing was loaded. "
        "Set sources.letters.duplicates to drop, to load each id once."
    )
    [audit] = world.load(only=("contacts",), page_size=10, duplicates="drop").audits
    assert (audit["verdict"], audit["rows_yielded"], audit["walks"]) == ("stable", 40, 2)
    assert [row["id"] for row in world.tables()["contacts"]].count(again.id) == 1


def shuffle_with(dice: Random) -> Callable[[Emulator, int], None]:
    """What gives the listing another order before each answer."""

    def shuffle(emulator: Emulator, _: int) -> None:
        """Put the same rows back in another order."""
        rows = emulator.contacts.rows()
        refill(emulator.contacts, dice.sample(rows, len(rows)))

    return shuffle


def test_f45_an_unstable_order_is_refused_or_loaded_exactly(world: World) -> None:
    """Some rows come twice and some never, under the right count; only a certificate over all walks may accept them."""
    world.load()
    world.emulator.before_answer = shuffle_with(Random(7))
    message = str(refused(world, IncompleteListing, max_walks=1))
    assert message.startswith("contacts: its rows")
    with suppress(IncompleteListing):
        [_, audit] = world.load(page_size=10).audits
        assert audit["verdict"] == "exact"
    assert world.is_exact()


def keep(world: World, rows: int) -> None:
    """Take away all contacts but so many."""
    while world.emulator.contacts.count > rows:
        world.emulator.contacts.delete(-1)


def test_f46_a_listing_without_any_rows_is_refused(world: World) -> None:
    """An answer of nothing looks like any other; the message names what allows it."""
    keep(world, 0)
    error = refused(world, ListingShrank)
    assert str(error) == (
        "contacts: the service lists 0 rows with an id, and the last load had 40; nothing was loaded. "
        "If the others are really gone, set sources.letters.allow_empty to true for one load."
    )
    assert isinstance(error, ListingShrank)
    assert (error.listing, error.before, error.now, error.exit_code) == ("contacts", 40, 0, 4)


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_f46_a_listing_that_may_be_empty_is_emptied(begin: Begin, kind: Any) -> None:
    """Once it is allowed; from nothing to nothing needs no leave, and neither does growing again."""
    world = begin(Emulator(40, 7), kind)
    world.load()
    keep(world, 0)
    refused(world, ListingShrank, max_shrink=1)
    world.load(allow_empty=True)
    assert world.tables()["contacts"] == []
    world.load()
    world.emulator.contacts.grow()
    world.load()
    assert world.is_exact()


def test_f46_a_listing_that_lost_more_than_half_is_refused(world: World) -> None:
    """Half of it may go; what allows more is named with a value that does."""
    keep(world, 19)
    assert str(refused(world, ListingShrank)) == (
        "contacts: the service lists 19 rows with an id, and the last load had 40; nothing was loaded. "
        "If the others are really gone, set sources.letters.max_shrink, now 0.5, to 0.53 for one load."
    )
    refused(world, ListingShrank, max_shrink=0.52, allow_empty=True)
    world.load(max_shrink=0.53)
    assert world.is_exact()


@pytest.mark.parametrize(("before", "now", "share"), [(50, 21, "0.58"), (100, 42, "0.58"), (100, 43, "0.57")])
def test_f46_the_share_that_is_named_is_enough(begin: Begin, before: int, now: int, share: str) -> None:
    """Also where a computer's fractions are a little beside those of people."""
    world = begin(Emulator(before, 1))
    world.load(only=("contacts",))
    keep(world, now)
    assert f"to {share} for one load" in str(refused(world, ListingShrank, only=("contacts",)))
    world.load(only=("contacts",), max_shrink=float(share))
    assert len(world.tables()["contacts"]) == now


def test_f46_a_listing_that_lost_half_is_loaded(begin: Begin) -> None:
    """Loads are compared one by one, and rows without an id do not count."""
    world = begin(Emulator(39, 1))
    world.emulator.contacts.insert({"city": "without an id"}, at=0)
    world.load()
    for rows in (20, 10, 5):
        keep(world, 1 + rows)
        world.load()
    assert len(world.tables()["contacts"]) == 5


@pytest.mark.parametrize("mode", ["replace", "sync", "history"])
def test_f46_a_listing_that_lost_all_its_ids_is_refused(begin: Begin, mode: str) -> None:
    """As where the service names them otherwise from a day on; its rows are as many as ever."""
    world = begin(Emulator(40, 7))
    chosen = {} if mode == "replace" else {mode: True}
    world.load(**chosen)
    renamed = [{"_id": row.id, **row.document} for row in world.emulator.contacts.rows()]
    for row in renamed:
        del row["id"]
    refill(world.emulator.contacts, map(Row.of, renamed))
    assert str(refused(world, ListingShrank, **chosen)).startswith(
        "contacts: the service lists 0 rows with an id, and the last load had 40; nothing was loaded."
    )


def test_f46_the_guards_can_be_set_in_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one load of a scheduled job."""
    keep(world, 0)
    monkeypatch.setenv("SOURCES__LETTERS__ALLOW_EMPTY", "true")
    world.load()
    assert world.is_exact()


def test_f46_a_filter_that_finds_nothing_any_more_is_refused(begin: Begin) -> None:
    """A dataset keeps one choice of filters, so its loads can be compared."""
    world = begin(Emulator(60, 1))
    filters = ContactFilters(search="an")
    world.load(contact_filters=filters)
    clear(world.emulator.contacts)
    refused(world, ListingShrank, contact_filters=filters)


@pytest.mark.parametrize(
    "filters", [ContactFilters(last_mailed_status=("In Transit",)), ContactFilters(address_status=("Failed",))]
)
def test_f46_a_filter_that_contacts_leave_by_themselves_may_find_nothing(begin: Begin, filters: ContactFilters) -> None:
    """That nobody is in transit any more is no sign of a fault."""
    world = begin(Emulator(60, 1))
    world.load(contact_filters=filters)
    assert world.tables()["contacts"] != []
    clear(world.emulator.contacts)
    world.load(contact_filters=filters)
    assert world.tables()["contacts"] == []


@pytest.mark.parametrize("mode", ["history", "sync"])
def test_f46_rows_are_neither_ended_nor_deleted_where_a_listing_shrank(begin: Begin, mode: str) -> None:
    """The guard comes before any way of writing."""
    world = begin(Emulator(30, 1))
    world.load(**{mode: True})
    keep(world, 3)
    refused(world, ListingShrank, **{mode: True})
    world.load(**{mode: True, "max_shrink": 0.9})


def test_f47_one_page_is_one_request(world: World) -> None:
    """It proves itself."""
    asked = len(world.emulator.hits)
    audits = world.load(page_size=100).audits
    assert [(audit["verdict"], audit["requests"]) for audit in audits] == [("exact", 1)] * 2
    assert len(world.emulator.hits) == asked + 2


@pytest.mark.parametrize("proof", ["continuous", "exact"])
def test_f80_a_contact_deleted_at_the_source_is_gone(world: World, proof: str) -> None:
    """With its labels, in a load that was shown to be whole."""
    gone = world.emulator.contacts.rows()[3].id
    world.emulator.contacts.delete(gone)
    world.load(page_size=10, proof=proof)
    assert world.is_exact()


def test_f80_a_contact_that_a_page_leaves_out_stays(world: World) -> None:
    """Nothing says that it is gone."""
    world.load()
    world.emulator.canned.always(When("contacts", 3), page(world.emulator, 3, 40, rows=9))
    refused(world, WrongCount)
    assert len(world.tables()["contacts"]) == 40
