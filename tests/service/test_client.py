"""Requests are sent as documented, and every response becomes a page or one named error."""

import gzip
import logging
import random
import resource
import socket
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter

from letters_source.decode.page import Page, decode_page
from letters_source.errors import LettersError, MalformedResponse, NotAuthorized, ServiceRejected, ServiceUnreachable
from letters_source.service import deadline as timed
from letters_source.service.client import CHUNK_BYTES, MAX_BODY_BYTES, READ_SECONDS, Client
from letters_source.service.listings import (
    CONTACTS,
    TEMPLATES,
    ContactFilters,
    FilterForm,
    Filters,
    Listing,
    TemplateFilters,
)
from letters_source.service.pacing import EASE, GROWTH
from letters_source.service.page_request import PageRequest
from letters_source.service.retries import FIRST_WAIT_SECONDS
from letters_source.service.throttle import Stopped, Throttle
from letters_source.service.tokens import Tokens, TokenSource
from pages import page_of
from programmable_emulator import Behavior, Emulator, Reply, When
from recording_server import RESET, Recorder, answer, chunked, record

TOKENS = Tokens("emulator-access-token", "emulator-refresh-token")
FILTERS = (
    " It may require sources.letters.account_id, product_types, is_shared, or search under "
    "[sources.letters.templates], or need a smaller sources.letters.page_size."
)
FORMS = (
    " It may need a smaller sources.letters.page_size, or another sources.letters.date_format or "
    "sources.letters.filter_encoding."
)
ADDRESS = " Check base_url, which ends in /api/v1."
AT_ONCE = {"Retry-After": "0"}
# the first draws from this seed are close to 0: jitter stays, and no test waits for it
SHORT_JITTER = 2_840_721
ONE = page_of({"id": "1"})


class TimedAdapter(HTTPAdapter):
    """An adapter that sends as usual, and records the timeouts that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[Any] = []

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request."""
        self.timeouts.append(kwargs["timeout"])
        return super().send(*args, **kwargs)


@pytest.fixture(autouse=True)
def short_jitter() -> None:
    """Waits with jitter are short, and the same each time."""
    random.seed(SHORT_JITTER)


@contextmanager
def client_of(base_url: str, *tokens: Tokens, budget: float = 20) -> Iterator[Client]:
    """A client whose secrets hold these tokens, one after another."""
    first, *later = tokens or (TOKENS,)
    secrets = iter([*later, *[later[-1] if later else first] * 9])
    with Client(base_url, TokenSource(first, lambda: next(secrets)), Throttle(2), budget) as client:
        yield client


@pytest.fixture
def emulator() -> Emulator:
    """A service of 25 contacts and 3 templates."""
    return Emulator(25, 3)


@pytest.fixture
def client(emulator: Emulator) -> Iterator[Client]:
    """A client of the emulator."""
    with emulator.serve() as base_url, client_of(base_url) as client:
        yield client


def get(client: Client, listing: Listing = CONTACTS, page: int = 0) -> Page:
    """One page of two rows."""
    return client.get(PageRequest(listing, page, 2), decode_page)


def problem(client: Client, kind: type[LettersError], listing: Listing = CONTACTS) -> str:
    """The message of the error of exactly this class that a page request raises, which has no cause."""
    with pytest.raises(LettersError) as caught:
        get(client, listing)
    assert type(caught.value) is kind
    assert caught.value.__cause__ is None
    return str(caught.value)


def gave_up(client: Client, reason: str) -> str:
    """The message of an error when the retry budget is spent."""
    return (
        f"contacts page 0 ({client.base_url}/contacts): {reason}; gave up within {client.retry_budget:g} s. "
        "Check base_url. To let loads retry longer, raise sources.letters.retry_budget."
    )


def statuses(emulator: Emulator) -> list[int]:
    """The statuses that the emulator answered with."""
    return [hit.status for hit in emulator.hits]


@contextmanager
def recorded(*answers: bytes, budget: float = 20) -> Iterator[tuple[Client, Recorder]]:
    """A client of a server that returns these responses."""
    with record(*answers) as recorder, client_of(recorder.base_url, budget=budget) as client:
        yield client, recorder


def test_a_page_is_requested_as_documented(client: Client, emulator: Emulator) -> None:
    """A page is one GET of the listing's path with page and pageSize, and its rows are decoded."""
    contacts, templates = get(client, page=12), get(client, TEMPLATES)
    assert (contacts.count, contacts.rows["id"].to_pylist()) == (25, ["25"])
    assert (templates.count, templates.rows["id"].to_pylist()) == (3, ["1", "2"])
    assert [(hit.path, hit.query, hit.status) for hit in emulator.hits] == [
        ("/api/v1/contacts", "page=12&pageSize=2", 200),
        ("/api/v1/templates", "page=0&pageSize=2", 200),
    ]
    assert client.traffic == {"requests": 2}


@pytest.mark.parametrize(("place", "sent"), [("", ""), ("/api/v1", "/api/v1"), ("/ä/b%20", "/%C3%A4/b%20")])
def test_addresses_are_escaped_and_cookies_sent_back(place: str, sent: str) -> None:
    """Every page is requested at the escaped address with the cookies that load balancers set."""
    with (
        record(answer(ONE, Set_Cookie="server=2")) as recorder,
        client_of(recorder.base_url.removesuffix("/api/v1") + place) as client,
    ):
        for page in range(2):
            get(client, page=page)
    assert [request.target for request in recorder.sent] == [
        f"{sent}/contacts?page={page}&pageSize=2" for page in range(2)
    ]
    assert [request.headers.get("cookie") for request in recorder.sent] == [None, "server=2"]


