"""The errors that a load can end with, and what each carries.

    LettersError                    anything this package raises
    ├── SettingsError               a setting is missing or wrong; names the key and where to set it
    │   ├── DestinationError        the destination cannot be used
    │   └── UnusableFile            a file is missing, damaged, or cannot be read or written
    ├── DestinationInUse            another process is using the destination
    ├── DestinationUnreachable      the destination's server or bucket does not answer
    ├── NotAuthorized               the service refused the tokens, or they have expired
    ├── IncompleteListing           the rows read cannot be shown to be the whole listing
    │   ├── ListingUnpaged          the service answers every page with the same one
    │   ├── RepeatedIds             the service lists ids more than once
    │   └── WrongCount              the service lists more or fewer rows than it counts
    ├── ListingShrank               a listing lost more rows since the last load than is allowed
    ├── SharedIds                   the service lists the same rows for two accounts
    ├── LoadFailed                  the destination failed, or does not hold what was read
    └── ServiceError                the service did not answer as documented
        ├── ServiceUnreachable      no usable response within the retry budget
        ├── ServiceRejected         the service rejected the request; a retry cannot help
        ├── MalformedResponse       a response that is not the documented envelope
        └── UndocumentedFields      it sent fields or values that the settings refuse

Messages never hold a token, a row or a response body.
"""

from collections.abc import Mapping
from string import Template
from typing import Any, ClassVar, Self

from letters_source.wording import counted, field_times

INTERRUPTED = 130
"""The exit code of an interrupted command: 128 and the number of SIGINT."""
INTERRUPTION = "interrupted; if tables were being written, run the load again"


class Names(dict[str, str]):
    """What messages call the arguments and settings to change; by default, settings by their full names."""

    def __missing__(self, name: str) -> str:
        return f"sources.letters.{name}"


def verbatim(text: object) -> str:
    """Return text for use in advice; a path may have a dollar sign."""
    return str(text).replace("$", "$$")


ARGUMENTS = Names(
    dataset="dataset",
    destination="destination",
    to="path",
    source="path",
    page="HTML file",
    publish="file for readers",
    product_types="product_types",
    is_shared="is_shared",
)
"""The arguments of functions and filters. The command has options with the same keys, and gives their names instead."""


class LettersError(Exception):
    """Root of every error this package raises.

    `exit_code` is the exit code of the command; `may_pass` tells whether a retry in a few minutes may succeed. The
    message is `what` went wrong and `advice`, in which `$max_walks` or `$dataset` is a setting or an argument.
    """

    exit_code: ClassVar[int] = 1
    may_pass: ClassVar[bool] = False

    def __init__(self, what: str, *, advice: str = "") -> None:
        self.what, self.advice = what, advice
        super().__init__(self.worded())

    def worded(self, names: Names = ARGUMENTS, *, before: str = "") -> str:
        """Return the message with other names, and words `before` the advice."""
        if not self.advice:
            return self.what
        end = " " if self.what.endswith(".") else "; "
        return f"{self.what}{end}{before}{Template(self.advice).safe_substitute(names)}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes hand errors on, with their message and attributes; constructors take other arguments."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class SettingsError(LettersError):
    """A setting is missing or wrong, or what it names cannot be used; the message says what to change.

    `key` is the full key, `sources.letters.page_size`, or the name of an argument, `dataset`; None if the error is
    about neither, such as a missing extra or a right that the database does not grant. `problem` is what is wrong with
    its value, without where it came from.
    """

    exit_code = 2

    def __init__(self, what: str, *, advice: str = "", key: str | None = None, problem: str = "") -> None:
        self.key, self.problem = key, problem
        super().__init__(what, advice=advice)

    @classmethod
    def about(cls, key: str, problem: str, advice: str = "") -> Self:
        """Return the error of a value, which the message calls by its key."""
        return cls(f"{key} {problem}{'' if advice else '.'}", advice=advice, key=key, problem=problem)


class DestinationError(SettingsError):
    """The destination cannot be used."""


class UnusableFile(SettingsError):
    """A file is missing, damaged, or cannot be read or written; `file` is its path."""

    def __init__(self, what: str, *, advice: str = "", file: str) -> None:
        self.file = file
        super().__init__(what, advice=advice)


LOAD_LATER = "load again when it has ended, or set $lock_wait to the seconds to wait."


class DestinationInUse(LettersError):
    """Another load, or a program that has the file open, is using the destination."""

    exit_code = 6
    may_pass = True

    def __init__(self, what: str, *, advice: str = LOAD_LATER) -> None:
        super().__init__(what, advice=advice)


class DestinationUnreachable(LettersError):
    """The destination's server or bucket does not answer; one that refuses the credentials is a `DestinationError`."""

    exit_code = 7
    may_pass = True


class LoadFailed(LettersError):
    """The destination failed during the load, or does not hold what was read.

    In the second case `table` is the table that is not as it was read, and `counts` are figures by name, such as
    `rows_expected` and `rows`; otherwise they are None and empty.
    """

    may_pass = True

    def __init__(
        self, what: str, *, advice: str = "", table: str | None = None, counts: Mapping[str, int] | None = None
    ) -> None:
        self.table, self.counts = table, dict(counts or {})
        super().__init__(what, advice=advice)


