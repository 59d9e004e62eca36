"""Connection failures are retried, or end the load with nothing changed."""

import gzip
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from holdings import LISTED, held_tables
from hostile import (
    Fault,
    cut,
    cut_chunk,
    cut_without_length,
    drip,
    drip_chunk_head,
    drip_head,
    endless,
    hang_up,
    hostile,
    reset,
    stall,
)
from refusals import CONTACTS, refused
from worlds import World

from letters_source import LettersError, MalformedResponse, ServiceRejected, ServiceUnreachable, SettingsError
from letters_source.service.client import CHUNK_BYTES, MAX_BODY_BYTES
from pages import page_of
from private_ca import Authority
from programmable_emulator import Reply, When
from recording_server import Recorder, answer, record

AT_ONCE = {"Retry-After": "0"}
ONE = page_of({"id": "1"})


def loads_exactly(world: World, **changes: Any) -> list[dict[str, Any]]:
    """The audits of a load, after which the tables hold what the service holds."""
    result = world.load(**changes)
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    return [dict(audit) for audit in result.audits]


def test_f01_a_429_with_its_wish_is_obeyed(world: World) -> None:
    """The page comes when it is asked for again, two seconds later at the earliest."""
    world.emulator.canned.once(CONTACTS, Reply(429, b"", {"Retry-After": "2"}))
    start = monotonic()
    audits = loads_exactly(world)
    assert monotonic() - start >= 2
    assert [(audit["retries"], audit["throttled"]) for audit in audits] == [(0, 0), (1, 1)]


def test_f03_two_failures_and_then_a_page_are_a_page(world: World) -> None:
    """Whatever the status; the audit counts what was sent again."""
    for number, status in enumerate((500, 502, 503, 504)):
        world.emulator.canned.once(When("contacts", number), *[Reply(status, b"", AT_ONCE)] * 2)
    assert [audit["retries"] for audit in loads_exactly(world, page_size=10)] == [0, 8]


def test_f06_a_request_that_came_too_late_or_too_early_is_sent_again(world: World) -> None:
    """Both say that nothing was done."""
    for number, status in enumerate((408, 425)):
        world.emulator.canned.once(When("contacts", number), Reply(status, b"", AT_ONCE))
    assert [audit["retries"] for audit in loads_exactly(world, page_size=10)] == [0, 2]


BROKEN: dict[str, Fault] = {
    "f09_shorter_than_its_length": cut,
    "f10_cut_without_a_length": cut_without_length,
    "f11_a_chunk_is_missing": cut_chunk,
    "f11_reset_within_the_body": reset,
    "f11_closed_before_the_head": hang_up,
}


@pytest.mark.parametrize("name", BROKEN)
def test_f09_f10_f11_a_broken_answer_is_asked_for_again(world: World, name: str) -> None:
    """Two broken answers cost two requests more, and no row."""
    with hostile(world.settings["base_url"], *[BROKEN[name]] * 2) as between:
        audits = loads_exactly(world, base_url=between.base_url, max_workers=1)
    assert sum(audit["retries"] for audit in audits) == 2


@pytest.mark.parametrize("name", BROKEN)
def test_f09_f10_f11_answers_that_stay_broken_end_the_load(world: World, name: str) -> None:
    """In one of our errors, within the budget and a last answer."""
    kind = MalformedResponse if name.startswith("f10") else ServiceUnreachable
    with hostile(world.settings["base_url"], BROKEN[name], stays=True) as between:
        refused(world, kind, base_url=between.base_url, retry_budget=1)


@pytest.mark.parametrize("fault", [drip, drip_head, drip_chunk_head, stall])
def test_f18_f20_an_answer_that_does_not_end_is_left_within_the_budget(world: World, fault: Fault) -> None:
    """Each byte of a drip begins a read time-out anew, so the whole answer has a deadline of its own."""
    start = monotonic()
    with hostile(world.settings["base_url"], fault, stays=True) as between:
        message = str(refused(world, ServiceUnreachable, base_url=between.base_url, retry_budget=1))
    assert "gave up after 1 s" in message
    # the budget, the answer under way when it ended, and a slow machine's load around them
    assert monotonic() - start < 20


def test_f19_endless_chunks_are_left_at_the_bound(world: World) -> None:
    """Asking again would not help."""
    with hostile(world.settings["base_url"], endless, stays=True) as between:
        message = str(refused(world, MalformedResponse, base_url=between.base_url, only=("contacts",)))
    assert message == f"contacts page 0: the body is larger than {MAX_BODY_BYTES} bytes; set a smaller page_size."
    assert len(between.asked) == 1