@pytest.mark.parametrize("base_url", ["https://münchen.example/api/v1", "https://host.example/a/../%7Ex"])
def test_the_deadline_applies_to_addresses_that_are_normalized(base_url: str) -> None:
    """The deadline applies even if the address that is sent differs from the one configured."""
    with client_of(base_url) as client:
        sent = str(client.session.prepare_request(requests.Request("GET", base_url)).url)
        assert not sent.startswith(base_url)
        assert isinstance(client.session.get_adapter(sent), timed.TimedAdapter)


@pytest.mark.parametrize(("listing", "refresh"), [(CONTACTS, TOKENS.refresh), (TEMPLATES, None)])
def test_tokens_are_sent_in_their_headers(listing: Listing, refresh: str | None) -> None:
    """The bearer token is sent for both listings, and the refresh token for contacts alone."""
    with recorded(answer(ONE)) as (client, recorder):
        client.get(PageRequest(listing, 0, 2, {"search": "a b&c"}), decode_page)
    (sent,) = recorder.sent
    assert sent.target == f"/api/v1{listing.path}?page=0&pageSize=2&search=a%20b%26c"
    assert sent.headers["authorization"] == f"Bearer {TOKENS.access}"
    assert sent.headers.get("refreshtoken") == refresh
    assert (sent.headers["accept-encoding"], sent.headers["cache-control"]) == ("gzip", "no-cache")
    assert set(sent.headers) - {"refreshtoken"} == {
        "host", "user-agent", "accept", "accept-encoding", "connection", "cache-control", "authorization",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("listing", "filters", "sent"),
    [
        (TEMPLATES, TemplateFilters(), ""),
        (
            TEMPLATES,
            TemplateFilters(search=0, product_types=(), creator="", is_shared=False),
            "&search=0&productTypes=&creator=&isShared=false",
        ),
        (
            TEMPLATES,
            TemplateFilters(
                search=1,
                product_types=("Professional Letters", "Personal Letters"),
                creator="Ada & Zoë",
                is_shared=True,
                account_id="7+7",
            ),
            (
                "&search=1&productTypes=Professional%20Letters%2CPersonal%20Letters&creator=Ada%20%26%20Zo%C3%AB"
                "&isShared=true&meta.account_id=7%2B7"
            ),
        ),
        (CONTACTS, ContactFilters(), ""),
        (
            CONTACTS,
            ContactFilters(search="a/b=c?~", tags=("4", 'Q4 "hot"'), is_return_address=False),
            "&search=a%2Fb%3Dc%3F~&tags=%5B4%2C%20%22Q4%20%5C%22hot%5C%22%22%5D&isReturnAddress=false",
        ),
    ],
)
def test_filters_are_sent_where_they_are_set(listing: Listing, filters: Filters, sent: str) -> None:
    """Filters that are set, also to something empty, are sent percent-encoded (service-interface 4)."""
    with recorded(answer(ONE)) as (client, recorder):
        client.get(PageRequest(listing, 3, 50, filters.encode(FilterForm())), decode_page)
    assert [each.target for each in recorder.sent] == [f"/api/v1{listing.path}?page=3&pageSize=50{sent}"]


