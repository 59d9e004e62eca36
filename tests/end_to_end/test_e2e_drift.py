"""Listings that change while they are read are loaded correctly or refused.

Small pages are accepted only if they are what the service held at one moment; else it is an `IncompleteListing`.
Pages that can overlap are accepted if they hold every row that stayed.
"""

from typing import Any

import pytest
from dlt.extract.exceptions import ResourceExtractionError
from holdings import held_tables
from worlds import Begin, World

from letters_source import IncompleteListing, letters
from letters_source.wording import causes
from programmable_emulator import Behavior, Drift, Emulator

# where rows enter at one end the recheck is enough; where they enter anywhere, proof exact is requested
DRIFTS: dict[str, tuple[Any, ...]] = {
    "insert_at_the_end": ("insert", "end", "continuous"),
    "insert_at_the_front": ("insert", "front", "continuous"),
    "delete_anywhere": ("delete", "anywhere", "continuous"),
    "swap_to_the_end": ("swap", "end", "continuous"),
    "swap_to_anywhere": ("swap", "anywhere", "exact"),
}


def drifting(kind: Any, place: Any, rate: float, seed: int) -> tuple[Emulator, set[frozenset[str]]]:
    """An emulator whose contacts drift, and every set of ids that it holds at an answer."""
    behavior = Behavior(drift=[Drift(kind, place, rate)], latency_ms=1)
    emulator = Emulator(150, 1, seed=seed, behavior=behavior)
    moments: set[frozenset[str]] = set()
    emulator.before_answer = lambda served, _: moments.add(frozenset(served.contacts.ids()))
    return emulator, moments


def read_ids(world: World, **changes: Any) -> list[str] | None:
    """The ids that the source yields for contacts, None where it refuses."""
    contacts = letters(**{**world.settings, "page_size": 10, **changes}).resources["contacts"]
    try:
        return [row for table in contacts for row in table["id"].to_pylist()]
    except ResourceExtractionError as error:
        if not any(isinstance(cause, IncompleteListing) for cause in causes(error)):
            raise
        return None


RATES = [(0.02, 1), (0.1, 2), (0.1, 3), (0.5, 4)]


@pytest.mark.parametrize(("rate", "seed"), RATES)
@pytest.mark.parametrize("name", DRIFTS)
def test_what_is_accepted_is_what_the_service_held_at_one_moment(
    begin: Begin, name: str, rate: float, seed: int
) -> None:
    """Accepted rows are exactly the rows that the service held at one moment."""
    kind, place, proof = DRIFTS[name]
    emulator, moments = drifting(kind, place, rate, seed)
    world = begin(emulator)
    ids = read_ids(world, proof=proof)
    moments.add(frozenset(emulator.contacts.ids()))
    assert ids is not None or rate > 0.02
    assert ids is None or frozenset(ids) in moments
    assert ids is None or len(ids) == len(set(ids))


@pytest.mark.parametrize(("rate", "seed"), RATES)
@pytest.mark.parametrize("name", DRIFTS)
def test_refused_is_only_what_moves_with_every_other_request(begin: Begin, name: str, rate: float, seed: int) -> None:
    """A load with one worker is refused only if rows other than inserts move with every other request."""
    kind, place, proof = DRIFTS[name]
    emulator, moments = drifting(kind, place, rate, seed)
    ids = read_ids(begin(emulator), proof=proof, max_workers=1)
    moments.add(frozenset(emulator.contacts.ids()))
    assert (ids is None) == (rate == 0.5 and kind != "insert")
    assert ids is None or (frozenset(ids) in moments and len(ids) == len(set(ids)))


