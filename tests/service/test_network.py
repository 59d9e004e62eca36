"""Does a page come through any proxy and any TLS that are set, and does what fails name the setting that helps?"""

import shutil
import socket
import subprocess
from asyncio import StreamReader, StreamWriter, sleep
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from forward_proxy import HOST, forward_proxy, serve_streams, tls_front
from letters_source.errors import ServiceUnreachable
from letters_source.service.client import Client
from letters_source.service.failures import SERVICE, certificate_advice, describe, failed
from letters_source.service.listings import CONTACTS
from letters_source.service.network import DIRECT, Network, service_of
from letters_source.service.page_request import PageRequest
from letters_source.service.throttle import Stopped, Throttle
from letters_source.service.tokens import Tokens, TokenSource
from pages import page_of
from private_ca import DAY, Authority
from programmable_emulator import Emulator
from recording_server import answer, record

TOKENS = Tokens("canary-access", "canary-refresh")
CREDENTIALS = "user:p@ß"
ENCODED = "user:p%40%C3%9F"
ONE = page_of({"id": "1"})
BUDGET = 0.2
PACE_SECONDS = 0.02
SPENT = f"; gave up within {BUDGET} s."
LONGER = "To let loads retry longer, raise sources.letters.retry_budget."
CHECK_PROXY = f"Check sources.letters.proxy and base_url. {LONGER}"
CHECK_ADDRESS = f"Check base_url. {LONGER}"
# getaddrinfo refuses it without a query, because it is longer than any name (RFC 1035, 2.3.4)
UNKNOWN = ".".join(["a" * 60] * 5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that issues the certificates of the service and the proxies."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another authority."""
    return Authority(tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def closed() -> int:
    """A port where nothing listens."""
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def plain() -> Iterator[int]:
    """The port of a service that speaks plain HTTP."""
    emulator = Emulator(25, 3)
    emulator.access_token, emulator.refresh_token = TOKENS.access, TOKENS.refresh
    with emulator.serve() as base_url:
        yield urlsplit(base_url).port or 0


@pytest.fixture(scope="module")
def secured(plain: int, authority: Authority) -> Iterator[int]:
    """The port of the same service over TLS."""
    with tls_front(plain, authority.server("service")) as port:
        yield port


def url(port: int, scheme: str = "https", host: str = HOST) -> str:
    """The base_url of a service."""
    return f"{scheme}://{host}:{port}/api/v1"


@contextmanager
def client_of(base_url: str, budget: float = BUDGET, **network: Any) -> Iterator[Client]:
    """A client with these settings of the network."""
    settings = Network(**{name: str(value) for name, value in network.items()})
    with Client(base_url, TokenSource(TOKENS, lambda: TOKENS), Throttle(2), budget, settings) as client:
        yield client


def get(base_url: str, **network: Any) -> list[bytes]:
    """Two pages, one after the other."""
    with client_of(base_url, 20, **network) as client:
        return [client.get(PageRequest(CONTACTS, page, 2), lambda body, *_: body) for page in range(2)]


def problem(base_url: str, **network: Any) -> str:
    """Return the reason of a failed page request, without the page and the address."""
    with client_of(base_url, **network) as client, pytest.raises(ServiceUnreachable) as caught:
        client.get(PageRequest(CONTACTS, 0, 2, {"search": "canary"}), lambda body, *_: body)
    assert caught.value.__cause__ is None
    begin = f"contacts page 0 ({base_url}/contacts): "
    assert str(caught.value).startswith(begin)
    assert "canary" not in str(caught.value)
    return str(caught.value).removeprefix(begin)


@pytest.mark.parametrize("credentials", ["", CREDENTIALS])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_https_goes_through_a_tunnel_that_hides_the_tokens(
    secured: int, closed: int, authority: Authority, scheme: str, credentials: str
) -> None:
    """The proxy gets the address to connect to and its own password; one tunnel is used for all pages."""
    tls = authority.server("proxy") if scheme == "https" else None
    with forward_proxy(secured, credentials=credentials, tls=tls) as proxy:
        address = proxy.url_for(ENCODED) if credentials else proxy.url
        pages = get(url(closed), proxy=address, ca_bundle=authority.bundle)
    assert pages == get(url(secured), ca_bundle=authority.bundle)
    assert [line.rpartition(" ")[0] for line in proxy.requests] == [f"CONNECT {HOST}:{closed}"]
    assert not any(word in proxy.seen for word in (b"canary", b"Bearer", b"/api/v1"))


@pytest.mark.parametrize("credentials", ["", CREDENTIALS])
def test_plain_http_goes_to_the_proxy_with_its_whole_url(plain: int, closed: int, credentials: str) -> None:
    """A request over plain HTTP, on this machine alone, is sent to the proxy with its whole URL."""
    with forward_proxy(plain, credentials=credentials) as proxy:
        address = proxy.url_for(ENCODED) if credentials else proxy.url
        pages = get(url(closed, "http"), proxy=address)
    assert pages == get(url(plain, "http"))
    assert proxy.requests == [f"GET {url(closed, 'http')}/contacts?page={page}&pageSize=2 HTTP/1.1" for page in (0, 1)]


def test_the_proxys_password_does_not_reach_the_service(plain: int, authority: Authority) -> None:
    """The service gets no header that the proxy's password is in."""
    with (
        record(answer(ONE), tls=authority.server("service")) as service,
        forward_proxy(service.port, credentials=CREDENTIALS) as proxy,
    ):
        get(service.base_url, proxy=proxy.url_for(ENCODED), ca_bundle=authority.bundle)
    assert {name for sent in service.sent for name in sent.headers} == {
        "host", "user-agent", "accept", "accept-encoding", "connection", "cache-control", "authorization",
        "refreshtoken",
    }  # fmt: skip


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_requires_other_credentials_gets_one_request(plain: int, closed: int, scheme: str) -> None:
    """A 407 is not retried, because a retry could lock the account."""
    with forward_proxy(plain, credentials=CREDENTIALS) as proxy:
        assert problem(url(closed, scheme), proxy=proxy.url_for("user:canary")) == (
            f"the proxy {proxy.url} refused the user and password (407). Set both in sources.letters.proxy."
        )
        assert problem(url(closed, scheme), proxy=proxy.url) == (
            f"the proxy {proxy.url} asks for a user and password (407). Set both in sources.letters.proxy."
        )
    assert len(proxy.requests) == 2


def test_a_proxy_that_forbids_the_service_gets_one_request(closed: int) -> None:
    """A 403 from the proxy is not retried, and a 503 is."""
    advice = "Check sources.letters.proxy, and whether it allows the host of base_url."
    with forward_proxy(closed, status="403 Forbidden") as proxy:
        reason = f"the proxy {proxy.url} did not connect to the service (403)"
        assert problem(url(closed), proxy=proxy.url) == f"{reason}. {advice}"
    assert len(proxy.requests) == 1
    with forward_proxy(closed, status="503 Service Unavailable") as proxy:
        reason = f"the proxy {proxy.url} did not connect to the service (503)"
        assert problem(url(closed), proxy=proxy.url) == f"{reason}{SPENT} {advice} {LONGER}"


def test_a_proxy_that_is_not_there_is_named(closed: int) -> None:
    """The error for a missing proxy names it without its password; an unknown host and a refused port differ."""
    assert problem(url(closed), proxy=f"http://user:{'canary'}@{HOST}:{closed}") == (
        f"no connection to the proxy http://{HOST}:{closed}: connection refused{SPENT} {CHECK_PROXY}"
    )
    assert problem(url(closed), proxy=f"http://user:{'canary'}@{UNKNOWN}") == (
        f"no connection to the proxy http://{UNKNOWN}: its host name cannot be resolved{SPENT} {CHECK_PROXY}"
    )


def test_a_silent_proxy_is_abandoned_within_the_budget(closed: int) -> None:
    """A proxy that is silent, or sends garbage, is abandoned when the budget is spent."""
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        assert problem(url(closed), proxy=f"http://{HOST}:{port}") == f"no response in time{SPENT} {CHECK_PROXY}"
        late = f"no connection to the proxy https://{HOST}:{port} in time{SPENT}"
        assert problem(url(closed), proxy=f"https://{HOST}:{port}") == f"{late} {CHECK_PROXY}"
    with record(b"canary\r\n\r\n") as proxy:
        reason = f"the connection ended without a response{SPENT}"
        assert problem(url(closed), proxy=f"http://{HOST}:{proxy.port}") == f"{reason} {CHECK_PROXY}"


def test_a_proxy_that_answers_byte_by_byte_is_abandoned_within_the_budget(closed: int) -> None:
    """A proxy that answers byte by byte is abandoned when the budget is spent."""

    async def drip(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"a")
            await writer.drain()
            await sleep(PACE_SECONDS)

    with serve_streams(drip) as port:
        assert problem(url(closed), proxy=f"http://{HOST}:{port}") == f"no response in time{SPENT} {CHECK_PROXY}"


def test_closing_a_client_cancels_a_request_in_tls_within_tls(closed: int, authority: Authority) -> None:
    """Closing a client ends a request through a proxy with TLS, however long the service is silent."""
    with (
        socket.create_server((HOST, 0)) as listener,
        tls_front(listener.getsockname()[1], authority.server("service")) as port,
        forward_proxy(port, tls=authority.server("proxy")) as proxy,
        ThreadPoolExecutor(1) as pool,
    ):
        with client_of(url(closed), 600, proxy=proxy.url, ca_bundle=authority.bundle) as client:
            pending = pool.submit(client.get, PageRequest(CONTACTS, 0, 2), lambda body, *_: body)
            service, _ = listener.accept()
            assert service.recv(2**16).startswith(b"GET /api/v1/contacts")
        assert isinstance(pending.exception(timeout=20), Stopped)
        assert service.recv(1) == b""
        service.close()


def test_a_proxy_without_tls_is_distinguished_from_one_that_is_not_trusted(
    plain: int, closed: int, authority: Authority, other: Authority
) -> None:
    """The error of a proxy without TLS names its address, and that of an untrusted one names ca_bundle."""
    with record(answer(ONE)) as proxy:
        assert problem(url(closed), proxy=f"https://{HOST}:{proxy.port}") == (
            f"the proxy https://{HOST}:{proxy.port} does not speak TLS. Check sources.letters.proxy."
        )
    with record(answer(ONE), tls=authority.server("proxy")) as proxy:
        address = f"https://{HOST}:{proxy.port}"
        untrusted = f"the certificate of the proxy {address} cannot be trusted: unable to get local issuer certificate."
        assert problem(url(closed), proxy=address) == (
            f"{untrusted} If your company issues it, set sources.letters.ca_bundle to your company's certificates."
        )
        assert problem(url(closed), proxy=address, ca_bundle=other.bundle) == (
            f"{untrusted} Add its issuer to sources.letters.ca_bundle ({other.bundle})."
        )


def test_a_refused_port_and_an_unknown_host_read_differently(closed: int) -> None:
    """The error for an unreachable service distinguishes an unknown host from a refused port."""
    begin = "no connection to the service:"
    assert problem(url(closed)) == f"{begin} connection refused{SPENT} {CHECK_ADDRESS}"
    assert problem(url(closed, host=UNKNOWN)) == f"{begin} its host name cannot be resolved{SPENT} {CHECK_ADDRESS}"


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_that_is_not_used_is_named(
    closed: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of an unreachable service names a proxy of the environment that is meant for its address."""
    for each in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(each, "http://canary:3128")
    reason = f"no connection to the service: connection refused{SPENT} Check base_url."
    assert problem(url(closed)) == f"{reason} {LONGER}"
    monkeypatch.setenv(name, "http://canary:3128")
    unused = f"{name} of the environment is not used: set sources.letters.proxy."
    assert problem(url(closed)) == f"{reason} {unused} {LONGER}"
    monkeypatch.setenv("no_proxy", f"other,{HOST}")
    assert problem(url(closed)) == f"{reason} {LONGER}"


def test_bad_certificates_name_the_setting_that_helps(plain: int, authority: Authority, other: Authority) -> None:
    """An unknown issuer, another host and a past date each have an error of their own, and nothing is sent."""
    begin = "the certificate of the service cannot be trusted:"
    with record(answer(ONE), tls=authority.server("service")) as service:
        assert problem(service.base_url, ca_bundle=other.bundle) == (
            f"{begin} unable to get local issuer certificate. "
            f"Add its issuer to sources.letters.ca_bundle ({other.bundle})."
        )
        assert problem(url(service.port, host="localhost"), ca_bundle=authority.bundle) == (
            f"{begin} Hostname mismatch, certificate is not valid for 'localhost'. "
            "Check the host in sources.letters.base_url."
        )
    assert (service.connections, service.sent) == (2, [])
    with record(answer(ONE), tls=authority.server("old", lasts=-DAY)) as service:
        assert problem(service.base_url, ca_bundle=authority.bundle) == (
            f"{begin} certificate has expired. "
            "It must be renewed; check this machine's clock, and sources.letters.base_url."
        )
    assert (service.connections, service.sent) == (1, [])


def test_a_folder_of_authorities_is_trusted(secured: int, authority: Authority, tmp_path: Path) -> None:
    """A folder of certificates that `openssl rehash` has named is trusted."""
    (tmp_path / "ca.pem").write_bytes(authority.bundle.read_bytes())
    subprocess.run([shutil.which("openssl") or "openssl", "rehash", tmp_path], check=True)
    assert len(get(url(secured), ca_bundle=tmp_path)) == 2


def test_a_client_certificate_is_shown_to_a_service_that_asks(authority: Authority, other: Authority) -> None:
    """A service that asks for a client certificate gets it, and without a known one the error names the setting."""
    with record(answer(ONE), tls=authority.demanding_server("service")) as service:
        trusted = {"ca_bundle": authority.bundle}
        client, stranger = authority.issue("client"), other.issue("stranger")
        assert get(service.base_url, client_cert=client, **trusted) == [ONE] * 2
        assert get(service.base_url, client_cert=client, client_key=client, **trusted) == [ONE] * 2
        assert problem(service.base_url, **trusted) == (
            "the service refused the TLS handshake: certificate required. "
            "If it asks for a client certificate, set sources.letters.client_cert."
        )
        assert problem(service.base_url, client_cert=stranger, **trusted) == (
            f"the service refused the TLS handshake: unknown ca. Check sources.letters.client_cert ({stranger})."
        )
    assert len(service.sent) == 4


@pytest.mark.parametrize(
    ("alert", "words", "advice"),
    [
        (40, "handshake failure", "If it asks for a client certificate, set sources.letters.client_cert."),
        (70, "protocol version", "Check sources.letters.base_url."),
        (112, "unrecognized name", "Check sources.letters.base_url."),
    ],
)
def test_a_handshake_that_the_service_refuses_is_reported_with_its_alert(alert: int, words: str, advice: str) -> None:
    """The error of a refused handshake names the fatal alert (RFC 8446, 6.2)."""

    async def refuse(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(2**16)
        writer.write(bytes((21, 3, 3, 0, 2, 2, alert)))
        await writer.drain()

    with serve_streams(refuse) as port:
        assert problem(url(port)) == f"the service refused the TLS handshake: {words}. {advice}"
        proxy = f"https://{HOST}:{port}"
        refused = f"the proxy {proxy} refused the TLS handshake: {words}. Check sources.letters.proxy."
        assert problem(url(port), proxy=proxy) == refused


@pytest.mark.parametrize(
    ("code", "network", "advice"),
    [
        (18, DIRECT, "If your company issues it, set sources.letters.ca_bundle to your company's certificates."),
        (19, Network(ca_bundle="$HOME/ca.pem"), "Add its issuer to sources.letters.ca_bundle ($HOME/ca.pem)."),
        (85, Network(ca_bundle="ca.pem"), "Check sources.letters.ca_bundle."),
        (85, DIRECT, "Check sources.letters.base_url."),
    ],
)
def test_what_is_wrong_with_a_certificate_decides_what_to_do(code: int, network: Network, advice: str) -> None:
    """The advice depends on what is wrong with the certificate."""
    error = ServiceUnreachable("no TLS.", advice=certificate_advice(code, SERVICE, network))
    assert str(error) == f"no TLS. {advice}"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.exceptions.ConnectTimeout("canary"), "no connection to the service in time"),
        (requests.exceptions.ReadTimeout("canary"), "no response in time"),
        (requests.exceptions.ConnectionError("canary"), "the connection ended without a response"),
        (requests.exceptions.ChunkedEncodingError("canary"), "a response cut short"),
        (OSError("canary"), "a certificate or key file is missing"),
    ],
)
def test_a_failed_connection_is_reported_in_our_own_words(error: Exception, words: str) -> None:
    """No error of a connection has the libraries' words, which quote addresses and contents."""
    assert describe(error) == words


def test_only_a_proxy_can_refuse_a_tunnel() -> None:
    """Words of a service about a tunnel are not taken for those of a proxy."""
    error: Any = requests.exceptions.ConnectionError("Tunnel connection failed: 407 canary")
    assert failed(error, "https://letters.example.org", DIRECT).reason == "the connection ended without a response"


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("https://letters.example.org/api/v1", "https://letters.example.org/api/v1"),
        ("HTTPS://Letters.Example.org:443/api/v1//", "https://letters.example.org/api/v1"),
        ("https://letters.example.org:8443/API/v1", "https://letters.example.org:8443/API/v1"),
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:443/", "http://localhost:443"),
        ("http://[::1]:8765/api/v1", "http://[::1]:8765/api/v1"),
    ],
)
def test_spellings_of_one_service_are_alike(address: str, service: str) -> None:
    """Letter case of scheme and host, default ports and trailing slashes do not matter; paths and other ports do."""
    assert service_of(address) == service
