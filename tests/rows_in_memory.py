"""A stand-in for a client that takes pages from rows in memory, without HTTP and without the emulator."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from letters_source.errors import LettersError
from letters_source.service.page_request import Decode, PageRequest, T
from pages import page_of

Rows = Sequence[str | dict[str, Any]]
"""Rows of a listing; text is the id of a row that has only an id."""


@dataclass(slots=True)
class RowsInMemory:
    """Answers requests by their filters: with a page of the listed rows, or with an error.

    Filters are written as in `isShared=true&meta.account_id=7`, or as in `templates?meta.account_id=7` for one listing
    only. Those that are not listed are ignored: the rows are those without filters.
    """

    listed: dict[str, Rows | LettersError]
    surplus: int = 0  # how many more rows are counted than listed
    before_answer: Callable[[int], None] | None = None  # called with the number of the request, from 1 on
    asked: list[PageRequest] = field(default_factory=list)
    traffic: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    @property
    def queries(self) -> list[str]:
        """The filters of each request."""
        return [text_of(request.filters) for request in self.asked]

    @property
    def windows(self) -> list[tuple[int, int]]:
        """The page and the page size of each request."""
        return [(request.page, request.page_size) for request in self.asked]

    def get(self, request: PageRequest, decode: Decode[T]) -> T:
        """See `Client.get`."""
        self.asked.append(request)
        self.traffic["requests"] += 1
        if self.before_answer:
            self.before_answer(len(self.asked))
        query = text_of(request.filters)
        known = (name for name in (f"{request.listing.name}?{query}", query) if name in self.listed)
        answer = self.listed[next(known, "")]
        if isinstance(answer, LettersError):
            raise answer
        start = request.page * request.page_size
        rows = ({"id": row} if isinstance(row, str) else row for row in answer[start:][: request.page_size])
        return decode(page_of(*rows, count=len(answer) + self.surplus), request.listing.name, request.page)


def text_of(filters: Mapping[str, str]) -> str:
    """The filters of a request as text."""
    return "&".join(f"{name}={value}" for name, value in filters.items())
