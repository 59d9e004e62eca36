"""The emulator misbehaves as a test configures it."""

import pytest
from served import Serve

from programmable_emulator import Behavior, Drift, Emulator
from programmable_emulator.rate_limits import FixedWindows, TokenBucket, Unlimited, build_limiter


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.25

    def __call__(self) -> float:
        """The time it shows."""
        return self.now


def test_nothing_misbehaves_by_default() -> None:
    """The default behavior has no latency, limit, fault, drift or extra field."""
    assert Behavior() == Behavior(
        latency_ms=0, max_page_size=None, ignore_page=False, rate_limit=None, rate_style="bucket", retry_after=None,
        fault_every=None, fault_status=500, drift=(), extra_fields={},
    )  # fmt: skip
    assert isinstance(Emulator(0, 0).limiter, Unlimited)


def test_latency_changes_no_answer(serve: Serve) -> None:
    """An answer with latency has the same rows as one without."""
    assert serve(Emulator(behavior=Behavior(latency_ms=1))).ids("contacts", {"pageSize": 2}) == ["1", "2"]


def test_a_page_size_above_the_largest_is_clamped(serve: Serve) -> None:
    """Pages are those of the largest size, and smaller ones stay as requested."""
    client = serve(Emulator(behavior=Behavior(max_page_size=3)))
    assert client.ids("contacts", {"page": 1, "pageSize": 100}) == ["4", "5", "6"]
    assert client.ids("templates", {"page": 1, "pageSize": 2}) == ["3", "4"]


def test_an_ignored_page_is_always_page_0(serve: Serve) -> None:
    """With `ignore_page`, the emulator answers every request with page 0."""
    client = serve(Emulator(behavior=Behavior(ignore_page=True)))
    assert client.ids("contacts", {"page": 5, "pageSize": 2}) == ["1", "2"]


def test_requests_beyond_the_rate_are_answered_429(serve: Serve) -> None:
    """The second request within the limit's time is refused, without Retry-After unless one is set."""
    client = serve(Emulator(behavior=Behavior(rate_limit=0.001)))
    assert client.get("contacts").status_code == 200
    response = client.get("contacts")
    assert (response.status_code, response.json()) == (429, {"message": "Too many requests"})
    assert "Retry-After" not in response.headers


def test_retry_after_is_sent_with_429(serve: Serve) -> None:
    """A 429 has the behavior's seconds in the header Retry-After."""
    client = serve(Emulator(behavior=Behavior(rate_limit=0.001, retry_after=7)))
    client.get("contacts")
    assert client.get("contacts").headers["Retry-After"] == "7"


def test_another_behavior_can_be_assigned_while_serving(serve: Serve) -> None:
    """A new behavior counts from the next request, its rate limit starting afresh."""
    client = serve(Emulator(behavior=Behavior(rate_limit=0.001)))
    assert client.statuses("contacts", 2) == [200, 429]
    client.emulator.behavior = Behavior(rate_limit=0.001)
    assert client.statuses("contacts", 2) == [200, 429]
    client.emulator.behavior = Behavior()
    assert client.statuses("contacts", 3) == [200, 200, 200]


def test_a_token_bucket_refills_all_the_time() -> None:
    """A second's requests are admitted at once, then one whenever its time has passed."""
    clock = Clock()
    bucket = build_limiter(Behavior(rate_limit=4), clock)
    assert isinstance(bucket, TokenBucket)
    assert [bucket.admits() for _ in range(5)] == [True, True, True, True, False]
    clock.now += 0.25
    assert [bucket.admits() for _ in range(2)] == [True, False]
    clock.now += 60
    assert [bucket.admits() for _ in range(5)] == [True, True, True, True, False]


def test_fixed_windows_admit_so_many_each_second() -> None:
    """A fixed window admits its limit each second, and does not carry over what the last second left."""
    clock = Clock()
    windows = build_limiter(Behavior(rate_limit=2, rate_style="windows"), clock)
    assert isinstance(windows, FixedWindows)
    assert [windows.admits() for _ in range(3)] == [True, True, False]
    clock.now += 0.5
    assert not windows.admits()
    clock.now += 0.25
    assert [windows.admits() for _ in range(3)] == [True, True, False]


