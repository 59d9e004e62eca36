"""How many rows to request per page: as set, or many at first, and fewer if such pages fail. Pure."""

from typing import Literal

from letters_source.errors import LettersError, MalformedResponse, ServiceRejected, ServiceUnreachable

Rows = int | Literal["auto"]
"""A number of rows, or `auto`: one that the service can deal with."""
LARGE, SMALL = 1_000, 100
# bad request, content too large, URI too long, unprocessable content (RFC 9110, 15.5)
REFUSALS = frozenset({400, 413, 414, 422})


class PageSize:
    """The page size of a listing; all tasks of a load that read it share one."""

    def __init__(self, setting: Rows) -> None:
        self.rows = LARGE if setting == "auto" else setting
        self._may_shrink = setting == "auto"

    def shrink(self, error: LettersError) -> bool:
        """Request fewer rows from now on, once, if that may help against an error; return whether it may."""
        if not self._may_shrink or not is_about_size(error):
            return False
        self.rows, self._may_shrink = SMALL, False
        return True


def is_about_size(error: LettersError) -> bool:
    """Return whether a service that fails so may answer a request for fewer rows."""
    match error:
        case ServiceRejected():
            return error.status in REFUSALS
        case ServiceUnreachable():
            return error.is_late
        case MalformedResponse():
            return error.is_too_large
    return False
