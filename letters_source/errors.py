"""Which errors can a load end with, and what does each one carry?

    LettersError                    anything this package raises
    ├── SettingsError               a setting is missing or wrong; names the key and where to set it
    │   └── DestinationError        the place to load into cannot be used
    │       ├── DestinationInUse    another process uses it
    │       └── DestinationUnreachable  its server or bucket does not answer
    ├── NotAuthorised               the service refused the tokens, or they have expired
    ├── IncompleteListing           the rows read cannot be shown to be the whole listing
    │   └── ListingUnpaged          the service answers every page with the same one
    ├── ListingShrank               a listing lost more rows since the last load than is allowed
    ├── LoadFailed                  the destination failed, or does not hold what was read
    └── ServiceError                the service did not answer as documented
        ├── ServiceUnreachable      no usable answer within the retry budget
        ├── ServiceRejected         the service refused the request; retrying cannot help
        └── MalformedResponse       an answer that is not the documented envelope

Messages never hold a token, a row or a response body.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class LettersError(Exception):
    """Root of every error this package raises.

    `exit_code` is what the command ends with; `may_pass` whether trying again in some minutes may help.
    """

    exit_code: ClassVar[int] = 1
    may_pass: ClassVar[bool] = False


class SettingsError(LettersError):
    """A setting is missing or wrong; the message names the key and where to set it."""

    exit_code = 2


class DestinationError(SettingsError):
    """The place to load into cannot be written, or is in use."""


class DestinationInUse(DestinationError):
    """Another run, or a program that holds the file, uses the place to load into."""

    may_pass = True

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; load when it has ended, or set sources.letters.lock_wait to the seconds to wait.")


class DestinationUnreachable(DestinationError):
    """The server or the bucket to load into does not answer, or refuses the credentials."""

    may_pass = True


class LoadFailed(LettersError):
    """The destination failed while it was loaded, or does not hold afterwards what was read."""

    may_pass = True


class NotAuthorised(LettersError):
    """The service refused the tokens (401, 403), or the access token has expired."""

    exit_code = 3


class IncompleteListing(LettersError):
    """The rows read cannot be shown to be the whole listing, so nothing was loaded.

    `count` is what the service reported last in the last walk, `received` the distinct rows of that walk.
    """

    exit_code = 4
    remedy: ClassVar[str] = "Run again when the listing is quieter, or raise sources.letters.max_walks."

    def __init__(self, listing: str, reason: str, *, count: int, received: int, walks: int) -> None:
        self.listing, self.reason = listing, reason
        self.count, self.received, self.walks = count, received, walks
        super().__init__(
            f"{listing}: {reason}: count {count}, received {received}, missing {self.missing}, walks {walks}; "
            f"nothing was loaded. {self.remedy}"
        )

    @property
    def missing(self) -> int:
        """Rows that the service counted and did not show; negative when it showed more."""
        return self.count - self.received


class ListingUnpaged(IncompleteListing):
    """The service answers every page with the same one, so that only a page that holds all rows could be complete."""

    remedy = "Set sources.letters.page_size to that count or more, or choose fewer rows by filters."


class ListingShrank(LettersError):
    """A listing lost all its rows since the last load, or more than is allowed, so nothing was loaded."""

    exit_code = 4

    def __init__(self, listing: str, before: int, now: int, remedy: str) -> None:
        self.listing, self.before, self.now = listing, before, now
        super().__init__(
            f"{listing}: the service lists {now} rows with an id, and the last load had {before}; nothing was loaded. "
            f"If the others are really gone, {remedy} for one load."
        )


class ServiceError(LettersError):
    """The service did not answer as documented."""

    exit_code = 5


class ServiceUnreachable(ServiceError):
    """No usable answer came within the retry budget."""

    may_pass = True


class ServiceRejected(ServiceError):
    """The service refused the request, and asking again cannot help (400, 404, 422, a redirect)."""


class MalformedResponse(ServiceError):
    """An answer that is not the documented envelope (service-interface 2.1): another 2xx, too large, or other contents.

    `transient` tells that the body was not even JSON, which a broken connection can cause.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        self.transient = transient
        super().__init__(message)


@contextmanager
def importing_extra(extra: str) -> Iterator[None]:
    """Run imports that need an extra.

    Raises:
        SettingsError: a module is missing; the message says how to install the extra.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise SettingsError(f"{missing.name} is not installed: pip install 'letters-source[{extra}]'.") from None
