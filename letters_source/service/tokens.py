"""Which tokens are sent, and are they fit to be sent?"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock

from letters_source.errors import NotAuthorised, SettingsError

logger = logging.getLogger("letters_source")
SOON = timedelta(minutes=15)
JWT_DOTS = 2
"""Between the three parts of a JWT (RFC 7515, 7.1)."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The bearer token of both listings and the refresh token that contacts ask for (service-interface 5)."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)

    def headers(self, *, refresh: bool) -> dict[str, str]:
        """The headers that carry them, the refresh token's only where it is asked for."""
        bearer = {"Authorization": f"Bearer {self.access}"}
        return {**bearer, "refreshtoken": self.refresh} if refresh else bearer


class TokenSource:
    """The tokens to send, and a way to read the secrets again when the service refuses them; thread-safe."""

    def __init__(self, tokens: Tokens, read_again: Callable[[], Tokens]) -> None:
        self._read_again, self._lock = read_again, Lock()
        self._current = tokens

    def current(self) -> Tokens:
        """The tokens to send now."""
        with self._lock:
            return self._current

    def renew(self, refused: Tokens) -> bool:
        """Whether the secrets hold other tokens than the refused ones by now, which are the current ones then.

        Raises:
            LettersError: the new ones cannot be sent, as `check_tokens` says.
        """
        with self._lock:
            if self._current == refused:
                try:
                    found = self._read_again()
                except SettingsError:
                    # set by hand in this process: there is nothing to read again
                    return False
                self._current = check_tokens(found)
            return self._current != refused


def check_tokens(tokens: Tokens) -> Tokens:
    """The tokens, if they can be sent.

    Raises:
        SettingsError: one of them could not stand in a header.
        NotAuthorised: the access token has expired.
    """
    for key, token in (("access_token", tokens.access), ("refresh_token", tokens.refresh)):
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise SettingsError(
                f"sources.letters.{key} holds blanks, line breaks or characters beyond ASCII; "
                "a token has none: paste it again, without quotes or 'Bearer'."
            )
    check_expiry(tokens.access, datetime.now(UTC))
    return tokens


def check_expiry(token: str, now: datetime) -> None:
    """Refuse a JWT whose `exp` (RFC 7519, 4.1.4) has passed and warn of one that ends soon; other tokens pass.

    Raises:
        NotAuthorised: the token has expired.
    """
    expires = expiry(token)
    if expires and expires <= now:
        raise NotAuthorised(
            f"The access token expired at {expires:%Y-%m-%d %H:%M:%S} UTC; set a new sources.letters.access_token."
        )
    if expires and expires - now < SOON:
        logger.warning("The access token expires at %s UTC, in less than 15 minutes.", f"{expires:%Y-%m-%d %H:%M:%S}")


def expiry(token: str) -> datetime | None:
    """When a JWT expires; None for one that does not say, and for a token that is no JWT."""
    if token.count(".") != JWT_DOTS:
        return None
    # a fortieth of a second, which other tokens need not wait for
    import jwt

    try:
        claims = jwt.decode(token, options={"verify_signature": False, "verify_exp": False})
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (jwt.InvalidTokenError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
