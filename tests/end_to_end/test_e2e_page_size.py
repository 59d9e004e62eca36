"""Does a load without settings find a page size that the service can deal with?"""

from typing import Any
from urllib.parse import parse_qs

import pytest
from holdings import query
from worlds import Begin, World

from letters_source import ServiceRejected, ServiceUnreachable
from programmable_emulator import Behavior, Drift, Emulator, Reply, When

AUTO: dict[str, Any] = {"page_size": "auto"}
TOO_LARGE = Reply.of({"message": "pageSize must not be greater than 100"}, status=400)


def sizes_asked(world: World, listing: str) -> list[int]:
    """The page sizes of all requests for a listing, in order."""
    hits = (hit for hit in world.emulator.hits if hit.path.endswith(listing))
    return [int(parse_qs(hit.query)["pageSize"][0]) for hit in hits]


def audited(world: World, columns: str) -> list[tuple[Any, ...]]:
    """Columns of the audit of contacts."""
    return query(world.place, f"select {columns} from letters_data.listing_audit where listing = 'contacts'")


def loaded_ids(world: World) -> list[str]:
    """The ids of the contacts that were loaded."""
    return [row for (row,) in query(world.place, "select id from letters_data.contacts")]


def test_large_pages_are_requested_first(begin: Begin) -> None:
    """Many small listings fit into one."""
    world = begin(Emulator(950, 7))
    world.load(**AUTO)
    assert (sizes_asked(world, "templates"), sizes_asked(world, "contacts")) == ([1000], [1000])
    assert audited(world, "verdict, page_size_asked, requests") == [("exact", 1000, 1)]
    assert world.is_exact()


def test_a_service_that_gives_fewer_rows_is_read_in_its_pages(begin: Begin) -> None:
    """They are learned from page 0, without a refusal."""
    world = begin(Emulator(450, 7, behavior=Behavior(max_page_size=100)))
    world.load(**AUTO)
    assert audited(world, "verdict, page_size_asked, page_size_given, requests") == [("stable", 1000, 100, 7)]
    assert world.is_exact()


def test_a_service_that_refuses_the_size_is_asked_for_less_once(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """The load goes on, and says so; other listings and facets of contacts are asked for what is given."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), TOO_LARGE)
    world.load(facets=True, **AUTO)
    first, *others = sizes_asked(world, "contacts")
    assert (first, set(others) - {1}, set(sizes_asked(world, "templates"))) == (1000, {100}, {1000})
    assert "pageSize must not be greater than 100" in caplog.text
    assert "Reading pages of 100 rows instead." in caplog.text
    assert audited(world, "page_size_asked, page_size_given, requests") == [(100, 100, 8)]
    assert set(loaded_ids(world)) == set(world.emulator.contacts.ids())


def test_a_size_refused_again_is_an_error(begin: Begin) -> None:
    """The second refusal is told."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.always(When("contacts"), TOO_LARGE)
    with pytest.raises(ServiceRejected, match="It may need a smaller page_size"):
        world.load(**AUTO)
    assert sizes_asked(world, "contacts") == [1000, 100]
    assert not world.place.exists()


def test_a_number_means_that_number(begin: Begin) -> None:
    """It is not changed, whatever the service answers."""
    world = begin(Emulator(450, 7))
    world.emulator.canned.once(When("contacts"), TOO_LARGE)
    with pytest.raises(ServiceRejected):
        world.load(page_size=1000)
    assert sizes_asked(world, "contacts") == [1000]


def test_pages_that_take_too_long_are_requested_smaller(begin: Begin) -> None:
    """A page of 1,000 rows takes longer than the retry budget, one of 100 does not."""
    world = begin(Emulator(450, 7, behavior=Behavior(row_ms=1.5)))
    world.load(retry_budget=1.0, **AUTO)
    assert audited(world, "verdict, page_size_asked, page_size_given") == [("stable", 100, 100)]
    assert world.is_exact()


def test_a_service_that_never_answers_in_time_is_unreachable(begin: Begin) -> None:
    """After both sizes."""
    world = begin(Emulator(30, 7, behavior=Behavior(latency_ms=60_000)))
    with pytest.raises(ServiceUnreachable, match="no response in time"):
        world.load(retry_budget=0.5, **AUTO)


def test_large_pages_overlap_from_the_start(begin: Begin) -> None:
    """A listing that stood still is stable, for hardly more requests than it has pages."""
    world = begin(Emulator(11_500, 7))
    world.load(**AUTO)
    [(verdict, walks, requests, mended)] = audited(world, "verdict, walks, requests, links_mended")
    assert (verdict, walks, mended) == ("stable", 1, 0)
    assert requests <= 12 * 1.1 + 3
    assert world.is_exact()


@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_a_long_listing_that_changes_is_read_in_one_pass(begin: Begin, kind: Any) -> None:
    """It is continuous from the start, so nothing is read twice."""
    world = begin(Emulator(11_500, 7, behavior=Behavior(drift=[Drift(kind, "anywhere", 0.9)])))
    stayed = set(world.emulator.contacts.ids())
    world.load(**AUTO)
    stayed &= set(world.emulator.contacts.ids())
    [(verdict, walks, requests)] = audited(world, "verdict, walks, requests")
    assert (verdict, walks) == ("continuous", 1)
    assert requests <= 12 * 1.1 + 4
    loaded = loaded_ids(world)
    assert len(loaded) == len(set(loaded))
    assert stayed <= set(loaded)
