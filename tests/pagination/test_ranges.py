"""Ranges are planned to overlap, linked and repaired, and judged by their evidence."""

import random
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pytest

from letters_source.pagination.chain import evidence_of, read_range
from letters_source.pagination.coding import Coded, count_displaced
from letters_source.pagination.evidence import Evidence, Listed, Range, find_fault
from letters_source.pagination.ranges import mend, plan_ranges
from letters_source.pagination.readings import NUL, Reading, Window
from letters_source.pagination.windows import NotContinuous
from simulated_service import ConcurrentReader, Drift, Scenario, SimulatedService


@pytest.mark.parametrize(
    ("rows", "parts", "offsets"),
    [
        (0, 3, [(0, None)]),
        (100, 3, [(0, None)]),
        (101, 2, [(0, 150), (100, None)]),
        (1_000, 3, [(0, 450), (400, 850), (800, None)]),
        (1_000, 1, [(0, None)]),
    ],
)
def test_a_plan_has_ranges_of_whole_pages_that_overlap(
    rows: int, parts: int, offsets: list[tuple[int, int | None]]
) -> None:
    """Planned ranges reach half a page into the next one, and the last one to the end of the listing."""
    assert [(each.start, each.stop) for each in plan_ranges(rows, 100, parts)] == offsets


def test_plans_and_evidence_are_json() -> None:
    """Plans and evidence are the same after they were encoded as JSON and decoded."""
    scenario = Scenario(Drift("insert", "front", 0.2), "continuous", 1, rows=1_997, page_size=50)
    rng = random.Random(scenario.seed)
    service = SimulatedService(scenario, rng)
    service.fill(scenario.rows)
    reader = ConcurrentReader(service, 4, rng)
    plan = plan_ranges(scenario.rows, 50, 3)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=list[Range]) == plan
    evidence = evidence_of(read_range(reader.read, plan[1], 1), None)
    assert msgspec.json.decode(msgspec.json.encode(evidence), type=Evidence) == evidence


def test_evidence_does_not_hold_the_texts_of_rows_without_an_id() -> None:
    """Evidence has a digest instead of the text of a row without an id, which may be personal."""
    text = NUL + '{"name": "Ada"}'

    def read(windows: Iterable[Window], number: int) -> Iterator[Reading]:
        for window in windows:
            yield Reading(window.page, number, 2, pa.array(["1", text]), 1, 0, 1, window.size)

    evidence = evidence_of(read_range(read, Range(0, None, 50, 2), 1), None)
    assert b"Ada" not in msgspec.json.encode(evidence)
    assert [key[:1] for key in evidence.first.keys] == ["1", NUL]


def shown(keys: str) -> Reading:
    """A response with these keys."""
    return Reading(0, 1, 9, pa.array(list(keys)), 0, 0, 1)


def one(keys: str, page: int = 0, size: int = 4, *, total: int = 6) -> Evidence:
    """The evidence of a range of one window with these keys."""

    def read(windows: Iterable[Window], number: int) -> Iterator[Reading]:
        for _ in windows:
            yield Reading(page, number, total, pa.array(list(keys), pa.string()), 0, 0, 1, size)

    part = Range(page * size, page * size + 1, size, total, 0)
    return evidence_of(read_range(read, part, 1), None)


MISSING = "it counts 1 row that no page returned, and its count grew by only 0"
EXTRA = "it shows 1 row more than it counts, and nothing changed"
MOVED = "its rows changed order or are listed twice"


@pytest.mark.parametrize(
    ("front", "ranges", "rows", "fault"),
    [
        (one("abcd"), [one("abcd"), one("def", 1, 3)], 6, None),
        (one("abcd", total=7), [one("abcd"), one("def", 1, 3)], 6, None),
        (one("abcd"), [one("abcd"), one("def", 1, 3, total=7)], 6, None),
        (one("abcd", total=7), [one("abcd", total=7), one("def", 1, 3, total=7)], 6, MISSING),
        (one("abcd", total=5), [one("abcd", total=5), one("def", 1, 3, total=5)], 6, EXTRA),
        (one("abcd", total=5), [one("abcd"), one("def", 1, 3)], 6, None),
        (one("abcd"), [one("abcd"), one("dca", 1, 3)], 6, f"{MOVED}, for example d"),
        (
            one("abcd", total=8),
            [one("abcd", total=8), one("abcd", 1, total=8)],
            4,
            "page 1 (page size 4) repeats page 0 (page size 4)",
        ),
        (one("abcd", total=8), [one("abcd", total=4), one("abcd", 1, total=8)], 4, None),
        (one("", total=0), [], 0, None),
        (one("ab", total=2), [], 1, "it counts 1 row that no page returned, and its count grew by only 0"),
    ],
)
def test_ranges_are_judged_by_their_evidence(
    front: Evidence, ranges: list[Evidence], rows: int, fault: str | None
) -> None:
    """Missing rows need a count that grew, further rows a change, and no row may be in windows far apart."""
    assert find_fault([front, *ranges], Listed(rows, 0)) == fault


def test_a_row_that_is_in_ranges_far_apart_has_moved() -> None:
    """A row in two ranges that are not neighbors has moved."""
    for last, displaced in (([shown("ef")], 0), ([shown("efb"), shown("ab")], 2)):
        ranges = [[shown("abc")], [shown("cde")], last]
        assert count_displaced(ranges, Coded.of(one for readings in ranges for one in readings)) == displaced
    assert find_fault([one("abcd"), one("abcd"), one("def", 1, 3)], Listed(6, 1)) == MOVED


def test_ranges_without_shared_rows_are_repaired() -> None:
    """Ranges that share no rows are linked by reading the rows between them, and as far as rows may have moved."""
    asked: list[Range] = []

    def read(ranges: Sequence[Range]) -> list[Evidence]:
        asked.extend(ranges)
        return [one("cdefg", 1, 2) for _ in ranges]

    linked = mend(read, [one("abcd", total=8), one("fghi", 1, 5, total=9)])
    assert ["".join(each.first.keys) for each in linked] == ["abcd", "cdefg", "fghi"]
    assert asked == [Range(0, 5, 4, 9, 0, 64)]


def test_ranges_that_cannot_be_linked_are_refused() -> None:
    """Ranges that cannot be linked are refused after a bounded number of rounds."""
    with pytest.raises(NotContinuous, match=r"^its rows shifted faster than overlapping pages could follow$"):
        mend(lambda ranges: [one("vwxy") for _ in ranges], [one("abcd"), one("efg", 1, 3)])