@pytest.mark.parametrize("member", [2**24, CHUNK_BYTES])
def test_f21_what_unpacks_without_end_is_left_at_the_bound(world: World, member: int) -> None:
    """Less than half a megabyte is sent; no more than twice the bound is ever held, the growing body copied once.

    Also where each gzip member ends with a chunk, which urllib3's own decoder keeps again and again.
    """
    bomb = gzip.compress(bytes(member), 9) * (MAX_BODY_BYTES // member + 8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with record(answer(bomb, Content_Encoding="gzip")) as recorder:
        message = str(refused(world, MalformedResponse, base_url=recorder.base_url, only=("contacts",)))
    assert "the body is larger than" in message
    assert len(bomb) < 500_000
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown <= 2 * MAX_BODY_BYTES + 32 * 2**20
    assert len(recorder.sent) == 1


def test_f22_bad_gzip_is_asked_for_again_and_then_an_error(world: World) -> None:
    """It may come of a broken connection; what stays so does not."""
    with record(answer(b"no gzip at all", Content_Encoding="gzip")) as recorder:
        message = str(refused(world, ServiceUnreachable, base_url=recorder.base_url, retry_budget=1))
    assert "a response cut short; gave up" in message
    assert len(recorder.sent) > 1


def test_f23_bad_utf8_is_an_error(world: World) -> None:
    """No text is guessed at."""
    world.emulator.canned.always(CONTACTS, Reply(200, ONE.replace(b'"1"', b'"\xff\xfe"')))
    assert "contacts page 0: " in str(refused(world, MalformedResponse))


def test_f24_a_byte_order_mark_is_passed_over(world: World) -> None:
    """Some gateways put one in front."""
    for number in range(4):
        body = world.emulator.contacts.page(number, 10)
        world.emulator.canned.always(When("contacts", number), Reply(200, b"\xef\xbb\xbf" + body))
    loads_exactly(world, page_size=10)


@contextmanager
def targets() -> Iterator[dict[str, tuple[str, Recorder]]]:
    """Places to be sent to that count what reaches them: another port, host and scheme, and each without a host."""
    with record(answer(ONE)) as first, record(answer(ONE)) as second, record(answer(ONE)) as third:
        yield {
            "port": (f"{first.base_url}/contacts", first),
            "host": (f"http://localhost:{second.port}/api/v1/contacts", second),
            "scheme": (f"https://127.0.0.1:{third.port}/api/v1/contacts", third),
        }


def test_f27_f29_f30_no_redirect_reaches_its_target(world: World) -> None:
    """Neither another port, nor another host, nor another scheme gets a single request, and so no token.

    Of JSON or of an error behind a redirect nothing is seen either. Other statuses: tests/service/test_client.py.
    """
    with targets() as places:
        for status, (where, (address, target)) in zip((301, 302, 307), places.items(), strict=True):
            moved = answer(ONE, f"{status} Moved", Location=address, Content_Type="application/json")
            with record(moved) as service:
                message = str(refused(world, ServiceRejected, base_url=service.base_url, only=("contacts",)))
            host = "localhost" if where == "host" else "127.0.0.1"
            assert message == (
                f"contacts page 0: the service redirects ({status}) to {host}; redirects are not followed. "
                "Check base_url."
            )
            assert (len(service.sent), len(target.sent)) == (1, 0)


def test_f31_a_redirect_to_itself_is_asked_for_once(world: World) -> None:
    """There is no loop where nothing is followed."""
    with record(answer(b"", "302 Found", Location="/api/v1/contacts?page=0")) as service:
        refused(world, ServiceRejected, base_url=service.base_url, only=("contacts",))
    assert len(service.sent) == 1


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that no machine trusts by itself."""
    return Authority(tmp_path)


def test_f32_a_certificate_that_nobody_vouches_for_is_refused(world: World, authority: Authority) -> None:
    """No request is sent, and what is wrong is told; the service never gets the tokens in plain text instead."""
    with record(answer(ONE), tls=authority.server("service")) as service:
        message = str(refused(world, ServiceUnreachable, base_url=service.base_url, only=("contacts",)))
    assert message == (
        f"contacts page 0 ({service.base_url}/contacts): the certificate of the service cannot be trusted: "
        "unable to get local issuer certificate. "
        "If your company issues it, set sources.letters.ca_bundle to your company's certificates."
    )
    assert (service.connections, service.sent) == (1, [])


def test_f28_a_redirect_from_https_to_http_is_not_followed(world: World, authority: Authority) -> None:
    """Where the certificate is trusted too: the tokens would be readable on their way."""
    trusting = {"ca_bundle": str(authority.bundle), "only": ("contacts",)}
    with record(answer(ONE)) as target:
        moved = answer(b"", "307 Moved", Location=f"{target.base_url}/contacts")
        with record(moved, tls=authority.server("service")) as service:
            message = str(refused(world, ServiceRejected, base_url=service.base_url, **trusting))
    assert "the service redirects (307) to 127.0.0.1; redirects are not followed" in message
    assert (len(service.sent), len(target.sent)) == (1, 0)


def test_f33_a_netrc_changes_no_header(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The service, which knows one token alone, is loaded all the same."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    loads_exactly(world)


def test_f34_a_proxy_in_the_environment_gets_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is asked itself."""
    with record(answer(ONE)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        loads_exactly(world)
    assert proxy.sent == []


@pytest.mark.parametrize("key", ["access_token", "refresh_token"])
@pytest.mark.parametrize("token", ["canary\r\nHost: elsewhere", "canary\nx", "cänary", "canary one"])
def test_f35_a_token_that_no_header_can_hold_is_refused_unquoted(world: World, key: str, token: str) -> None:
    """Before anything is sent, in words that name the key."""
    asked = len(world.emulator.hits)
    message = str(refused(world, SettingsError, **{key: token}))
    assert key in message
    assert "nary" not in message
    assert world.emulator.hits[asked:] == []


def test_every_error_is_one_line(world: World) -> None:
    """Whatever the service says."""
    world.emulator.canned.always(CONTACTS, Reply.of({"message": "a\nb\r\nc"}, 400))
    error: LettersError = refused(world, ServiceRejected)
    assert "\n" not in str(error)
    assert "\r" not in str(error)
