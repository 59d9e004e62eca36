"""Only usable tokens are sent, and they appear nowhere else."""

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest

from letters_source.errors import NotAuthorized, SettingsError
from letters_source.service.tokens import Tokens, TokenSource, check_expiry, check_tokens, expiry

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
KEY = "a key of 32 bytes and a few more"
FIRST = Tokens("a", "r")


def token(**claims: Any) -> str:
    """A JWT with these claims."""
    return jwt.encode(claims, KEY)


def ending(after: timedelta) -> str:
    """A JWT that expires so long after now."""
    return token(exp=(NOW + after).timestamp(), sub="canary")


class Vault:
    """Secrets that change: each reading returns the next ones, the last ones repeatedly."""

    def __init__(self, *tokens: Tokens) -> None:
        self.waiting, self.read = list(tokens), 0

    def __call__(self) -> Tokens:
        """Read the secrets."""
        self.read += 1
        return self.waiting.pop(0) if len(self.waiting) > 1 else self.waiting[0]


def test_a_token_that_has_expired_is_refused() -> None:
    """The error for an expired token gives the time and the setting, and does not quote the token."""
    for after in (timedelta(0), -timedelta(seconds=1), -timedelta(days=400)):
        old = ending(after)
        with pytest.raises(NotAuthorized) as caught:
            check_expiry(old, NOW)
        assert str(caught.value) == (
            f"The access token expired at {NOW + after:%Y-%m-%d %H:%M:%S} UTC; set a new sources.letters.access_token."
        )


def test_a_token_that_ends_soon_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """A token that expires in less than 15 minutes is warned about."""
    check_expiry(ending(timedelta(minutes=14, seconds=59)), NOW)
    assert caplog.messages == ["The access token expires at 2024-05-06 07:23:08 UTC, in less than 15 minutes."]


@pytest.mark.parametrize(
    "good",
    [ending(timedelta(minutes=15)), ending(timedelta(days=1)), token(), token(sub="canary"), "", "opaque", "a.b.c",
     "..", "e30.e30.", "\u2603", token() + "x"],
)  # fmt: skip
def test_other_tokens_cause_no_message(good: str, caplog: pytest.LogCaptureFixture) -> None:
    """Tokens with time left or without an expiry, and tokens that are no JWTs, cause no message."""
    caplog.set_level(logging.DEBUG, "letters_source")
    check_expiry(good, NOW)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"exp": 1}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (
            {"exp": 1, "sub": 7, "iat": "soon", "nbf": 10**12, "aud": "others"},
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        ),
        ({"exp": 1.5}, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ({"exp": "1"}, None),
        ({"exp": None}, None),
        ({"exp": [1]}, None),
        ({"exp": 10**15}, None),
        ({"exp": 10**30}, None),
        ({}, None),
    ],
)
def test_the_expiry_is_read_from_the_claim_alone(claims: dict[str, Any], expected: datetime | None) -> None:
    """Other claims change nothing, and an unusable expiry is not guessed at."""
    header, _, signature = token().split(".")
    payload = jwt.utils.base64url_encode(json.dumps(claims).encode()).decode()
    assert expiry(f"{header}.{payload}.{signature}") == expected


@pytest.mark.parametrize("key", ["access", "refresh"])
@pytest.mark.parametrize("part", [" ", "\n", "\r\n", "\t", "\x00", "\x7f", "é", "\u2603", "\ufeff"])
def test_a_token_that_no_header_can_hold_is_refused(key: str, part: str) -> None:
    """The error for a token that no header can hold names its setting, and does not quote the token."""
    tokens = {"access": "canary", "refresh": "canary", key: f"canary{part}canary"}
    with pytest.raises(SettingsError) as caught:
        check_tokens(Tokens(tokens["access"], tokens["refresh"]))
    assert str(caught.value) == (
        f"sources.letters.{key}_token contains spaces, line breaks or non-ASCII characters; "
        "paste the token again, without quotes or 'Bearer'."
    )
    assert caught.value.key == f"sources.letters.{key}_token"


def test_tokens_are_not_represented() -> None:
    """Neither the repr of tokens nor that of their owner shows them."""
    tokens = Tokens("canary-access", "canary-refresh")
    source = TokenSource(tokens, lambda: tokens)
    assert source.current() is tokens
    assert "canary" not in f"{tokens} {tokens!r} {source} {source!r}"
    assert repr(tokens) == "Tokens()"


@pytest.mark.parametrize("refresh", [True, False])
def test_tokens_have_their_headers(*, refresh: bool) -> None:
    """The refresh token is sent only if requested."""
    headers = Tokens("a", "r").headers(refresh=refresh)
    assert headers == {"Authorization": "Bearer a", **({"refreshtoken": "r"} if refresh else {})}


