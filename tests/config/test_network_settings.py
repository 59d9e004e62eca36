"""Is an address, a proxy or a file of certificates that cannot be used refused before anything is sent?"""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from dlt.common.configuration.container import Container
from dlt.common.configuration.providers import CustomLoaderDocProvider
from dlt.common.configuration.specs import PluggableRunContext

from letters_source.config.network import check_base_url, check_network, check_proxy, is_loopback
from letters_source.config.resolve import resolve_settings
from letters_source.config.settings import Settings
from letters_source.errors import SettingsError
from letters_source.service.network import Network
from private_ca import Authority, new_key, pem_of

URL = "https://letters.example.org/api/v1"


def where(key: str, file: str = "config") -> str:
    """How a message says where to set a key."""
    variable = f"SOURCES__LETTERS__{key.upper()}"
    return f"set {variable} in the environment, or {key} under [sources.letters] in .dlt/{file}.toml."


WHERE = where("base_url")
SECRET = where("proxy", "secrets")
PROXY_FORM = (
    "sources.letters.proxy must be an address such as http://host:3128; a user and a password go before the host, "
    f"as user:password@, with special characters percent-encoded; {SECRET}"
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority with a folder of its own."""
    folder = tmp_path / "authority"
    folder.mkdir()
    return Authority(folder)


def problem(base_url: str = URL, **network: Any) -> str:
    """The message of the error that these settings end with."""
    with pytest.raises(SettingsError) as caught:
        check_network(base_url, Network(**{name: str(value) for name, value in network.items()}))
    assert caught.value.__cause__ is None
    assert (caught.value.key or "").partition("letters.")[2] in network
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    ["http://proxy.example.org:3128", "https://proxy.example.org", "http://proxy:3128/", "HTTP://10.0.0.1:8080",
     f"http://user:{'canary'}@proxy:3128", f"http://user:{'%40%3A%2F%C3%9F'}@[::1]:3128", f"http://user:{''}@proxy"],
)  # fmt: skip
def test_proxies_that_requests_may_go_through(proxy: str) -> None:
    """A proxy may be http or https, with or without a user and a password."""
    check_proxy(proxy, URL)


@pytest.mark.parametrize(
    "proxy",
    ["proxy:3128", "proxy.example.org", "//proxy:3128", "http://", "socks5://proxy:1080", "ftp://proxy", "http://h:0",
     "http://h:port", "http://[::1", "http://proxy/path", "http://proxy?x=1", "http://proxy#x", "http://pro xy",
     "http://proxy\n", "http://canary@proxy:3128", f"http://:{'canary'}@proxy", f"http://user:{'canary/x'}@proxy:3128",
     f"http://user:{'canary#x'}@proxy:3128", f"http://user:{'canary%E2%82%AC'}@proxy:3128"],
)  # fmt: skip
def test_proxies_that_cannot_be_used_are_refused(proxy: str) -> None:
    """An unusable proxy is refused by a message that gives the expected form and does not quote the proxy."""
    assert problem(proxy=proxy) == PROXY_FORM


@pytest.mark.parametrize("proxy", ["http://proxy.example.org:3128", "https://10.0.0.1:3128"])
def test_tokens_go_unencrypted_to_no_other_machine(proxy: str) -> None:
    """A service over http accepts only a proxy on this machine, because the proxy sees the tokens."""
    assert problem("http://127.0.0.1:8000/api/v1", proxy=proxy) == (
        f"sources.letters.proxy must be on this machine where base_url is http, since it would see the tokens; {SECRET}"
    )
    check_network("http://127.0.0.1:8000/api/v1", Network("http://localhost:3128"))


def test_files_of_certificates_may_be_trusted(authority: Authority) -> None:
    """Trusted certificates may be a bundle, or a folder of files named by their hashes."""
    check_network(URL, Network(ca_bundle=str(authority.bundle)))
    authority.bundle.rename(authority.folder / "0a1b2c3d.0")
    check_network(URL, Network(ca_bundle=str(authority.folder)))


def test_a_bundle_that_is_missing_or_has_no_certificate_is_named(authority: Authority, tmp_path: Path) -> None:
    """The error for unusable certificates names the path and the reason."""
    missing, empty, key, folder = (tmp_path / name for name in ("missing.pem", "empty.pem", "key.pem", "folder"))
    empty.touch()
    key.write_bytes(pem_of(new_key()))
    folder.mkdir()
    (folder / "ca.pem").write_bytes(authority.bundle.read_bytes())
    expected = {
        missing: "cannot be read: no such file or directory",
        empty: "has no certificates in PEM form",
        key: "has no certificates in PEM form",
        folder: "has no certificates by hash, as openssl rehash names them",
        Path("a\0b"): "cannot be read: embedded null byte",
    }
    for path, words in expected.items():
        message = f"sources.letters.ca_bundle ({str(path)!r}) {words}; {where('ca_bundle')}"
        assert problem(ca_bundle=path) == message


def test_a_folder_that_may_not_be_listed_is_named(unwritable: Path) -> None:
    """A folder of certificates that may not be listed is refused like a file that may not be read."""
    closed = unwritable / "closed"
    message = f"sources.letters.ca_bundle ({str(closed)!r}) cannot be read: permission denied; {where('ca_bundle')}"
    assert problem(ca_bundle=closed) == message


def test_a_client_certificate_may_have_its_key_in_another_file(authority: Authority, tmp_path: Path) -> None:
    """A client certificate and its key may share a file or have one each; a key that does not match is refused."""
    both = authority.issue("client")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    begin, marker, rest = both.read_text().partition("-----BEGIN PRIVATE")
    certificate.write_text(begin)
    key.write_text(marker + rest)
    check_network(URL, Network(client_cert=str(both)))
    check_network(URL, Network(client_cert=str(certificate), client_key=str(key)))
    assert problem(client_cert=certificate) == (
        f"sources.letters.client_cert ({str(certificate)!r}) does not hold a certificate in PEM form and its private "
        f"key; {where('client_cert')}"
    )
    other = tmp_path / "other.pem"
    other.write_bytes(pem_of(new_key()))
    assert problem(client_cert=certificate, client_key=other) == (
        f"sources.letters.client_cert ({str(certificate)!r}) and client_key ({str(other)!r}) do not hold a certificate "
        f"in PEM form and its private key; {where('client_cert')}"
    )
    assert problem(client_cert=certificate, client_key=tmp_path / "none.pem") == (
        f"sources.letters.client_key ({str(tmp_path / 'none.pem')!r}) cannot be read: no such file or directory; "
        f"{where('client_key')}"
    )


def test_a_key_with_a_passphrase_is_refused_without_a_question(authority: Authority, tmp_path: Path) -> None:
    """A key with a passphrase is refused, because OpenSSL would ask at the terminal during a load."""
    both, locked = authority.issue("client"), tmp_path / "locked.pem"
    key = serialization.load_pem_private_key(both.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"canary")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    assert problem(client_cert=both, client_key=locked) == (
        "sources.letters.client_cert has a key with a passphrase, for which there is no setting; "
        f"{where('client_cert')}"
    )


def test_a_key_without_a_certificate_is_an_error(tmp_path: Path) -> None:
    """`client_key` without `client_cert` is an error, because the key would be ignored."""
    with pytest.raises(SettingsError) as caught:
        check_network(URL, Network(client_key=str(tmp_path)))
    assert str(caught.value) == f"sources.letters.client_cert is not set, but client_key is; {where('client_cert')}"


def resolve(**values: str) -> Settings:
    """The settings that these values give."""
    required = {"base_url": URL, "access_token": "a", "refresh_token": "r"}
    document = {"sources": {"letters": {**required, **values}}}
    return resolve_settings({}, [CustomLoaderDocProvider("values", lambda: document, supports_secrets=True)])


def test_settings_say_how_to_reach_the_service(authority: Authority) -> None:
    """The settings of the network are those given, and an empty text counts as not set."""
    assert resolve().network == Network()
    assert resolve(proxy="", ca_bundle="", client_cert="", client_key="").network == Network()
    client = str(authority.issue("client"))
    given = {
        "proxy": "http://proxy:3128",
        "ca_bundle": str(authority.bundle),
        "client_cert": client,
        "client_key": client,
    }
    assert resolve(**given).network == Network(**given)


def test_a_proxy_is_not_represented() -> None:
    """The repr of the settings does not contain the password of the proxy."""
    settings = resolve(proxy=f"http://user:{'canary'}@proxy:3128")
    assert settings.network.proxy_address == "http://proxy:3128"
    assert "canary" not in f"{settings} {settings!r} {settings.network} {settings.network!r}"


def test_a_secret_in_config_toml_is_an_error(project: Path) -> None:
    """A proxy in config.toml is an error, because secrets there are ignored, unless it is set elsewhere."""
    required = f'base_url = "{URL}"\naccess_token = "a"\nrefresh_token = "r"\n'
    (project / ".dlt/secrets.toml").write_text(f"[sources.letters]\n{required}")
    (project / ".dlt/config.toml").write_text(f'[sources.letters]\nproxy = "http://user:{"canary"}@proxy:3128"\n')
    Container()[PluggableRunContext].reload_providers()
    with pytest.raises(SettingsError) as caught:
        resolve_settings({})
    assert str(caught.value) == f"sources.letters.proxy is a secret, and ignored in config.toml; {SECRET}"
    assert resolve_settings({"proxy": ""}).network == Network()


@pytest.mark.parametrize(
    "base_url",
    [URL, "HTTPS://LETTERS.EXAMPLE.ORG", "https://letters.example.org:8443/api/v1", "http://localhost:8000",
     "http://127.0.0.1:8000/api/v1", "http://127.8.9.10", "http://[::1]:8000"],
)  # fmt: skip
def test_addresses_that_tokens_may_go_to(base_url: str) -> None:
    """The address may be https anywhere, and http on this machine."""
    check_base_url(base_url)


@pytest.mark.parametrize(
    "base_url",
    ["http://letters.example.org", "http://localhost.example.org", "http://127.0.0.1.example.org", "http://0.0.0.0",
     "http://10.0.0.1", "http://127.1"],
)  # fmt: skip
def test_plain_http_stays_on_this_machine(base_url: str) -> None:
    """An http address of another machine is refused, also if its name looks like this machine's."""
    with pytest.raises(SettingsError) as caught:
        check_base_url(base_url)
    assert str(caught.value) == (
        f"sources.letters.base_url must begin with https://, since tokens are sent there; {WHERE}"
    )
    assert caught.value.key == "sources.letters.base_url"


@pytest.mark.parametrize(
    "base_url",
    ["", "letters.example.org", "//letters.example.org", "/api/v1", "https://", "https:///api/v1", "ftp://letters.example.org",
     "file:///etc/passwd", "https://user@letters.example.org", "https://user:pass@letters.example.org", "https://:p@h",
     "https://good.example.org\\@letters.example.org", f"{URL}?page=1", f"{URL}#part", "https://h:0", "https://h:65536",
     "https://h:port", "https://[::1"],
)  # fmt: skip
def test_addresses_that_are_not_plain_are_refused(base_url: str) -> None:
    """An address with a user, query, fragment, bad port, other scheme, or without a host is refused."""
    with pytest.raises(SettingsError) as caught:
        check_base_url(base_url)
    assert str(caught.value) == (
        "sources.letters.base_url must be an address such as https://host/api/v1, without user, query or fragment; "
        + WHERE
    )


@pytest.mark.parametrize(
    "base_url",
    [f"{URL}?", f"{URL}#", "https://@letters.example.org", f" {URL}", f"{URL}\n", f"{URL} ", f"{URL}/a b",
     "https://lett\ners.example.org", "https://letters.example.org\u2028", "https://letters.example.org\x00"],
)  # fmt: skip
def test_addresses_with_blanks_or_empty_parts_are_refused(base_url: str) -> None:
    """An address with white space, control characters, or an empty user, query or fragment is refused."""
    with pytest.raises(
        SettingsError, match=r"^sources\.letters\.base_url must be an address such as https://host/api/v1"
    ):
        check_base_url(base_url)


def test_this_machine_is_known_by_name_and_address() -> None:
    """`localhost`, 127.0.0.0/8 and ::1 are loopback addresses, and no others."""
    hosts = ["localhost", "127.0.0.1", "127.255.0.1", "::1", "example.org", "", "::2", "192.168.0.1"]
    assert [is_loopback(host) for host in hosts] == [True] * 4 + [False] * 4
