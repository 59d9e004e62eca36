"""Measures decoding of a page, clean and with surprises.

    python tests/benchmarks/decode_pages.py

It prints microseconds a page, as JSON.
"""

import json
from collections.abc import Callable
from itertools import count
from statistics import median
from time import perf_counter

import orjson

from letters_source.decode.page import decode_page
from letters_source.emulator import Emulator

ROWS, ROUNDS, PAGES_A_ROUND = 1000, 15, 5
MIXED = (7, "seven", {"seven": 7}, [7], True, None)

# what each row holds as the undocumented field `surprise`
SURPRISES: dict[str, Callable[[int], object]] = {
    "an undocumented scalar in every row": lambda row: row,
    "an undocumented object in every row": lambda row: {"score": row, "source": "import"},
    "an undocumented array in every row": lambda row: [row, row + 1],
    "an undocumented field of mixed types": lambda row: MIXED[row % len(MIXED)],
}


def main() -> None:
    """Decode the pages in turn, so that the machine's variations affect all of them."""
    pages = build_pages()
    taken: dict[str, list[float]] = {name: [] for name in pages}
    for _ in range(ROUNDS):
        for name, body in pages.items():
            taken[name].append(time_page(body))
    print(json.dumps({name: median(times) for name, times in taken.items()}))


def build_pages() -> dict[str, bytes]:
    """A clean page of contacts, and the same rows with something in them that is not documented."""
    rows = [row.document for row in Emulator(ROWS, 0).contacts.rows()]
    surprising = {
        name: [{**row, "surprise": make(number)} for number, row in zip(count(), rows, strict=False)]
        for name, make in SURPRISES.items()
    }
    # in the last row, which is found last
    misfit = [*rows[:-1], {**rows[-1], "isLiveMode": "yes"}]
    pages = {"clean": rows, **surprising, "one value of another type than documented": misfit}
    return {name: envelope(page) for name, page in pages.items()}


def envelope(rows: list[dict[str, object]]) -> bytes:
    """The body of a page."""
    return orjson.dumps({"message": "Success", "data": {"count": len(rows), "rows": rows}})


def time_page(body: bytes) -> float:
    """Microseconds to decode a page, the mean of a few."""
    start = perf_counter()
    for _ in range(PAGES_A_ROUND):
        decode_page(body, "contacts", 0)
    return (perf_counter() - start) / PAGES_A_ROUND * 1e6


if __name__ == "__main__":
    main()
