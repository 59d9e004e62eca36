"""The tokens to send, and checks that they can be sent."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock

from letters_source.errors import NotAuthorized, SettingsError, verbatim

logger = logging.getLogger("letters_source")
SOON = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The bearer token for both listings and the refresh token that contacts require (service-interface 5).

    `origins` are where both were set, such as a variable of the environment; empty for arguments of functions.
    """

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    origins: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def headers(self, *, refresh: bool) -> dict[str, str]:
        """Return the headers that carry them; the refresh token's only if `refresh`."""
        bearer = {"Authorization": f"Bearer {self.access}"}
        return {**bearer, "refreshtoken": self.refresh} if refresh else bearer


class TokenSource:
    """The tokens to send; reads the secrets again when the service refuses them. Thread-safe."""

    def __init__(self, tokens: Tokens, read_again: Callable[[], Tokens]) -> None:
        self._read_again, self._lock = read_again, Lock()
        self._current = tokens
        self._accepted: Tokens | None = None

    def current(self) -> Tokens:
        """Return the tokens to send now."""
        with self._lock:
            return self._current

    def accept(self, tokens: Tokens) -> None:
        """Record that the service has accepted these tokens."""
        self._accepted = tokens

    def are_accepted(self, tokens: Tokens) -> bool:
        """Return whether the service has accepted these tokens before."""
        return self._accepted == tokens

    def renew(self, refused: Tokens) -> bool:
        """Read the secrets again; return whether there are now other tokens than the refused ones."""
        with self._lock:
            if self._current == refused:
                try:
                    found = self._read_again()
                except SettingsError:
                    # passed as arguments: there is nothing to read again
                    return False
                self._current = check_tokens(found)
            return self._current != refused


def check_tokens(tokens: Tokens) -> Tokens:
    """Return the tokens; raise SettingsError for characters no header can hold, NotAuthorized if they have expired."""
    for key, token in (("access_token", tokens.access), ("refresh_token", tokens.refresh)):
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise SettingsError.about(
                f"sources.letters.{key}",
                "contains spaces, line breaks or non-ASCII characters",
                "paste the token again, without quotes or 'Bearer'.",
            )
    check_expiry(tokens.access, datetime.now(UTC), told("It is", tokens.origins[:1]))
    return tokens


def told(begin: str, origins: tuple[str, ...]) -> str:
    """Return a sentence for the end of an advice, on where tokens were set; empty if nothing is known."""
    return f" {begin} {verbatim(' and '.join(origins))}." if origins else ""


def check_expiry(token: str, now: datetime, origin: str = "") -> None:
    """Raise NotAuthorized if a JWT's `exp` (RFC 7519, 4.1.4) has passed, and warn if it will soon."""
    expires = expiry(token)
    if expires and expires <= now:
        raise NotAuthorized(
            f"The access token expired at {expires:%Y-%m-%d %H:%M:%S} UTC", advice=f"set a new $access_token.{origin}"
        )
    if expires and expires - now < SOON:
        logger.warning("The access token expires at %s UTC, in less than 15 minutes.", f"{expires:%Y-%m-%d %H:%M:%S}")


def expiry(token: str) -> datetime | None:
    """Return when a token expires; None if it does not say, or is no JWT."""
    # the three parts of a JWT (RFC 7515, 7.1)
    if token.count(".") != 2:
        return None
    # importing it takes 25 ms, which other tokens need not wait for
    import jwt

    try:
        claims = jwt.decode(token, options={"verify_signature": False, "verify_exp": False})
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (jwt.InvalidTokenError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
