"""The number of requests of a load, with and without failures."""

from collections import Counter
from datetime import date

import pytest
from holdings import held_tables
from worlds import Begin, World

from letters_source import letters
from programmable_emulator import Behavior, Emulator, Reply, When


def requests_of(world: World) -> Counter[str]:
    """The number of requests for each listing."""
    return Counter(hit.path.rpartition("/")[2] for hit in world.emulator.hits)


def test_a_clamped_page_size_is_learned_from_the_first_page(begin: Begin) -> None:
    """A smaller page size is learned from page 0, and each page is requested once, plus two checks at the end."""
    world = begin(Emulator(250, 40, behavior=Behavior(max_page_size=37)))
    tables = world.read("templates", "contacts", page_size=100)
    assert requests_of(world) == {"contacts": 7 + 2, "templates": 2 + 2}
    assert Counter(hit.query for hit in world.emulator.hits if "contacts" in hit.path) == {
        "page=0&pageSize=100": 2,
        "page=6&pageSize=100": 2,
        **{f"page={page}&pageSize=100": 1 for page in range(1, 6)},
    }
    sizes = [
        (audit["page_size_asked"], audit["page_size_given"], audit["requests"]) for audit in tables["listing_audit"]
    ]
    assert sizes == [(100, 37, 4), (100, 37, 9)]
    assert world.is_exact(tables)


@pytest.mark.parametrize(
    ("contacts", "requests"), [(1, 1), (36, 1), (37, 1 + 1), (38, 2 + 2), (74, 2 + 3), (75, 3 + 2), (111, 3 + 3)]
)
def test_requests_are_the_pages_and_two_for_the_recheck(begin: Begin, contacts: int, requests: int) -> None:
    """Several pages take two requests more; a full last page takes one more, which shows that no row follows."""
    world = begin(Emulator(contacts, 1))
    source = letters(**{**world.settings, "page_size": 37})
    rows = sum(table.num_rows for table in source.resources["contacts"])
    assert (len(world.emulator.hits), rows) == (requests, contacts)


def test_proof_exact_reads_twice(begin: Begin) -> None:
    """Proof `exact` takes at most two requests per page and three more: the last page is full."""
    world = begin(Emulator(100, 1))
    tables = world.read("contacts", page_size=10, proof="exact")
    [audit] = tables["listing_audit"]
    assert (audit["verdict"], audit["rows_yielded"]) == ("exact", 100)
    assert audit["requests"] == len(world.emulator.hits)
    assert audit["requests"] <= 2 * 10 + 3
    assert len(tables["contacts"]) == 100


def test_one_worker_reads_the_same_rows(begin: Begin) -> None:
    """One worker requests one page after the other and reads the same rows."""
    world = begin(Emulator(50, 1))
    tables = world.read("contacts", page_size=10, max_workers=1)
    assert [hit.query[5] for hit in world.emulator.hits] == ["0", "4", "1", "2", "3", "0", "4", "5"]
    assert tables["contacts"] == held_tables(world.emulator)["contacts"]


def test_one_failure_in_twenty_requests_is_overcome(begin: Begin) -> None:
    """Each failed request is sent once more, and the audit counts it."""
    world = begin(Emulator(200, 1, behavior=Behavior(fault_every=20)))
    tables = world.read("contacts", page_size=5, max_workers=4)
    [audit] = tables["listing_audit"]
    failed = [hit for hit in world.emulator.hits if hit.status == 500]
    assert len(failed) == audit["retries"] == 2
    assert audit["requests"] == len(world.emulator.hits) == 40 + 3 + 2
    assert (audit["rows_yielded"], audit["throttled"], audit["verdict"]) == (200, 0, "stable")
    assert tables["contacts"] == held_tables(world.emulator)["contacts"]


def test_a_429_is_honored(begin: Begin) -> None:
    """A response 429 counts as throttled, and the page is requested again."""
    world = begin(Emulator(30, 1))
    world.emulator.canned.once(When("contacts", 1), Reply(429, b"", {"Retry-After": "0"}))
    tables = world.read("contacts", page_size=10)
    [audit] = tables["listing_audit"]
    assert (audit["requests"], audit["retries"], audit["throttled"]) == (3 + 3 + 1, 1, 1)
    assert tables["contacts"] == held_tables(world.emulator)["contacts"]


def test_a_rate_is_that_of_the_whole_load(begin: Begin) -> None:
    """Listings and mailings share one throttle, which has the rate that is set."""
    world = begin(Emulator(5, 1))
    settings = {**world.settings, "mailings": True, "mailings_since": date(2024, 1, 1), "mailings_window": 60}
    source = letters(**settings, requests_per_second=50)
    readers = [source.resources[name] for name in ("templates_pages", "contacts_pages", "mailings_windows")]
    (throttle,) = {reader.explicit_args["task"].context.throttle for reader in readers}
    assert (throttle.rate.most, throttle.rate.next_start) == (50, 0)
    assert list(source)
    assert requests_of(world).keys() == {"contacts", "templates"}
    assert throttle.rate.next_start > 0


def test_an_account_and_filters_are_sent_and_audited(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Account and filters are in every request and in the audit; one request more omits the filters."""
    world = begin(Emulator(40, 40))
    monkeypatch.setenv("SOURCES__LETTERS__TEMPLATES__IS_SHARED", "false")
    tables = world.read("templates", "contacts", account_id="502", page_size=5)
    audits = {audit["listing"]: audit for audit in tables["listing_audit"]}
    assert {name: (audit["account_id"], audit["filters"]) for name, audit in audits.items()} == {
        "templates": ("502", {"is_shared": False}),
        "contacts": ("502", None),
    }
    found = [(hit.path.rpartition("/")[2], *hit.query.partition("&pageSize=")) for hit in world.emulator.hits]
    assert {(listing, query) for listing, _, _, query in found} == {
        ("templates", "5&isShared=false&meta.account_id=502"),
        ("templates", "1&meta.account_id=502"),
        ("contacts", "5&meta.account_id=502"),
    }
    assert [page for _, page, _, query in found if query.startswith("1&")] == ["page=0"]
    own = {row.id for row in world.emulator.contacts.rows() if row.traits.account_id == "502"}
    assert {row["id"] for row in tables["contacts"]} == own
    assert 0 < len(own) < 40
