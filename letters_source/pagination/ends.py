"""Was the end of a listing seen, whatever its count says, and where is it if the count is a lower bound? Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.errors import ServiceError, WrongCount
from letters_source.pagination.readings import Keep, Reading, When, Window, wanted_keys
from letters_source.pagination.verdicts import incomplete
from letters_source.service.pacing import PageSize
from letters_source.wording import counted

# no listing has more pages
MOST_PAGES = 2**24

Look = Callable[[int], Reading | None]
"""Reads a page that may be past the end, and keeps no rows of it; None if the service refuses it or fails."""


def full_page(rows: int, count: int, asked: int) -> int:
    """Return how many rows a full page has, by the rows on page 0; the only page may have fewer than were asked for."""
    return rows if rows >= asked or 0 < rows < count else asked


@dataclass(frozen=True, slots=True)
class Shown:
    """What was read of a listing that is complete by its counts: responses, and which of their rows to load."""

    readings: Sequence[Reading]
    keep: Keep
    page_size: int


def ends_as_counted(listing: str, shown: Shown, look: Look, *, is_exact: bool) -> bool:
    """Return whether a listing has no rows past those to load; if its end was not seen, look past it.

    Rows there that are loaded do not count: a service may repeat its last page. New rows may have been added
    since. If the count that comes with them leaves them out, and should be exact, it is wrong: raise WrongCount. A
    second look confirms that, as a row can be added after the service counted and before it lists.
    """
    page_size, newest = shown.page_size, max(shown.readings, key=lambda reading: reading.answered)
    # where counts do not tell that a listing has grown, only the newest response shows the end
    if any(shows_end(reading, page_size) for reading in (shown.readings if is_exact else [newest])):
        return True
    page = newest.count // page_size
    past, confirmed = look(page), False
    while past and (new := new_rows(past, wanted_keys(shown.readings, shown.keep))):
        if not is_exact or page * page_size + len(past.keys) <= past.count:
            return False
        if confirmed:
            reason = f"page {page} returned {counted(new, 'new row')} past its count"
            raise incomplete(listing, reason, [*shown.readings, past], WrongCount)
        past, confirmed = look(page), True
    return True


def has_more(look: Look, page_size: int, count: int) -> bool:
    """Return whether a listing has rows past its count, at the cost of one look, or of two if it may have."""
    page = count // page_size
    past = look(page)
    if not past or page * page_size + len(past.keys) <= past.count:
        return False
    return not page or not keys_on(look, page - 1).equals(past.keys)


def shows_end(reading: Reading, page_size: int) -> bool:
    """Return whether a page is not full, and ends where its own count says."""
    size, rows = reading.size or page_size, len(reading.keys)
    return rows < size and reading.page * size + rows == reading.count


def new_rows(past: Reading, known: pa.ChunkedArray) -> int:
    """Return how many rows of a page are not known."""
    return len(past.keys) - int(pc.sum(pc.is_in(past.keys, value_set=known)).as_py() or 0)


@dataclass(slots=True)
class SeenEnd:
    """Finds the end of a listing whose count is a lower bound; responses then have the number of rows up to there."""

    listing: str
    look: Look
    asked: PageSize
    rows: int = 0
    page_size: int = 0
    passes: int = 0
    stated: int | None = None  # the service's own count, if it was lower at the last look

    def counted(self, reading: Reading) -> Reading:
        """Return a response with the number of rows seen in place of a lower count; page 0 comes first, and alone."""
        rows = len(reading.keys)
        when: When = "earlier"
        if reading.window == Window(0):
            self.page_size = full_page(rows, reading.count, self.asked.rows)
            least = max(reading.count, rows, self.rows)
            self.rows = find_end(self.listing, self.look, self.page_size, least) if rows == self.page_size else rows
            # the end may have been found after other pages of this pass were read
            self.stated, self.passes, when = None, reading.walk, "earlier" if reading.walk == self.passes else "after"
        else:
            self._move_end(reading)
        if reading.count < self.rows:
            self.stated = reading.count
        seen = replace(reading, count=max(reading.count, self.rows), counted=when)
        return replace(seen, counted="then") if shows_end(seen, self.page_size) else seen

    def _move_end(self, reading: Reading) -> None:
        """Move the end if a page has rows past it, or shows that it comes earlier.

        If a page past the end is full, there may be more rows, so at least one more is expected.
        """
        size, rows = reading.size or self.page_size, len(reading.keys)
        begin, end = reading.page * size, reading.page * size + rows
        if rows and end > self.rows:
            self.rows = end + (rows == size)
        elif rows and begin < self.rows <= begin + size and rows < size:
            self.rows = end


def find_end(listing: str, look: Look, page_size: int, least: int) -> int:
    """Return how many rows a listing has if it has at least so many: steps that double pass its end, then bisection.

    Past its end, a service may answer with an empty page, with an error, or with the last page again.
    """
    page, step = least // page_size, 1
    keys = keys_on(look, page)
    if page * page_size + len(keys) <= least:
        return page * page_size + len(keys)
    while len(past := keys_on(look, page + step)) and not past.equals(keys):
        page, step, keys = page + step, 2 * step, past
        if step > MOST_PAGES:
            raise ServiceError(f"{listing}: page {page} still has rows; the listing seems to have no end.")
    # of pages that repeat, the first is the last of the listing
    low, high = (-1 if len(past) else page), page + step
    while high - low > 1:
        middle = (low + high) // 2
        found = keys_on(look, middle)
        if found.equals(past):
            high = middle
        else:
            low, keys = middle, found
    return high * page_size + len(past) if len(past) else low * page_size + len(keys)


def keys_on(look: Look, page: int) -> pa.Array:
    """Return the keys on a page; none if the service does not answer it."""
    reading = look(page)
    return reading.keys if reading else pa.array([], pa.string())