CHANGES: dict[str, tuple[Any, Any]] = {
    "insert_anywhere": ("insert", "anywhere"),
    "insert_at_the_front": ("insert", "front"),
    "delete_anywhere": ("delete", "anywhere"),
    "swap_to_the_end": ("swap", "end"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_listing_that_changes_all_the_time_is_loaded_with_every_row_that_stayed(begin: Begin, name: str) -> None:
    """The load has every row that stayed, no row twice, and only labels of loaded contacts."""
    emulator = Emulator(2_000, 1, seed=5, behavior=Behavior(drift=[Drift(*CHANGES[name], 0.5)], latency_ms=1))
    held: list[frozenset[str]] = [frozenset(emulator.contacts.ids())]
    emulator.before_answer = lambda served, _: held.append(frozenset(served.contacts.ids()))
    world = begin(emulator)
    tables = world.read("contacts", page_size=100)
    [audit] = tables["listing_audit"]
    held.append(frozenset(emulator.contacts.ids()))
    loaded = [row["id"] for row in tables["contacts"]]
    assert audit["verdict"] == "continuous"
    assert len(loaded) == len(set(loaded)) == audit["rows_yielded"]
    assert frozenset.intersection(*held) <= set(loaded) <= frozenset.union(*held)
    assert {row["contact_id"] for row in tables["contacts__contact_labels"]} <= set(loaded)
    assert (audit["count_changes"] == 0) == (name == "swap_to_the_end")
    assert audit["page_size_given"] == 100
    assert audit["overlap"] is not None
    assert audit["overlap"] >= 3
    assert audit["links_mended"] is not None
    assert audit["links_mended"] >= 0
    assert audit["requests"] < 60


def test_a_load_after_one_that_saw_a_change_overlaps_its_pages_from_the_start(begin: Begin) -> None:
    """The next load takes one pass; after one that saw no change, pages do not overlap."""
    emulator = Emulator(2_000, 1, seed=5, behavior=Behavior(drift=[Drift("insert", "anywhere", 0.2)]))
    world = begin(emulator)
    loads = []
    for rate in (0.2, 0.2, 0, 0):
        emulator.behavior = Behavior(drift=[Drift("insert", "anywhere", rate)])
        [audit] = world.load(only=("contacts",), page_size=100).audits
        loads.append(audit)
    assert [audit["verdict"] for audit in loads] == ["continuous", "continuous", "stable", "stable"]
    assert [audit["walks"] for audit in loads] == [2, 1, 1, 1]
    assert [audit["overlap"] is None for audit in loads] == [False, False, False, True]


@pytest.mark.parametrize("seed", [1, 2])
def test_inserts_at_the_end_are_always_overcome(begin: Begin, seed: int) -> None:
    """A listing that grows only at its end is exact, even with an insert in every third request."""
    emulator, moments = drifting("insert", "end", 0.3, seed)
    world = begin(emulator)
    tables = world.read("contacts", page_size=10)
    [audit] = tables["listing_audit"]
    moments.add(frozenset(emulator.contacts.ids()))
    loaded = [row["id"] for row in tables["contacts"]]
    assert audit["verdict"] == "exact"
    assert frozenset(loaded) in moments
    assert len(loaded) == len(set(loaded)) == audit["rows_yielded"]
    assert audit["rows_received"] == audit["rows_yielded"] + audit["duplicates_dropped"]
    assert audit["count_last"] > audit["count_first"] >= 150


def test_a_row_that_changes_while_it_is_read_is_loaded_as_it_was_read_last(begin: Begin) -> None:
    """The first page is read again at the end, and its rows of the second reading are loaded."""
    world = begin(Emulator(30, 1))

    def change(emulator: Emulator, number: int) -> None:
        """Rename contact 1 before the first page is read again."""
        if number == 4:
            emulator.contacts.insert(emulator.contacts.delete("1").document | {"city": "Newtown"}, at=0)

    world.emulator.before_answer = change
    tables = world.read("contacts", page_size=10)
    [audit] = tables["listing_audit"]
    assert (audit["verdict"], audit["walks"]) == ("stable", 1)
    assert tables["contacts"] == held_tables(world.emulator)["contacts"]
    assert {row["id"]: row["city"] for row in tables["contacts"]}["1"] == "Newtown"


def test_a_row_deleted_before_the_recheck_causes_another_walk(begin: Begin) -> None:
    """A deleted row and its labels are not loaded."""
    world = begin(Emulator(30, 1))

    def change(emulator: Emulator, number: int) -> None:
        """Delete contact 11 when its page has been read."""
        if number == 4:
            emulator.contacts.delete("11")

    world.emulator.before_answer = change
    tables = world.read("contacts", page_size=10)
    [audit] = tables["listing_audit"]
    held = held_tables(world.emulator)
    assert audit["walks"] == 2
    assert tables["contacts"] == held["contacts"]
    assert tables["contacts__contact_labels"] == held["contacts__contact_labels"]
    assert (audit["count_first"], audit["count_last"], audit["rows_yielded"]) == (30, 29, 29)
    assert (audit["count_changes"], audit["links_mended"], audit["overlap"]) == (1, None, None)