def test_a_netrc_changes_no_header(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The bearer token is sent though a netrc has a password for the host."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password other\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with recorded(answer(ONE)) as (client, recorder):
        get(client)
    assert [sent.headers["authorization"] for sent in recorder.sent] == [f"Bearer {TOKENS.access}"]


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the service though the environment names a proxy."""
    with record(answer(ONE)) as proxy, recorded(answer(ONE)) as (client, recorder):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        get(client)
    assert (len(proxy.sent), len(recorder.sent)) == (0, 1)


@pytest.mark.parametrize(
    ("status", "listing", "expected"),
    [
        (400, CONTACTS, "contacts page 0{}: the service refused the request (400): Bad page." + FORMS),
        (400, TEMPLATES, "templates page 0{}: the service refused the request (400): Bad page." + FILTERS),
        (422, CONTACTS, "contacts page 0{}: the service refused the request (422): Bad page." + FORMS),
        (404, CONTACTS, "contacts page 0{}: the service refused the request (404): Bad page." + ADDRESS),
        (501, CONTACTS, "contacts page 0{}: the service refused the request (501): Bad page."),
    ],
)  # fmt: skip
def test_a_refused_request_is_not_sent_again(
    client: Client, emulator: Emulator, status: int, listing: Listing, expected: str
) -> None:
    """The error for a refused request quotes the service, suggests a remedy, and names the URL without its query."""
    emulator.canned.always(When(), Reply.of({"message": "Bad page."}, status))
    assert problem(client, ServiceRejected, listing) == expected.format(f" ({client.base_url}{listing.path})")
    assert statuses(emulator) == [status]


@pytest.mark.parametrize("status", [401, 403])
def test_refused_tokens_are_read_again_once(client: Client, emulator: Emulator, status: int) -> None:
    """A refused request is not sent again if the secrets still hold the refused tokens."""
    emulator.canned.always(When(), Reply.of({"message": "token revoked"}, status))
    assert problem(client, NotAuthorized) == (
        f"contacts page 0: the service refused the tokens ({status}): token revoked; "
        "set new sources.letters.access_token and refresh_token."
    )
    assert statuses(emulator) == [status]


def test_a_load_continues_with_rotated_tokens(emulator: Emulator) -> None:
    """The page whose tokens were refused, and those after it, are read with the new tokens."""
    with emulator.serve() as base_url, client_of(base_url, Tokens("old", "old"), TOKENS) as client:
        assert [get(client).count, get(client).count] == [25, 25]
    assert statuses(emulator) == [401, 200, 200]
    assert client.traffic == {"requests": 3}


def test_a_rotated_token_that_is_refused_too_ends_the_run(emulator: Emulator) -> None:
    """Secrets are not read a third time if the new tokens are refused too."""
    tokens = [Tokens(f"old-{number}", "old") for number in range(3)]
    with emulator.serve() as base_url, client_of(base_url, *tokens) as client:
        assert problem(client, NotAuthorized) == (
            "contacts page 0: the service refused the tokens (401): Access token missing or invalid; "
            "set new sources.letters.access_token and refresh_token."
        )
    assert statuses(emulator) == [401, 401]


@pytest.mark.parametrize("address", ["http://127.0.0.1", "http://localhost", "https://127.0.0.1"])
@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_never_followed(status: int, address: str) -> None:
    """The target of a redirect gets no request, and so no token, be it another port, host or scheme."""
    with record(answer(ONE)) as target:
        location = f"{address}:{target.port}/api/v1/contacts?canary"
        moved = answer(b'{"message": "canary"}', f"{status} Moved", Location=location)
        with recorded(moved) as (client, recorder):
            assert problem(client, ServiceRejected) == (
                f"contacts page 0: the service redirects ({status}) to {address.partition('://')[2]}; "
                "redirects are not followed. Check base_url."
            )
    assert (len(recorder.sent), len(target.sent), target.connections) == (1, 0, 0)


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("https://[::1/", "an address that cannot be read"),
        ("/d\xe9p\xf4t", "the same host"),
        ("https://\x1b[31mcanary", "an address that cannot be read"),
    ],
)
def test_a_redirect_to_an_unreadable_address_is_like_any_other(location: str, host: str) -> None:
    """A redirect to an address that cannot be read ends in the error of any other redirect."""
    redirect = b"HTTP/1.1 302 Found\r\nContent-Length: 2\r\nLocation: " + location.encode("latin-1") + b"\r\n\r\n{}"
    with recorded(redirect) as (client, recorder):
        text = problem(client, ServiceRejected)
    assert (
        text == f"contacts page 0: the service redirects (302) to {host}; redirects are not followed. Check base_url."
    )
    assert len(recorder.sent) == 1


def test_a_redirect_to_itself_is_requested_once() -> None:
    """A redirect to the same address is requested once, because no redirect is followed."""
    with recorded(answer(b"", "302 Found", Location="/api/v1/contacts")) as (client, recorder):
        assert problem(client, ServiceRejected) == (
            "contacts page 0: the service redirects (302) to the same host; redirects are not followed. Check base_url."
        )
    assert len(recorder.sent) == 1


def test_a_page_that_a_proxy_transformed_is_a_page(client: Client, emulator: Emulator) -> None:
    """A 203 has the whole body of a 200 (RFC 9110, 15.3.4)."""
    emulator.canned.once(When(), Reply(203, ONE))
    assert get(client).rows["id"].to_pylist() == ["1"]


@pytest.mark.parametrize("status", [202, 204, 205, 206])
def test_another_success_is_no_page(client: Client, emulator: Emulator, status: int) -> None:
    """Successes without a whole body are errors."""
    emulator.canned.always(When(), Reply(status, ONE if status in (202, 206) else b""))
    assert problem(client, MalformedResponse) == f"contacts page 0: expected a status of 200, got {status}."
    assert statuses(emulator) == [status]


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504])
def test_failures_are_retried(
    client: Client, emulator: Emulator, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests are retried within the budget, with one warning that names the address."""
    emulator.canned.once(When(), *[Reply(status, b"canary", AT_ONCE)] * 3)
    assert get(client).count == 25
    assert statuses(emulator) == [status] * 3 + [200]
    assert client.traffic == {"requests": 4, "retries": 3}
    warned = [message.partition("; ")[0] for message in caplog.messages]
    assert warned == [f"contacts page 0 ({client.base_url}/contacts): the service answered {status}"]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (429, AT_ONCE),
        (429, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}),
        (429, {}),
        (503, {}),
        (503, {"Retry-After": "soon"}),
    ],
)
def test_a_response_to_slow_down_is_honored(
    client: Client, emulator: Emulator, status: int, headers: dict[str, str]
) -> None:
    """A page that is answered 429 or 503 is requested again, and the throttle lowers its limit."""
    emulator.canned.once(When(), Reply(status, b"", headers))
    assert get(client).count == 25
    assert statuses(emulator) == [status, 200]
    assert client.traffic == {"requests": 2, "retries": 1, "throttled": 1}
    assert client.throttle.limit == 1
    assert client.throttle.rate.learned is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_rate_is_learned_from_429_alone(client: Client, emulator: Emulator, status: int) -> None:
    """After three successes in the last second, a 429 teaches a rate; a 503 is not about the rate."""
    for page in range(3):
        get(client, page=page)
    throttle = client.throttle
    throttle.rate.successes = deque([monotonic() + 100] * 3)
    emulator.canned.once(When(), Reply(status, b"", AT_ONCE))
    get(client)
    grown = EASE * 3 + GROWTH * (throttle.rate.successes[-1] - throttle.rate.pushed_back)
    assert throttle.rate.learned == (grown if status == 429 else None)
    assert client.traffic == {"requests": 5, "retries": 1, "throttled": 1}