def test_usable_tokens_are_returned() -> None:
    """Any printable ASCII without spaces is valid, whether it is a JWT or not."""
    tokens = Tokens(token(sub="canary"), "!opaque~")
    assert check_tokens(tokens) is tokens


def test_an_expired_access_token_is_refused_before_anything_is_sent() -> None:
    """An expired access token is refused, and the expiry of a refresh token is left to the service."""
    with pytest.raises(NotAuthorized, match=r"^The access token expired at 1970-01-01 00:00:01 UTC; "):
        check_tokens(Tokens(token(exp=1), "r"))
    assert check_tokens(Tokens("a", token(exp=1))).access == "a"


def test_an_expired_access_token_is_named_with_its_origin() -> None:
    """The error for an expired token says where it was set."""
    with pytest.raises(NotAuthorized) as caught:
        check_tokens(Tokens(token(exp=1), "r", ("ACCESS in the environment", "refresh_token in /a$b/secrets.toml")))
    assert str(caught.value).endswith("; set a new sources.letters.access_token. It is ACCESS in the environment.")


def test_the_tokens_given_are_kept_until_they_are_refused() -> None:
    """Neither creating a source nor getting its tokens reads the secrets."""
    vault = Vault(Tokens("b", "s"))
    source = TokenSource(FIRST, vault)
    assert [source.current(), source.current(), vault.read] == [FIRST, FIRST, 0]


def test_refused_tokens_are_renewed_from_the_secrets() -> None:
    """Secrets are read once for all workers whose same tokens were refused."""
    second = Tokens("a", "s")
    vault = Vault(second)
    source = TokenSource(FIRST, vault)
    assert [source.renew(FIRST), source.renew(FIRST)] == [True, True]
    assert (source.current(), vault.read) == (second, 1)


def test_renewed_tokens_can_be_renewed_again() -> None:
    """Tokens may be rotated more than once during a run."""
    second, third = Tokens("a", "s"), Tokens("a", "t")
    source = TokenSource(FIRST, Vault(second, third))
    assert [source.renew(FIRST), source.renew(second), source.renew(third)] == [True, True, False]
    assert source.current() == third


def test_secrets_that_stay_the_same_do_not_help() -> None:
    """Refused tokens are not renewed if the secrets hold the same ones."""
    vault = Vault(FIRST)
    source = TokenSource(FIRST, vault)
    assert source.renew(FIRST) is False
    assert (source.current(), vault.read) == (FIRST, 1)


def test_secrets_that_cannot_be_read_again_do_not_help() -> None:
    """Tokens that were given as arguments cannot be renewed."""

    def read_again() -> Tokens:
        raise SettingsError("sources.letters.access_token is not set")

    source = TokenSource(FIRST, read_again)
    assert source.renew(FIRST) is False
    assert source.current() == FIRST


def test_renewed_tokens_are_checked_too() -> None:
    """A renewed token that has expired is refused."""
    source = TokenSource(FIRST, Vault(Tokens(token(exp=1), "r")))
    with pytest.raises(NotAuthorized, match=r"^The access token expired at 1970-01-01 00:00:01 UTC; "):
        source.renew(FIRST)
    assert source.current() == FIRST


def test_renewed_tokens_that_no_header_can_hold_are_reported() -> None:
    """The error for an unusable new token says what is wrong with it, not that the old one was refused."""
    source = TokenSource(FIRST, Vault(Tokens("new\ntoken", "r")))
    with pytest.raises(SettingsError, match=r"^sources\.letters\.access_token contains spaces, line breaks or "):
        source.renew(FIRST)
    assert source.current() == FIRST


def test_secrets_may_be_corrected_after_bad_ones_were_reported() -> None:
    """Each renewal reads the secrets again until it finds usable tokens."""
    second = Tokens("b", "s")
    vault = Vault(Tokens("new token", "r"), second)
    source = TokenSource(FIRST, vault)
    with pytest.raises(SettingsError):
        source.renew(FIRST)
    assert source.renew(FIRST) is True
    assert (source.current(), vault.read) == (second, 2)


def test_other_errors_while_reading_secrets_are_raised() -> None:
    """Only missing settings count as nothing to read; other errors are raised."""

    def read_again() -> Tokens:
        raise NotAuthorized("canary")

    source = TokenSource(FIRST, read_again)
    with pytest.raises(NotAuthorized, match=r"^canary$"):
        source.renew(FIRST)
    assert source.current() == FIRST
