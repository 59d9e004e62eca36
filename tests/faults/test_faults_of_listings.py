"""Listings that change, shrink or page oddly are loaded correctly or refused."""

from collections.abc import Callable
from random import Random

import pytest
from holdings import held_tables
from refusals import contents, page, refused
from row_changes import clear, refill
from worlds import Begin, World

from drifting_walks import Case, walk_over_http
from letters_source import ContactFilters, IncompleteListing, ListingShrank, RepeatedIds, ServiceUnreachable, WrongCount
from programmable_emulator import Behavior, Emulator, Reply, Row, When


def test_f39_a_page_size_that_the_service_clamps_loads_all(world: World) -> None:
    """A load that requests 500 rows a page and gets 12 is exact, and its audit has the 12."""
    world.emulator.behavior = Behavior(max_page_size=12)
    tables = world.read("templates", "contacts", page_size=500)
    assert [audit["page_size_given"] for audit in tables["listing_audit"]] == [None, 12]
    assert world.is_exact(tables)


def test_f40_one_page_past_the_end_is_requested_whatever_is_answered(world: World) -> None:
    """A load requests the four full pages of forty rows and one after them, whatever is answered there."""
    for number in range(4, 9):
        world.emulator.canned.always(When("contacts", number), Reply.of({"message": "No such page"}, 404))
    asked = len(world.emulator.hits)
    assert world.is_exact(world.read("templates", "contacts", page_size=10))
    pages = {hit.query.partition("&")[0] for hit in world.emulator.hits[asked:] if "contacts" in hit.path}
    assert pages == {"page=0", "page=1", "page=2", "page=3", "page=4"}


def test_f40_a_count_that_leads_past_the_end_is_refused_there(world: World) -> None:
    """A 404 for a page that the count promises ends the load in an error, and is never taken for the end."""
    for number in range(4):
        world.emulator.canned.always(When("contacts", number), page(world.emulator, number, 45))
    world.emulator.canned.always(When("contacts", 4), Reply.of({"message": "No such page"}, 404))
    where = f"contacts page 4 ({world.settings['base_url']}/contacts)"
    error = refused(world, ServiceUnreachable, retry_budget=0.2)
    assert str(error).startswith(f"{where}: the service answered 404: No such page; gave up within 0.2 s.")


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
    """Rows that are accepted while the listing changes are those that the service held at one of its answers."""
    outcome = walk_over_http(CASES[name], seed)
    assert not outcome.wrong
    assert outcome.requests > 15


def test_f44_a_certificate_sees_a_swap_that_no_count_shows(world: World) -> None:
    """A swap of two rows between two answers, which changes no count, makes the load read the listing again."""
    hits = len(world.emulator.hits)

    def swap(emulator: Emulator, number: int) -> None:
        """Replace a row once the last page has been read."""
        if number == hits + 3:
            emulator.contacts.delete(0)
            emulator.contacts.grow()

    world.emulator.before_answer = swap
    tables = world.read("contacts", page_size=10, max_workers=1)
    [audit] = tables["listing_audit"]
    assert (audit["verdict"], audit["walks"]) == ("exact", 2)
    assert tables["contacts"] == held_tables(world.emulator)["contacts"]


def test_f44_an_id_that_is_listed_twice_is_reported_and_can_be_loaded_once(world: World) -> None:
    """An id that two rows share ends the load in an error, and a setting named there loads it once."""
    again = world.emulator.contacts.rows()[3]
    world.emulator.contacts.insert(again)
    error = refused(world, RepeatedIds, max_walks=2)
    assert str(error) == (
        f"contacts: 1 row repeats the id of another row, for example {again.id}, the same in two passes: count 41, "
        "received 41, missing 0, passes 2; nothing was loaded. "
        "Set sources.letters.duplicates to drop, to load each id once."
    )
    tables = world.read("contacts", page_size=10, duplicates="drop")
    [audit] = tables["listing_audit"]
    assert (audit["verdict"], audit["rows_yielded"], audit["walks"]) == ("stable", 40, 2)
    assert [row["id"] for row in tables["contacts"]].count(again.id) == 1


def shuffle_with(rng: Random) -> Callable[[Emulator, int], None]:
    """Return a callback that changes the order of the listing before each answer."""

    def shuffle(emulator: Emulator, _: int) -> None:
        """Put the same rows back in another order."""
        rows = emulator.contacts.rows()
        refill(emulator.contacts, rng.sample(rows, len(rows)))

    return shuffle


def test_f45_an_unstable_order_is_refused_or_loaded_exactly(world: World) -> None:
    """A listing in another order at each answer is refused, or accepted by a certificate over all passes."""
    world.emulator.before_answer = shuffle_with(Random(7))
    message = str(refused(world, IncompleteListing, max_walks=1))
    assert message.startswith("contacts: its rows")
    before = contents(world.place)
    try:
        [_, audit] = world.load(page_size=10).audits
    except IncompleteListing:
        assert contents(world.place) == before
    else:
        assert audit["verdict"] == "exact"
        assert world.is_exact()


def keep(world: World, rows: int) -> None:
    """Delete all contacts except that many."""
    while world.emulator.contacts.count > rows:
        world.emulator.contacts.delete(-1)


