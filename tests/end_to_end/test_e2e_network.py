"""A load comes through a company's proxy, to a service whose certificate the company issued."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from holdings import read_tables
from terminals import Letters, Outcome
from worlds import ACCESS, REFRESH, Begin, World

from forward_proxy import HOST, ForwardProxy, forward_proxy, tls_front
from private_ca import Authority
from programmable_emulator import Emulator

CREDENTIALS = "user:canary-password"


@dataclass(frozen=True)
class Company:
    """A loaded world whose service speaks TLS, and can only be reached through a proxy with a password."""

    world: World
    proxy: ForwardProxy
    authority: Authority
    base_url: str

    @property
    def variables(self) -> dict[str, str]:
        """The settings that reach the service, as variables of the environment."""
        return self.world.variables(
            base_url=self.base_url,
            proxy=self.proxy.url_for(CREDENTIALS),
            ca_bundle=self.authority.bundle,
            retry_budget=0.001,
        )


@pytest.fixture
def company(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    """A company whose settings are in the environment; nothing listens at the address of the service itself."""
    world, authority = begin(Emulator(250, 7)), Authority(tmp_path)
    with Emulator(0, 0).serve() as gone:
        closed = urlsplit(gone).port
    plain = urlsplit(world.settings["base_url"]).port or 0
    with (
        tls_front(plain, authority.server("service")) as port,
        forward_proxy(port, credentials=CREDENTIALS) as proxy,
    ):
        company = Company(world, proxy, authority, f"https://{HOST}:{closed}/api/v1")
        for name, value in company.variables.items():
            monkeypatch.setenv(name, value)
        yield company


def unset(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave settings out."""
    for name in names:
        monkeypatch.delenv(f"SOURCES__LETTERS__{name}")


def test_rows_come_through_a_proxy_with_a_password_and_a_private_authority(
    company: Company, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows come through the proxy, which sees no token and no path, and its password is printed nowhere."""
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "20")
    check = letters("check", "--debug")
    done = letters("load", "--to", company.world.place, "--debug")
    assert (check.code, done.code) == (0, 0)
    assert company.world.is_exact()
    assert {line.split(" ")[0] for line in company.proxy.requests} == {"CONNECT"}
    assert not any(word.encode() in company.proxy.seen for word in (ACCESS, REFRESH, "Bearer", "/api/v1"))
    assert "canary-password" not in check.out + check.err + done.out + done.err


def test_without_the_settings_one_line_names_them(
    company: Company, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the missing setting: first the trusted certificates, then the proxy."""
    where = f"letters: templates page 0 ({company.base_url}/templates)"
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "5")
    unset(monkeypatch, "CA_BUNDLE")
    assert letters("load") == Outcome(
        5,
        "",
        f"{where}: the certificate of the service cannot be trusted: unable to get local issuer certificate. "
        "If your company issues it, set sources.letters.ca_bundle to your company's certificates.\n",
    )
    unset(monkeypatch, "PROXY")
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "0.001")
    monkeypatch.setenv("HTTPS_PROXY", company.proxy.url)
    assert letters("load") == Outcome(
        5,
        "",
        f"{where}: no connection to the service: connection refused; gave up within 0 s. "
        "Check base_url. HTTPS_PROXY of the environment is not used: set sources.letters.proxy. "
        "To let loads retry longer, raise sources.letters.retry_budget.\n",
    )


def test_a_file_that_is_missing_is_named_before_anything_is_sent(
    company: Company, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing certificate file is named before any request, with the reason and where to set another."""
    monkeypatch.setenv("SOURCES__LETTERS__CA_BUNDLE", "missing.pem")
    assert letters("load") == Outcome(
        2,
        "",
        "letters: sources.letters.ca_bundle ('missing.pem') cannot be read: no such file or directory; "
        "set SOURCES__LETTERS__CA_BUNDLE in the environment, "
        "or ca_bundle under [sources.letters] in .dlt/config.toml.\n",
    )
    assert company.proxy.requests == []


@pytest.mark.usefixtures("company")
def test_the_demo_needs_no_proxy(letters: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo uses no proxy, whatever the settings are, since its emulator is on this machine."""
    monkeypatch.setenv("SOURCES__LETTERS__PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "20")
    assert letters("demo", "--contacts", 20, "--quiet").code == 0
    assert len(read_tables(Path("letters_demo.duckdb"))["contacts"]) == 20