class NotAuthorized(LettersError):
    """The service refused the tokens, with `status` 401 or 403, or the access token has expired (None)."""

    exit_code = 3

    def __init__(self, what: str, *, advice: str = "", status: int | None = None) -> None:
        self.status = status
        super().__init__(what, advice=advice)


NotAuthorised = NotAuthorized
"""The name in version 0.1.0."""


class IncompleteListing(LettersError):
    """The rows read cannot be shown to be the whole listing, so nothing was loaded.

    `count` is the last count that the service reported, `received` the number of distinct rows of the last pass.
    """

    exit_code = 4
    remedy: ClassVar[str] = "Run again when the listing is quieter, or raise $max_walks."

    def __init__(self, listing: str, reason: str, *, count: int, received: int, walks: int) -> None:
        self.listing, self.reason = listing, reason
        self.count, self.received, self.walks = count, received, walks
        super().__init__(
            f"{listing}: {reason}: count {count}, received {received}, missing {self.missing}, passes {walks}; "
            "nothing was loaded.",
            advice=self.chosen_remedy().format(count=count),
        )

    def chosen_remedy(self) -> str:
        """Return what helps."""
        return self.remedy

    @property
    def missing(self) -> int:
        """Rows that the service counted and did not return; negative if it returned more."""
        return self.count - self.received


class ListingUnpaged(IncompleteListing):
    """The service returns the same page for every page number; only a page that holds all rows could be complete."""

    remedy = "Set $page_size to {count} or more, or select fewer rows with filters."


class RepeatedIds(IncompleteListing):
    """The service lists ids more than once, the same in two passes. All its rows were received."""

    remedy = "Set $duplicates to drop, to load each id once."


class WrongCount(IncompleteListing):
    """The service lists more or fewer rows than it counts, the same in two passes, or has rows past its count."""

    remedy = "Report it to the service, or select rows that it counts correctly with filters."
    remedy_for_more: ClassVar[str] = "Set $count to at_least, to load all rows that are listed."

    def chosen_remedy(self) -> str:
        """Return what helps: a count that is too low can be accepted."""
        return self.remedy_for_more if self.missing < 0 else self.remedy


class ListingShrank(LettersError):
    """A listing lost all its rows since the last load, or more than is allowed, so nothing was loaded."""

    exit_code = 4

    def __init__(self, listing: str, before: int, now: int, remedy: str) -> None:
        self.listing, self.before, self.now = listing, before, now
        super().__init__(
            f"{listing}: the service lists {counted(now)} with an id, and the last load had {before}; "
            "nothing was loaded.",
            advice=f"If the others are really gone, {remedy} for one load.",
        )


class SharedIds(LettersError):
    """The service lists the same rows for two accounts, as if it ignored the account, so nothing was loaded."""

    exit_code = 4

    def __init__(
        self, listing: str, accounts: tuple[str, str], shared: int, outcome: str = "; nothing was loaded"
    ) -> None:
        self.listing, self.accounts, self.shared = listing, accounts, shared
        super().__init__(
            f"{listing}: the accounts {' and '.join(accounts)} share {shared} ids on their first pages, so the service "
            f"may ignore the account{outcome}.",
            advice="If they really share them, turn on $allow_shared_ids.",
        )


class ServiceError(LettersError):
    """The service did not answer as documented; `status` is that of its response, None if that is not the reason."""

    exit_code = 5

    def __init__(self, what: str, *, advice: str = "", status: int | None = None) -> None:
        self.status = status
        super().__init__(what, advice=advice)


class ServiceUnreachable(ServiceError):
    """No usable response came within the retry budget; `may_be_size` is set if a smaller page may succeed.

    `status` is that of the last response, None if there was none.
    """

    may_pass = True

    def __init__(self, what: str, *, advice: str = "", may_be_size: bool = False, status: int | None = None) -> None:
        self.may_be_size = may_be_size
        super().__init__(what, advice=advice, status=status)


class ServiceRejected(ServiceError):
    """The service rejected the request with `status`; a retry cannot help (400, 404, 422, a redirect)."""


class MalformedResponse(ServiceError):
    """A response that is not the documented envelope (service-interface 2.1): other contents, size, or 2xx status.

    `transient` is set if the body was not JSON, which a broken connection can cause; `is_too_large` if it was far
    larger than a page.
    """

    def __init__(self, what: str, *, advice: str = "", transient: bool = False, is_too_large: bool = False) -> None:
        self.transient, self.is_too_large = transient, is_too_large
        super().__init__(what, advice=advice)


class UndocumentedFields(ServiceError):
    """The service sent fields, or values, that its documentation does not have, and the settings refuse them."""

    def __init__(self, listing: str, fields: Mapping[str, int]) -> None:
        self.listing, self.fields = listing, fields
        found = ", ".join(f"{name} ({field_times(name, rows)})" for name, rows in fields.items())
        super().__init__(
            f"{listing}: fields that are not documented, or have values that do not fit: {found}; nothing was loaded.",
            advice="Add the names to $known_fields, or set $on_undocumented to warn.",
        )