def test_f46_a_listing_without_any_rows_is_refused(world: World) -> None:
    """A listing of no rows ends the load in an error that names the setting that allows it."""
    world.load()
    keep(world, 0)
    error = refused(world, ListingShrank)
    assert str(error) == (
        "contacts: the service lists 0 rows with an id, and the last load had 40; nothing was loaded. "
        "If the others are really gone, turn on sources.letters.allow_empty for one load."
    )
    assert isinstance(error, ListingShrank)
    assert (error.listing, error.before, error.now, error.exit_code) == ("contacts", 40, 0, 4)


def test_f46_a_listing_that_lost_all_its_ids_is_refused(world: World) -> None:
    """A listing whose ids suddenly have another name is refused, although it has as many rows as before."""
    renamed = [{"_id": row.id, **row.document} for row in world.emulator.contacts.rows()]
    for row in renamed:
        del row["id"]
    refill(world.emulator.contacts, map(Row.of, renamed))
    assert str(refused(world, ListingShrank)) == (
        "contacts: the service lists 0 rows with an id, and the last load had 40; nothing was loaded. "
        "If the others are really gone, turn on sources.letters.allow_empty for one load."
    )


def test_f46_a_listing_that_lost_more_than_half_is_refused(world: World) -> None:
    """Rows without an id do not count, and the error names a share that accepts the loss."""
    keep(world, 19)
    world.emulator.contacts.insert({"city": "without an id"}, at=0)
    assert str(refused(world, ListingShrank)) == (
        "contacts: the service lists 19 rows with an id, and the last load had 40; nothing was loaded. "
        "If the others are really gone, set sources.letters.max_shrink, now 0.5, to 0.53 for one load."
    )
    world.emulator.contacts.delete(0)
    world.load(max_shrink=0.53)
    assert world.is_exact()


def test_f46_a_listing_that_lost_half_is_loaded(world: World) -> None:
    """Half of the rows may go in each of two loads, because each load is compared with the one before it."""
    for rows in (20, 10):
        keep(world, rows)
        world.load()
        assert world.is_exact()


def test_f46_a_listing_that_may_be_empty_is_emptied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the environment allows one load to empty the tables; later loads of nothing or more need none."""
    keep(world, 0)
    monkeypatch.setenv("SOURCES__LETTERS__ALLOW_EMPTY", "true")
    world.load()
    assert world.is_exact()
    monkeypatch.delenv("SOURCES__LETTERS__ALLOW_EMPTY")
    world.load()
    world.emulator.contacts.grow()
    world.load()
    assert world.is_exact()


def test_f46_a_folder_of_parquet_that_may_be_empty_is_emptied(begin: Begin) -> None:
    """Parquet tables keep their files when a listing of no rows is refused, and have no rows when it is allowed."""
    world = begin(Emulator(40, 7), "parquet")
    world.load()
    keep(world, 0)
    refused(world, ListingShrank, max_shrink=1)
    world.load(allow_empty=True)
    assert world.is_exact()
    world.emulator.contacts.grow()
    world.load()
    assert world.is_exact()


def test_f46_a_filter_that_no_longer_finds_rows_is_refused(begin: Begin) -> None:
    """A load whose filter finds no rows is refused after a load whose filter found some."""
    world = begin(Emulator(60, 1))
    filters = ContactFilters(search="an")
    world.load(contact_filters=filters)
    clear(world.emulator.contacts)
    refused(world, ListingShrank, contact_filters=filters)


def test_f46_a_filter_that_contacts_leave_by_themselves_may_find_nothing(begin: Begin) -> None:
    """A load of contacts in transit is accepted when no contact is in transit anymore."""
    world = begin(Emulator(60, 1))
    filters = ContactFilters(last_mailed_status=("In Transit",))
    result = world.load(contact_filters=filters)
    assert result.tables["contacts"] > 0
    clear(world.emulator.contacts)
    world.load(contact_filters=filters)
    assert world.tables()["contacts"] == []


@pytest.mark.parametrize("mode", ["history", "sync"])
def test_f46_rows_are_neither_ended_nor_deleted_where_a_listing_shrank(begin: Begin, mode: str) -> None:
    """A listing that shrank is refused before any row is ended or deleted in these modes, too."""
    world = begin(Emulator(30, 1))
    world.load(**{mode: True})
    keep(world, 3)
    refused(world, ListingShrank, **{mode: True})


def test_f47_one_page_is_one_request(world: World) -> None:
    """A listing of one page is proven by the one request that reads it."""
    asked = len(world.emulator.hits)
    audits = world.read("templates", "contacts", page_size=100)["listing_audit"]
    assert [(audit["verdict"], audit["requests"]) for audit in audits] == [("exact", 1)] * 2
    assert len(world.emulator.hits) == asked + 2


def test_f80_a_contact_deleted_at_the_source_is_gone(world: World) -> None:
    """A load that is proven exact removes a deleted contact with its labels."""
    world.emulator.contacts.delete(world.emulator.contacts.rows()[3].id)
    world.load(page_size=10, proof="exact")
    assert world.is_exact()


def test_f80_a_contact_that_a_page_leaves_out_stays(world: World) -> None:
    """A contact that a page leaves out under the same count stays, because nothing says that it is gone."""
    world.emulator.canned.always(When("contacts", 3), page(world.emulator, 3, 40, rows=9))
    refused(world, WrongCount)