def test_each_nth_request_fails_without_touching_rows(serve: Serve) -> None:
    """Every third request is answered with the fault's status, and drift waits for the others."""
    behavior = Behavior(fault_every=3, fault_status=503, drift=[Drift("insert", "end")])
    client = serve(Emulator(contacts=0, behavior=behavior))
    assert client.statuses("contacts", 7) == [200, 200, 503, 200, 200, 503, 200]
    assert client.emulator.contacts.count == 5
    assert client.emulator.canned.take("contacts", "0", 8) is None


def test_a_fault_is_a_500_with_a_message(serve: Serve) -> None:
    """A fault without a status of its own is a 500 with a message."""
    response = serve(Emulator(behavior=Behavior(fault_every=1))).get("templates")
    assert (response.status_code, response.json()) == (500, {"message": "Something went wrong"})


@pytest.mark.parametrize(
    ("drift", "ids"),
    [
        (Drift("insert", "front"), ["7", "6", "1", "2", "3", "4", "5"]),
        (Drift("insert", "end"), ["1", "2", "3", "4", "5", "6", "7"]),
        (Drift("delete", "front"), ["3", "4", "5"]),
        (Drift("delete", "end"), ["1", "2", "3"]),
        (Drift("insert", "end", rate=0), ["1", "2", "3", "4", "5"]),
    ],
)
@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_rows_drift_at_the_given_place(serve: Serve, listing: str, drift: Drift, ids: list[str]) -> None:
    """Each answer changes the rows of its listing at the place of the drift; the other listing stays."""
    client = serve(Emulator(contacts=5, templates=5, behavior=Behavior(drift=(drift,))))
    client.get(listing)
    assert client.ids(listing) == ids
    other = client.emulator.templates if listing == "contacts" else client.emulator.contacts
    assert other.ids() == ["1", "2", "3", "4", "5"]


def test_a_swap_keeps_the_count(serve: Serve) -> None:
    """Each swap takes one row away and puts a new one at the given place."""
    client = serve(Emulator(contacts=20, behavior=Behavior(drift=(Drift("swap", "end"),))))
    assert [client.data("contacts")["count"] for _ in range(4)] == [20, 20, 20, 20]
    assert client.emulator.contacts.ids()[-1] == "24"
    assert len(set(client.emulator.contacts.ids())) == 20


def test_deleting_from_an_empty_listing_does_nothing(serve: Serve) -> None:
    """Drift stops at the last row."""
    client = serve(Emulator(contacts=1, behavior=Behavior(drift=(Drift("delete"), Drift("delete")))))
    assert client.ids("contacts") == []


def test_drift_is_the_same_for_the_same_seed(serve: Serve) -> None:
    """Rows come and go anywhere, at the same places in every run, and about as often as the rate says."""
    behavior = Behavior(drift=(Drift("insert", rate=0.5), Drift("delete", rate=0.2)))
    runs = []
    for seed in (1, 1, 2):
        client = serve(Emulator(contacts=30, seed=seed, behavior=behavior))
        client.statuses("contacts", 40)
        runs.append(client.emulator.contacts.ids())
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert 30 < len(runs[0]) < 60


def test_a_refused_request_moves_no_rows(serve: Serve) -> None:
    """Drift comes before answers of a listing, not before refusals."""
    client = serve(Emulator(contacts=5, behavior=Behavior(drift=(Drift("delete"),))))
    client.get("contacts", headers={})
    client.get("contacts", "page=x")
    assert client.emulator.contacts.count == 5


def test_extra_fields_end_every_row(serve: Serve) -> None:
    """Undocumented fields follow the documented ones in both listings."""
    extra = {"countryCode": "US", "customFields": {"Age": 20}}
    emulator = Emulator(contacts=3, templates=3, behavior=Behavior(extra_fields=extra))
    client = serve(emulator)
    for name, listing in (("contacts", emulator.contacts), ("templates", emulator.templates)):
        expected = [list({**row.document, **extra}.items()) for row in listing.rows()]
        assert [list(row.items()) for row in client.data(name)["rows"]] == expected