def test_a_retry_after_of_0_parks_no_worker(client: Client, emulator: Emulator) -> None:
    """A Retry-After of 0 is honored; without the header, all workers wait a moment."""
    throttle = client.throttle
    emulator.canned.once(When(), Reply(429, b"", AT_ONCE))
    get(client)
    assert client.traffic["throttled"] == 1
    assert throttle.rate.parked_until == throttle.rate.pushed_back
    emulator.canned.once(When(), Reply(429, b""))
    get(client)
    assert throttle.rate.parked_until == throttle.rate.pushed_back + FIRST_WAIT_SECONDS


PAST = "Thu, 01 Jan 1970 00:00:00 GMT"


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504, 599])
def test_every_worker_waits_as_long_as_a_retried_response_asks(client: Client, emulator: Emulator, status: int) -> None:
    """All workers wait, not only the one with the answer; limit and rate do not change."""
    throttle = client.throttle
    before = monotonic()
    emulator.canned.always(When(), Reply(status, b"", {"Retry-After": "86400"}))
    reason = f"the service answered {status} and asks to wait 86400 s"
    assert problem(client, ServiceUnreachable) == gave_up(client, reason)
    assert statuses(emulator) == [status]
    assert client.traffic == {"requests": 1}
    assert before + 86_400 <= throttle.rate.parked_until <= monotonic() + 86_400
    assert (throttle.limit, throttle.rate.learned, throttle.rate.pushed_back) == (2, None, 0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_response_to_slow_down_parks_every_worker_and_halves_the_limit(
    client: Client, emulator: Emulator, status: int
) -> None:
    """All workers wait as long as it asks, and it counts as throttled, unlike other retried statuses."""
    throttle = client.throttle
    emulator.canned.always(When(), Reply(status, b"", {"Retry-After": "86400"}))
    reason = f"the service answered {status} and asks to wait 86400 s"
    assert problem(client, ServiceUnreachable) == gave_up(client, reason)
    assert client.traffic == {"requests": 1, "throttled": 1}
    assert throttle.rate.parked_until == throttle.rate.pushed_back + 86_400
    assert (throttle.limit, throttle.rate.learned) == (1, None)


@pytest.mark.parametrize("headers", [{}, AT_ONCE, {"Retry-After": PAST}, {"Retry-After": "soon"}])
def test_a_retried_response_without_retry_after_parks_no_worker(
    client: Client, emulator: Emulator, headers: dict[str, str]
) -> None:
    """A retried response without Retry-After delays only its own page, and the learned rate keeps growing."""
    rate = client.throttle.rate
    rate.learned, rate.pushed_back, rate.parked_until = 100.0, monotonic() - 30, monotonic() - 20
    pushed_back, parked_until = rate.pushed_back, rate.parked_until
    emulator.canned.once(When(), Reply(500, b"", headers))
    assert get(client).count == 25
    assert statuses(emulator) == [500, 200]
    assert (rate.pushed_back, rate.parked_until) == (pushed_back, parked_until)
    assert rate.learned == 100 + GROWTH * (rate.successes[-1] - parked_until)


@pytest.mark.parametrize("seconds", [86_400, 20])
def test_a_retry_after_beyond_the_budget_fails_at_once(client: Client, emulator: Emulator, seconds: int) -> None:
    """A wait longer than the budget ends in an error that names the wait."""
    emulator.canned.always(When(), Reply(429, b"", {"Retry-After": str(seconds)}))
    reason = f"the service answered 429 and asks to wait {seconds} s"
    assert problem(client, ServiceUnreachable) == gave_up(client, reason)
    assert statuses(emulator) == [429]
    assert client.traffic == {"requests": 1, "throttled": 1}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_endless_failures_are_bounded_by_the_budget(emulator: Emulator, status: int) -> None:
    """A page that fails as long as the budget lasts ends in an error that names the last failure."""
    emulator.canned.always(When(), Reply(status, b"", AT_ONCE))
    with emulator.serve() as base_url, client_of(base_url, budget=0.3) as client:
        assert problem(client, ServiceUnreachable) == gave_up(client, f"the service answered {status}")
        assert set(statuses(emulator)) == {status}
        assert client.traffic["requests"] == client.traffic["retries"] + 1 == len(emulator.hits)


def test_a_service_that_is_not_there_is_unreachable() -> None:
    """A port where nothing listens ends in an error when the budget is spent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with client_of(f"http://127.0.0.1:{port}", budget=0.1) as client:
        reason = "no connection to the service: connection refused"
        assert problem(client, ServiceUnreachable) == gave_up(client, reason)


LENGTH = {"Content_Length": str(len(ONE) + 1)}
PACKED = gzip.compress(ONE)
CHUNKED = {"Transfer_Encoding": "chunked"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (answer(ONE, **LENGTH), "a response cut short"),
        (answer(ONE[:20], **LENGTH), "a response cut short"),
        (answer(b"", **LENGTH), "a response cut short"),
        (answer(chunked(ONE, end=b""), **CHUNKED), "a response cut short"),
        (answer(chunked(ONE)[:-20], **CHUNKED), "a response cut short"),
        (answer(b"zz\r\n", **CHUNKED), "a response cut short"),
        (answer(PACKED[:-12], **LENGTH, Content_Encoding="gzip"), "a response cut short"),
        (answer(PACKED[:-12], Content_Encoding="gzip"), "a response cut short"),
        (answer(PACKED + b"canary", Content_Encoding="gzip"), "a response cut short"),
        (answer(b"\x1f\x8b\x08" + b"\x00" * 30, Content_Encoding="gzip"), "a response cut short"),
        (answer(b"canary", Content_Encoding="gzip"), "a response cut short"),
        (answer(ONE[:20], Content_Length=str(len(ONE))) + RESET, "a response cut short"),
        (answer(ONE[:-1]), "a body that is not JSON"),
        (answer(ONE[:-1]).replace(b"Content-Length", b"X-Length"), "a body that is not JSON"),
        (answer(b""), "a body that is not JSON"),
        (b"", "the connection ended without a response"),
        (RESET, "the connection ended without a response"),
        (b"HTTP/1.1 200", "a body that is not JSON"),
        (b"canary\r\n\r\n", "the connection ended without a response"),
    ],
)
def test_a_broken_response_is_requested_again(broken: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """Responses that are cut short, with a length, chunked, gzipped or empty, are retried."""
    with recorded(broken, broken, answer(ONE)) as (client, recorder):
        assert get(client).rows["id"].to_pylist() == ["1"]
    assert len(recorder.sent) == 3
    assert client.traffic == {"requests": 3, "retries": 2}
    warned = [message.partition("; ")[0] for message in caplog.messages]
    assert warned == [f"contacts page 0 ({client.base_url}/contacts): {reason}"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (answer(chunked(ONE, end=b""), **CHUNKED), "a response cut short"),
        (answer(b"canary", Content_Encoding="gzip"), "a response cut short"),
        (b"", "the connection ended without a response"),
    ],
)
def test_a_response_that_stays_broken_is_retried_until_the_budget_is_spent(broken: bytes, reason: str) -> None:
    """A response that is cut short each time is retried until the budget is spent."""
    with recorded(broken, budget=0.1) as (client, recorder):
        assert problem(client, ServiceUnreachable) == gave_up(client, reason)
        assert client.traffic["requests"] == client.traffic["retries"] + 1 == len(recorder.sent)


def test_a_body_without_a_length_that_stays_cut_is_tried_three_times() -> None:
    """A body without a length that is cut each time is requested three times, like one that is not JSON."""
    cut = answer(ONE[:-1]).replace(b"Content-Length", b"X-Length")
    with recorded(cut) as (client, recorder):
        expected = f"contacts page 0: expected JSON, got {len(ONE) - 1} bytes of something else."
        assert problem(client, MalformedResponse) == expected
    assert len(recorder.sent) == 3


@pytest.mark.parametrize(
    "whole",
    [
        answer(ONE),
        answer(ONE).replace(b"Content-Length", b"X-Length"),
        answer(chunked(ONE[:1], ONE[1:20], ONE[20:]), **CHUNKED),
        answer(PACKED, Content_Encoding="gzip"),
        answer(gzip.compress(ONE[:20]) + gzip.compress(ONE[20:]), Content_Encoding="GZIP"),
        answer(
            chunked(*(PACKED[place : place + 1] for place in range(len(PACKED)))), **CHUNKED, Content_Encoding="gzip"
        ),
        answer(b"\xef\xbb\xbf" + ONE, Content_Type="text/html"),
    ],
)
def test_a_whole_answer_is_read_however_it_is_sent(whole: bytes) -> None:
    """Responses may have a length, end with the connection, be chunked or gzipped, and have any content type."""
    with recorded(whole) as (client, recorder):
        assert get(client).rows["id"].to_pylist() == ["1"]
    assert len(recorder.sent) == 1


def test_a_body_that_is_not_json_is_tried_three_times(client: Client, emulator: Emulator) -> None:
    """A body that is not JSON is requested three times, and its error gives its length and not its contents."""
    html = b"<html>canary</html>"
    emulator.canned.always(When(), Reply(200, html, {"Content-Type": "text/html"}))
    expected = f"contacts page 0: expected JSON, got {len(html)} bytes of something else."
    assert problem(client, MalformedResponse) == expected
    assert statuses(emulator) == [200] * 3
    assert client.traffic == {"requests": 3, "retries": 2}


def test_failures_of_other_kinds_use_up_no_tries(client: Client, emulator: Emulator) -> None:
    """After three 500s, a body that is not JSON still has all its tries."""
    words = Reply(200, b"<html>canary</html>")
    failed = Reply(500, b"", AT_ONCE)
    emulator.canned.once(When(), failed, words, failed, failed, words)
    assert get(client).count == 25
    assert client.traffic == {"requests": 6, "retries": 5}


def test_a_wrong_envelope_is_not_requested_again(client: Client, emulator: Emulator) -> None:
    """An envelope with data of another shape is not requested again."""
    emulator.canned.always(When(), Reply.of({"message": "Success", "data": {"rows": []}}))
    assert problem(client, MalformedResponse) == (
        "contacts page 0: not the documented envelope of {data: {count, rows}}: "
        "Object missing required field `count` - at `$.data`."
    )
    assert statuses(emulator) == [200]


ERRORS = [
    {"message": "Internal error", "data": None},
    {"message": "Internal error", "data": {}},
    {"message": "Internal error", "data": []},
    {"error": {"code": 500, "message": "Internal error"}},
    {"data": None, "errors": [{"message": "Internal error"}]},
]


@pytest.mark.parametrize("document", ERRORS)
def test_an_error_in_the_envelope_is_retried(client: Client, emulator: Emulator, document: Any) -> None:
    """A 200 whose envelope holds an error instead of data is requested again."""
    emulator.canned.once(When(), *[Reply.of(document)] * 4)
    assert get(client).count == 25
    assert statuses(emulator) == [200] * 5


@pytest.mark.parametrize(
    "document", [{"data": "oops"}, {"data": {"error": "oops"}}, {"data": {"count": 0, "rows": None}}, [], None, "oops"]
)
def test_what_is_no_page_is_retried_once_others_were_answered(
    client: Client, emulator: Emulator, document: object
) -> None:
    """A 200 of another form is an error of the moment if an earlier page had the documented one."""
    get(client)
    emulator.canned.once(When(), *[Reply.of(document)] * 4)
    assert get(client).count == 25
    assert statuses(emulator) == [200] * 6


@pytest.mark.parametrize("document", ERRORS)
def test_an_error_that_stays_in_the_envelope_is_quoted(emulator: Emulator, document: Any) -> None:
    """The error at the end of the budget has the service's own words."""
    emulator.canned.always(When(), Reply.of(document))
    with emulator.serve() as base_url, client_of(base_url, budget=0.5) as client:
        reason = "the service answered 200 without data: Internal error"
        assert problem(client, ServiceUnreachable) == gave_up(client, reason)


LIMITED = [
    Reply(403, b"Rate limit exceeded", AT_ONCE),
    Reply(403, b"Rate limit exceeded"),
    Reply(403, b"<html><h1>Error 1015</h1>You are being rate limited</html>"),
    Reply(403, b'{"message": "userRateLimitExceeded", "data": null}'),
    Reply(403, b"Request rate is too high"),
    Reply(403, b"You have exceeded 100 requests per minute"),
    Reply(403, b"Maximum number of requests reached, slow down"),
    Reply(403, b"API calls exceeded: 10 calls/second"),
    Reply(403, b"", {"X-RateLimit-Remaining": "0"}),
    Reply(403, b"", AT_ONCE),
    Reply(401, b"", AT_ONCE),
    Reply(200, b'{"error": "Too many requests"}'),
]


@pytest.mark.parametrize("reply", LIMITED)
def test_a_limit_is_one_whatever_its_status(client: Client, emulator: Emulator, reply: Reply) -> None:
    """A refusal that speaks of a limit, after the tokens were accepted, is retried, and the throttle slows down."""
    get(client, TEMPLATES)
    emulator.canned.once(When("contacts"), reply)
    assert get(client).count == 25
    assert statuses(emulator) == [200, reply.status, 200]
    assert client.traffic == {"requests": 3, "retries": 1, "throttled": 1}
    assert client.throttle.limit == 1


@pytest.mark.parametrize("reply", [reply for reply in LIMITED if reply.status != 200])
def test_the_first_request_with_tokens_shows_whether_they_are_refused(
    client: Client, emulator: Emulator, reply: Reply
) -> None:
    """Before the service has accepted the tokens, a 401 or 403 refuses them, whatever else it says."""
    emulator.canned.always(When(), reply)
    assert problem(client, NotAuthorized).startswith(
        f"contacts page 0: the service refused the tokens ({reply.status})"
    )
    assert statuses(emulator) == [reply.status]


@pytest.mark.parametrize(
    "reply", [Reply(401, b"Rate limit of tokens"), Reply(401), Reply(403, b"token revoked"), Reply(403)]
)
def test_tokens_may_be_refused_later(client: Client, emulator: Emulator, reply: Reply) -> None:
    """A 401 or 403 that speaks of no limit refuses the tokens, also after they were accepted."""
    get(client)
    emulator.canned.always(When(), reply)
    problem(client, NotAuthorized)
    assert statuses(emulator) == [200, reply.status]


def test_a_failure_that_repeats_is_one_warning(
    client: Client, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """Retries for the same reason are one warning, until a page that failed has been read."""
    failed = Reply(500, b"", AT_ONCE)
    for replies in ([failed, Reply(502, b"", AT_ONCE), failed], [failed]):
        emulator.canned.once(When(), *replies)
        get(client)
    warned = [message.partition("answered ")[2] for message in caplog.messages]
    assert [each[:3] for each in warned] == ["500", "502", "500"]
    assert not any("0.0 s" in each for each in warned)
    assert "500; trying again at once." in warned


def test_a_limit_that_stays_ends_with_the_services_words(emulator: Emulator) -> None:
    """A limit that outlasts the budget is no error of tokens."""
    with emulator.serve() as base_url, client_of(base_url, budget=0.1) as client:
        get(client)
        emulator.canned.always(When(), Reply(403, b"Rate limit exceeded.", {"Retry-After": "0.5"}))
        reason = "the service answered 403: Rate limit exceeded and asks to wait 0.5 s"
        assert problem(client, ServiceUnreachable) == gave_up(client, reason)


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"RateLimit": '"default";r=0;t=3600', "RateLimit-Policy": '"default";q=5;w=1'}, 3600),
        (503, {"RateLimit": '"default";r=0;t=3600'}, 3600),
        (429, {"X-RateLimit-Reset": "3600"}, 3600),
        (403, {"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": "3600"}, 3600),
        (429, {"RateLimit": '"default";r=0;t=3600', "Retry-After": "60"}, 60),
    ],
)
def test_the_reset_of_a_limit_is_waited_for(
    emulator: Emulator, status: int, headers: dict[str, str], seconds: int
) -> None:
    """Without a Retry-After, a limit's own headers tell how long to wait."""
    with emulator.serve() as base_url, client_of(base_url) as client:
        get(client)
        emulator.canned.always(When(), Reply(status, b"", headers))
        reason = f"the service answered {status} and asks to wait {seconds} s"
        assert problem(client, ServiceUnreachable) == gave_up(client, reason)


