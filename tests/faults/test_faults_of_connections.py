"""Connection failures are retried, or end the load with nothing changed."""

import gzip
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from faulty_proxy import (
    PARTIAL,
    Fault,
    FaultyProxy,
    cut,
    cut_chunk,
    cut_without_length,
    drip,
    drip_chunk_head,
    drip_head,
    endless,
    faulty_proxy,
    hang_up,
    reset,
    stall,
)
from refusals import CONTACTS, refused
from worlds import World

from letters_source import MalformedResponse, ServiceRejected, ServiceUnreachable, SettingsError
from letters_source.service.client import MAX_BODY_BYTES
from pages import page_of
from private_ca import Authority
from programmable_emulator import Reply, When
from recording_server import Recorder, answer, record

AT_ONCE = {"Retry-After": "0"}
ONE = page_of({"id": "1"})


def reads_exactly(world: World, **changes: Any) -> list[dict[str, Any]]:
    """The audits of what is read for a load, which is what the service holds."""
    tables = world.read("templates", "contacts", **changes)
    assert world.is_exact(tables)
    return tables["listing_audit"]


def test_f01_a_429_with_retry_after_is_honored(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A page that a 429 delays by two seconds is requested again after that time, and the load is exact."""
    world.emulator.canned.once(CONTACTS, Reply(429, b"", {"Retry-After": "2"}))
    began = monotonic()
    audits = reads_exactly(world)
    # never less, however slow the machine
    assert monotonic() - began >= 2
    [line] = [line for line in caplog.messages if "trying again" in line]
    text, _, wait = line.rpartition(" in ")
    assert text == f"contacts page 0 ({world.settings['base_url']}/contacts): the service answered 429; trying again"
    # jitter adds up to 0.1 s
    assert wait in ("2.0 s.", "2.1 s.")
    assert [(audit["retries"], audit["throttled"]) for audit in audits] == [(0, 0), (1, 1)]


def test_f03_f06_a_page_after_two_failures_is_loaded(world: World) -> None:
    """Each page is requested again after two responses with a temporary status, and the audit counts them."""
    for number, status in enumerate((408, 425, 500, 502, 503, 504)):
        world.emulator.canned.once(When("contacts", number), *[Reply(status, b"", AT_ONCE)] * 2)
    assert [audit["retries"] for audit in reads_exactly(world, page_size=7)] == [0, 12]


def test_f09_f10_f11_a_broken_response_is_requested_again(world: World) -> None:
    """Each broken response costs one request more, and no row."""
    broken = (cut, None, cut_without_length, None, cut_chunk, None, reset, None, hang_up)
    with faulty_proxy(world.settings["base_url"], *broken) as proxy:
        audits = reads_exactly(world, base_url=proxy.base_url, page_size=10, max_workers=1)
    assert [audit["retries"] for audit in audits] == [1, 4]


def spent(proxy: FaultyProxy | Recorder, reason: str) -> str:
    """The message of a page that failed as long as a budget of a second lasted."""
    return (
        f"contacts page 0 ({proxy.base_url}/contacts): {reason}; gave up within 1 s. "
        "Check base_url. To let loads retry longer, raise sources.letters.retry_budget."
    )


@pytest.mark.parametrize("fault", [cut, reset])
def test_f09_f11_responses_that_stay_broken_end_the_load(world: World, fault: Fault) -> None:
    """A response that is cut short each time ends the load when the budget is spent."""
    with faulty_proxy(world.settings["base_url"], fault, stays=True) as proxy:
        error = refused(world, ServiceUnreachable, base_url=proxy.base_url, retry_budget=1, only=("contacts",))
    assert str(error) == spent(proxy, "a response cut short")


def test_f10_a_body_that_stays_cut_without_a_length_ends_the_load(world: World) -> None:
    """A body that ends with the connection, and too early each time, ends the load after three requests."""
    with faulty_proxy(world.settings["base_url"], cut_without_length, stays=True) as proxy:
        error = refused(world, MalformedResponse, base_url=proxy.base_url, only=("contacts",))
    assert str(error) == f"contacts page 0: expected JSON, got {len(PARTIAL)} bytes of something else."
    assert len(proxy.requested) == 3


@pytest.mark.parametrize("fault", [drip, drip_head, drip_chunk_head, stall])
def test_f18_f20_a_response_that_does_not_end_is_abandoned_within_the_budget(world: World, fault: Fault) -> None:
    """A response that comes byte by byte, or not at all, ends the load when the budget is spent."""
    only = ("contacts",)
    with faulty_proxy(world.settings["base_url"], fault, stays=True) as proxy:
        error = refused(world, ServiceUnreachable, base_url=proxy.base_url, retry_budget=1, only=only)
    assert str(error) == spent(proxy, "no response in time")


def test_f19_endless_chunks_are_dropped_at_the_limit(world: World) -> None:
    """A body without an end is dropped at the size limit, and is not requested again."""
    with faulty_proxy(world.settings["base_url"], endless, stays=True) as proxy:
        message = str(refused(world, MalformedResponse, base_url=proxy.base_url, only=("contacts",)))
    assert (
        message
        == f"contacts page 0: the body is larger than {MAX_BODY_BYTES} bytes; set a smaller sources.letters.page_size."
    )
    assert len(proxy.requested) == 1


def test_f21_a_gzip_bomb_is_dropped_at_the_limit(world: World) -> None:
    """Less than half a megabyte that unpacks to more than the size limit ends the load after one request."""
    bomb = gzip.compress(bytes(2**24), 9) * (MAX_BODY_BYTES // 2**24 + 8)
    assert len(bomb) < 500_000
    with record(answer(bomb, Content_Encoding="gzip")) as recorder:
        message = str(refused(world, MalformedResponse, base_url=recorder.base_url, only=("contacts",)))
    assert (
        message
        == f"contacts page 0: the body is larger than {MAX_BODY_BYTES} bytes; set a smaller sources.letters.page_size."
    )
    assert len(recorder.sent) == 1


def test_f22_bad_gzip_is_requested_again_and_then_an_error(world: World) -> None:
    """A body that is not gzip is requested again, as a broken connection may be the cause, and then ends the load."""
    broken, only = answer(b"no gzip at all", Content_Encoding="gzip"), ("contacts",)
    with record(broken, broken, answer(ONE)) as recorder:
        [audit] = world.read("contacts", base_url=recorder.base_url)["listing_audit"]
    assert (audit["rows_yielded"], audit["requests"], audit["retries"]) == (1, 3, 2)
    with record(broken) as recorder:
        error = refused(world, ServiceUnreachable, base_url=recorder.base_url, retry_budget=1, only=only)
    assert str(error) == spent(recorder, "a response cut short")


def test_f23_bad_utf8_is_an_error(world: World) -> None:
    """A body that is not UTF-8 ends the load in an error that quotes nothing of it."""
    body = ONE.replace(b'"1"', b'"\xff\xfe"')
    world.emulator.canned.always(CONTACTS, Reply(200, body))
    message = str(refused(world, MalformedResponse))
    assert message == f"contacts page 0: expected JSON, got {len(body)} bytes of something else."


def test_f24_a_byte_order_mark_is_skipped(world: World) -> None:
    """Pages with a byte order mark in front, as some gateways put one, are loaded exactly."""
    for number in range(4):
        body = world.emulator.contacts.page(number, 10)
        world.emulator.canned.always(When("contacts", number), Reply(200, b"\xef\xbb\xbf" + body))
    reads_exactly(world, page_size=10)


def test_f27_f29_f30_no_redirect_reaches_its_target(world: World) -> None:
    """The host to which the service redirects gets no request, and the error names the redirect."""
    with record(answer(ONE)) as target:
        address = f"http://localhost:{target.port}/api/v1/contacts"
        moved = answer(ONE, "307 Moved", Location=address, Content_Type="application/json")
        with record(moved) as service:
            message = str(refused(world, ServiceRejected, base_url=service.base_url, only=("contacts",)))
    assert message == (
        "contacts page 0: the service redirects (307) to localhost; redirects are not followed. Check base_url."
    )
    assert (len(service.sent), len(target.sent)) == (1, 0)


def test_f31_a_redirect_to_itself_is_requested_once(world: World) -> None:
    """A redirect to the same address ends the load after one request."""
    with record(answer(b"", "302 Found", Location="/api/v1/contacts?page=0")) as service:
        message = str(refused(world, ServiceRejected, base_url=service.base_url, only=("contacts",)))
    assert message == (
        "contacts page 0: the service redirects (302) to the same host; redirects are not followed. Check base_url."
    )
    assert len(service.sent) == 1


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that no machine trusts by default."""
    return Authority(tmp_path)


def test_f32_a_certificate_of_an_unknown_authority_is_refused(world: World, authority: Authority) -> None:
    """A certificate of an unknown authority ends the load before any request, in an error that names the setting."""
    with record(answer(ONE), tls=authority.server("service")) as service:
        message = str(refused(world, ServiceUnreachable, base_url=service.base_url, only=("contacts",)))
    assert message == (
        f"contacts page 0 ({service.base_url}/contacts): the certificate of the service cannot be trusted: "
        "unable to get local issuer certificate. "
        "If your company issues it, set sources.letters.ca_bundle to your company's certificates."
    )
    assert (service.connections, service.sent) == (1, [])


def test_f28_a_redirect_from_https_to_http_is_not_followed(world: World, authority: Authority) -> None:
    """A redirect from https to http ends the load, because the tokens would be readable in transit."""
    trusting = {"ca_bundle": str(authority.bundle), "only": ("contacts",)}
    with record(answer(ONE)) as target:
        moved = answer(b"", "307 Moved", Location=f"{target.base_url}/contacts")
        with record(moved, tls=authority.server("service")) as service:
            message = str(refused(world, ServiceRejected, base_url=service.base_url, **trusting))
    assert message == (
        "contacts page 0: the service redirects (307) to 127.0.0.1; redirects are not followed. Check base_url."
    )
    assert (len(service.sent), len(target.sent)) == (1, 0)


def test_f33_f34_neither_a_netrc_nor_a_proxy_of_the_environment_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A load is exact, and the proxy gets nothing, where a netrc and a proxy are set for the service's host."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with record(answer(ONE)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        reads_exactly(world)
    assert proxy.sent == []


@pytest.mark.parametrize(
    ("key", "token"), [("access_token", "canary\r\nHost: elsewhere"), ("refresh_token", "c\xe4nary")]
)
def test_f35_a_token_that_no_header_can_hold_is_refused_unquoted(world: World, key: str, token: str) -> None:
    """A token that no header can hold ends the load before any request, in an error that does not quote it."""
    requested = len(world.emulator.hits)
    message = str(refused(world, SettingsError, **{key: token}))
    assert message == (
        f"sources.letters.{key} contains spaces, line breaks or non-ASCII characters; "
        "paste the token again, without quotes or 'Bearer'."
    )
    assert world.emulator.hits[requested:] == []


def test_every_error_is_one_line(world: World) -> None:
    """An error that quotes several lines of the service is one line."""
    world.emulator.canned.always(CONTACTS, Reply.of({"message": "a\nb\r\nc"}, 404))
    assert str(refused(world, ServiceRejected)) == (
        f"contacts page 0 ({world.settings['base_url']}/contacts): the service refused the request (404): a b c. "
        "Check base_url, which ends in /api/v1."
    )