def test_a_page_not_found_in_a_listing_that_exists_is_retried(client: Client, emulator: Emulator) -> None:
    """A 404 for a page of a listing of which others were answered may pass."""
    get(client)
    emulator.canned.once(When(), Reply.of({"message": "Not found."}, 404))
    assert get(client, page=1).count == 25
    assert statuses(emulator) == [200, 404, 200]


def test_a_trial_that_is_not_found_is_refused_at_once(client: Client, emulator: Emulator) -> None:
    """A 404 for a request on trial, and for the first page with other filters, is refused at once."""
    get(client)
    emulator.canned.always(When(), Reply(404))
    for request in (PageRequest(CONTACTS, 1, 2, is_trial=True), PageRequest(CONTACTS, 1, 2, {"search": "a"})):
        with pytest.raises(ServiceRejected):
            client.get(request, decode_page)
    assert statuses(emulator) == [200, 404, 404]


@pytest.mark.parametrize("status", [202, 400, 404, 409, 413, 423, 501])
def test_a_status_that_says_when_to_retry_is_retried(client: Client, emulator: Emulator, status: int) -> None:
    """A response that says when to retry is retried, also where its status alone would be refused."""
    emulator.canned.once(When(), Reply(status, b"", AT_ONCE))
    assert get(client).count == 25
    assert statuses(emulator) == [status, 200]


INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"


@pytest.mark.parametrize(
    "interim",
    [
        INTERIM,
        b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 199 Odd\r\n\r\n",
        INTERIM * 3,
    ],
)
def test_interim_responses_are_read_over(interim: bytes) -> None:
    """Any number of interim responses may precede a response (RFC 9110, 15.2)."""
    with recorded(interim + answer(ONE)) as (client, recorder):
        assert get(client).rows["id"].to_pylist() == ["1"]
    assert len(recorder.sent) == 1


def test_interim_responses_without_end_are_bounded_by_the_budget() -> None:
    """A service that never gets beyond interim responses is left when the budget is spent."""
    with recorded(INTERIM * 100_000, budget=0.1) as (client, _):
        problem(client, ServiceUnreachable)


def test_switching_protocols_is_no_page() -> None:
    """A 101, which nobody asked for, is the last response on a connection."""
    with recorded(b"HTTP/1.1 101 Switching Protocols\r\n\r\n") as (client, _):
        assert problem(client, MalformedResponse) == "contacts page 0: expected a status of 200, got 101."


def test_a_misdirected_request_is_sent_on_another_connection(client: Client, emulator: Emulator) -> None:
    """After a 421 the kept connection is closed, and the retry opens another (RFC 9110, 15.5.20)."""
    emulator.canned.once(When(number=2), Reply.of({"message": "Misdirected"}, 421))
    assert [get(client).count, get(client).count] == [25, 25]
    assert [hit.status for hit in emulator.hits] == [200, 421, 200]
    assert emulator.ports[0] == emulator.ports[1] != emulator.ports[2]


# urllib3's own decoder keeps members that each end with a chunk again and again
@pytest.mark.parametrize("member", [2**24, CHUNK_BYTES])
def test_a_page_that_unpacks_without_end_is_refused(member: int) -> None:
    """A gzip bomb is dropped at the size limit after one request, and fills no more than twice the limit of memory."""
    bomb = gzip.compress(bytes(member), 1) * (MAX_BODY_BYTES // member + 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with recorded(answer(bomb, Content_Encoding="gzip")) as (client, recorder):
        assert problem(client, MalformedResponse) == (
            f"contacts page 0: the body is larger than {MAX_BODY_BYTES} bytes; set a smaller sources.letters.page_size."
        )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown <= 2 * MAX_BODY_BYTES + 32 * 2**20
    assert len(recorder.sent) == 1


def test_a_service_without_tls_gets_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """A service without TLS is tried three times, because a handshake may be cut short, and gets no request."""
    with record(answer(ONE)) as recorder, client_of(recorder.base_url.replace("http:", "https:")) as client:
        assert problem(client, ServiceUnreachable) == (
            f"contacts page 0 ({client.base_url}/contacts): the service does not speak TLS. "
            "Check sources.letters.base_url."
        )
    assert recorder.sent == []
    assert client.traffic == {"requests": 3, "retries": 2}
    assert [message.partition("; ")[0] for message in caplog.messages] == [
        f"contacts page 0 ({client.base_url}/contacts): the service does not speak TLS"
    ]


@pytest.mark.parametrize(
    ("budget", "connect", "seconds"),
    [(0.25, 0.25, 0.25), (59.5, 10, 59.5), (60, 10, 60), (61, 10, 60), (1e9, 10, 60)],
)
def test_requests_without_a_response_time_out(budget: float, connect: float, seconds: float) -> None:
    """A request waits 10 s for a connection and 60 s for a byte at most, and no longer than the budget."""
    with recorded(answer(ONE), budget=budget) as (client, _):
        client.session.mount(client.base_url, adapter := TimedAdapter())
        get(client)
    assert READ_SECONDS == 60
    assert adapter.timeouts == [(connect, seconds)]


def test_a_service_that_is_silent_is_not_waited_for_beyond_the_budget() -> None:
    """A service that accepts connections and never answers ends in an error when the budget is spent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with client_of(f"http://127.0.0.1:{port}", budget=0.1) as client:
            assert problem(client, ServiceUnreachable) == gave_up(client, "no response in time")
            assert client.traffic["requests"] == client.traffic["retries"] + 1


def test_a_closed_client_requests_nothing_more(client: Client, emulator: Emulator) -> None:
    """A closed client raises `Stopped` and sends nothing."""
    with client:
        get(client)
    with pytest.raises(Stopped):
        get(client)
    assert len(emulator.hits) == 1


@pytest.mark.parametrize("started", [b"", answer(ONE)[:-1]])
def test_closing_a_client_cancels_requests_in_flight(started: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Closing a client ends a request to a silent service, and nothing is retried or logged."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        with client_of(f"http://127.0.0.1:{listener.getsockname()[1]}", budget=600) as client:
            pending = pool.submit(get, client)
            service, _ = listener.accept()
            assert service.recv(2**16).startswith(b"GET /contacts")
            service.sendall(started)
        assert isinstance(pending.exception(timeout=20), Stopped)
        assert service.recv(1) == b""
        service.close()
    assert client.traffic == {"requests": 1}
    assert caplog.messages == []


def test_a_connection_that_opens_after_the_client_was_closed_is_closed_too() -> None:
    """A connection that a worker opens after the end is closed before anything is sent."""
    with recorded(answer(ONE), budget=0.1) as (client, recorder):
        client.session.close()
        assert problem(client, ServiceUnreachable) == gave_up(client, "the connection ended without a response")
        assert recorder.sent == []


def test_making_a_client_does_nothing() -> None:
    """No secret is read and nothing is sent before the first page."""

    def read() -> Tokens:
        raise AssertionError

    with record(answer(ONE)) as recorder, Client(recorder.base_url, TokenSource(TOKENS, read), Throttle(1), 1):
        pass
    assert recorder.sent == []


Break = Callable[[Emulator], None]


def canned(*replies: Reply) -> Break:
    """An emulator that returns these responses."""
    return lambda emulator: emulator.canned.once(When(), *replies)


def rotate(emulator: Emulator) -> None:
    """Make the service accept only other tokens from now on."""
    emulator.access_token = "other"


def echo(status: int) -> Reply:
    """A response that repeats the request."""
    return Reply.of({"message": f"Bearer {TOKENS.access} {TOKENS.refresh} canary-row"}, status)


@pytest.mark.parametrize(
    "break_it",
    [
        canned(Reply(200, page_of({"id": "canary-row", "canary-field": 1}))), canned(echo(400)),
        canned(echo(401)), canned(echo(404)), canned(echo(200)), rotate,
        canned(*[Reply(200, f"<html>{TOKENS.access} canary-row".encode())] * 3),
        canned(Reply(302, TOKENS.access.encode(), {"Location": f"https://h.example.org/?token={TOKENS.access}"})),
        canned(Reply(500, TOKENS.access.encode(), AT_ONCE), echo(422)),
        canned(Reply(429, TOKENS.access.encode(), {"Retry-After": "99"})),
        canned(Reply.of({"data": {"count": "canary-row", "rows": []}})),
    ],
)  # fmt: skip
def test_tokens_and_rows_are_not_logged(
    client: Client, emulator: Emulator, caplog: pytest.LogCaptureFixture, break_it: Break
) -> None:
    """Tokens and rows are neither in a DEBUG log of every library nor in an error and its causes."""
    break_it(emulator)
    is_silent(client, caplog)


def is_silent(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Assert that neither the log of a request for a page nor its error holds a token or a row."""
    caplog.set_level(logging.DEBUG)
    shown = ""
    try:
        get(client)
    except LettersError as error:
        chain = [error, error.__cause__, None if error.__suppress_context__ else error.__context__]
        shown = " ".join(f"{each} {each!r} {getattr(each, '__dict__', '')}" for each in chain)
    logged = " ".join(f"{record.getMessage()} {record.exc_text} {record.args}" for record in caplog.records)
    assert "127.0.0.1" in logged
    for secret in (TOKENS.access, TOKENS.refresh, "canary"):
        assert secret not in f"{shown} {logged} {client!r} {vars(client)}"


WORDS = f"{TOKENS.access} {TOKENS.refresh} canary-row".encode()
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "broken",
    [
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + WORDS + b"\r\n",
        HEAD + b"Content-Encoding: gzip\r\n\r\n" + WORDS,
        WORDS + b"\r\n\r\n",
        HEAD + WORDS + b"\r\nContent-Length: 9\r\n\r\n" + WORDS,
        HEAD + b"Set-Cookie: " + WORDS + b"\r\nContent-Length: 9\r\n\r\n" + WORDS,
    ],
)
def test_the_content_of_a_broken_response_is_not_logged(broken: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever in a broken response tokens and rows stand, no library logs them, and no error holds them."""
    with recorded(broken, budget=0.1) as (client, _):
        is_silent(client, caplog)


def test_a_rate_limited_service_loses_no_page(emulator: Emulator) -> None:
    """A rate limit causes pauses and loses no page."""
    emulator.behavior = Behavior(rate_limit=20, retry_after=0)
    with emulator.serve() as base_url, client_of(base_url) as client:
        assert [get(client, page=page).rows.num_rows for page in range(3)] == [2, 2, 2]
