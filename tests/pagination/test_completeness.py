"""What responses prove; the fast check agrees with one on plain sets."""

from collections.abc import Sequence
from itertools import compress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from letters_source.pagination.coding import Coded, distinct_rows
from letters_source.pagination.completeness import Certificate, Spans, certify, is_stable
from letters_source.pagination.readings import NUL, Reading


def reading(keys: Sequence[str], count: int, asked: int, answered: int | None = None, page: int = 0) -> Reading:
    """A response; by default it arrives one tick after its request."""
    rejected = sum(key.startswith(NUL) for key in keys)
    ticks = asked, asked + 1 if answered is None else answered
    return Reading(page, 1, count, pa.array(keys, pa.string()), rejected, *ticks)


def shown(one: Reading) -> list[str]:
    """The keys of a response."""
    return [str(key) for key in one.keys.to_pylist()]


def kept(readings: Sequence[Reading], certificate: Certificate) -> list[tuple[int, int, str]]:
    """The reading, position and key of each row that a certificate keeps."""
    rows = zip(readings, certificate.keep, strict=True)
    return [
        row
        for index, (one, mask) in enumerate(rows)
        for row in compress([(index, place, key) for place, key in enumerate(shown(one))], mask)
    ]


def stable(walk: Sequence[Reading], recheck: Sequence[Reading], before: Sequence[Reading] = ()) -> bool:
    """Whether a walk is stable, by its own keys."""
    return is_stable(walk, recheck, before, Coded.of(walk))


TWO_PAGES = [reading("ab", 3, 0, page=0), reading("c", 3, 2, page=1)]
FENCE = [reading("ab", 3, 4, page=0), reading("c", 3, 6, page=1)]


def test_a_walk_is_stable_when_nothing_moved() -> None:
    """A walk is stable if all responses have one count, as many distinct keys, and the same first and last page."""
    assert stable(TWO_PAGES, FENCE)
    assert stable([reading("ab", 2, 0)], [])
    assert stable([reading("", 0, 0)], [])


@pytest.mark.parametrize(
    "recheck",
    [
        [reading("ab", 3, 4, page=0), reading("c", 4, 6, page=1)],
        [reading("ba", 3, 4, page=0), reading("c", 3, 6, page=1)],
        [reading("ab", 3, 4, page=0), reading("d", 3, 6, page=1)],
        [reading("ab", 3, 4, page=0), reading("", 3, 6, page=1)],
        [reading("ab", 3, 4, page=0), reading("c", 3, 6, page=2)],
    ],
    ids=["count", "order", "key", "row gone", "page never read"],
)
def test_a_walk_with_a_changed_recheck_is_not_stable(recheck: list[Reading]) -> None:
    """Another count, order or key in the recheck, or a page that the walk lacks, is a change."""
    assert not stable(TWO_PAGES, recheck)


@pytest.mark.parametrize(
    "walk",
    [
        [reading("ab", 3, 0), reading("c", 4, 2, page=1)],
        [reading("ab", 4, 0), reading("c", 4, 2, page=1)],
        [reading("ab", 2, 0), reading("c", 2, 2, page=1)],
        [reading("ab", 3, 0), reading("b", 3, 2, page=1)],
        [reading("ab", 2, 0), reading("b", 2, 2, page=1)],
    ],
    ids=["two counts", "too few", "too many", "repeated key", "repeated key beyond the count"],
)
def test_a_walk_whose_rows_do_not_add_up_is_not_stable(walk: list[Reading]) -> None:
    """A walk is not stable unless its count equals the number of rows and of distinct keys."""
    assert not stable(walk, [])


def test_rows_without_an_id_count_one_each() -> None:
    """Equal rows without an id are different rows; equal ids are one."""
    walk = [reading(["a", NUL + "{}"], 4, 0), reading([NUL + "{}", "b"], 4, 2, page=1)]
    assert distinct_rows(walk) == 4
    assert stable(walk, [], walk)
    assert distinct_rows([*walk, reading("ab", 4, 4)]) == 4
    assert distinct_rows([reading("", 0, 0)]) == 0


def test_a_row_without_an_id_that_two_pages_show_takes_two_equal_walks() -> None:
    """A row without an id on two pages makes a walk unstable without an equal walk before, as it may have moved."""
    walk = [reading(["a", NUL + "{}"], 4, 0), reading([NUL + "{}", "b"], 4, 2, page=1)]
    moved = [reading(["a", "c"], 4, 0), reading([NUL + "{}", "b"], 4, 2, page=1)]
    assert not stable(walk, [])
    assert not stable(walk, [], moved)
    assert not stable(walk, [], walk[:1])
    assert stable(moved, [], walk)
    one_page = [reading(["a", NUL + "{}", NUL + "{}"], 3, 0)]
    assert stable(one_page, [])


@pytest.mark.parametrize("keys", ["", "a", "abc"])
def test_a_response_with_as_many_rows_as_its_count_certifies_itself(keys: str) -> None:
    """One page with all rows is the listing at its moment."""
    certificate = certify(Coded.of([reading(keys, len(keys), 0)]))
    assert certificate is not None
    assert (certificate.at, [mask.tolist() for mask in certificate.keep]) == (0, [[True] * len(keys)])


@pytest.mark.parametrize(("keys", "count"), [("ab", 3), ("ab", 1), ("aa", 2), ("", 1)])
def test_a_response_whose_keys_are_not_its_count_certifies_nothing(keys: str, count: int) -> None:
    """A response with more or fewer keys than its count, or a repeated key, proves nothing."""
    assert certify(Coded.of([reading(keys, count, 0)])) is None


def test_a_key_shown_before_and_after_a_response_existed_at_it() -> None:
    """A key shown before and after a response counts as one of its rows."""
    readings = [reading("b", 9, 0), reading("a", 2, 2), reading("b", 9, 4)]
    certificate = certify(Coded.of(readings))
    assert certificate is not None
    assert certificate.at == 1
    assert kept(readings, certificate) == [(1, 0, "a"), (2, 0, "b")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [reading("b", 9, 4)]),
        ([reading("b", 9, 0)], []),
        ([reading("b", 9, 0, answered=3)], [reading("b", 9, 6)]),
        ([reading("b", 9, 0)], [reading("b", 9, 4, answered=6)]),
        ([reading("b", 9, 1, answered=6)], []),
        ([reading("b", 9, 3, answered=4)], []),
    ],
    ids=["after", "before", "under way when asked", "asked before the answer", "around", "within"],
)
def test_a_key_not_shown_on_both_sides_of_a_response_does_not_count(
    before: list[Reading], after: list[Reading]
) -> None:
    """A key counts only if requests that do not overlap in time show it before and after a response."""
    assert certify(Coded.of([*before, reading("a", 2, 2, answered=5), *after])) is None


def test_the_newest_certificate_is_taken() -> None:
    """Of two responses that prove a listing, the later answer is used, in whatever order they are given."""
    early, late = reading("ab", 2, 0), reading("bc", 2, 2)
    first, second = certify(Coded.of([early, late])), certify(Coded.of([late, early]))
    assert first is not None
    assert second is not None
    assert (first.at, kept([early, late], first)) == (1, [(1, 0, "b"), (1, 1, "c")])
    assert (second.at, kept([late, early], second)) == (0, [(0, 0, "b"), (0, 1, "c")])


def test_the_last_reading_of_a_key_is_kept() -> None:
    """A row that was read more than once comes from the latest answer, even one after the certificate."""
    overtaken, overtaking = reading("bc", 9, 4, answered=9), reading("b", 9, 5, answered=8)
    readings = [reading("ab", 3, 0), reading("ca", 3, 2), overtaken, overtaking]
    certificate = certify(Coded.of(readings))
    assert certificate is not None
    assert certificate.at == 1
    assert kept(readings, certificate) == [(1, 1, "a"), (2, 0, "b"), (2, 1, "c")]


def test_a_key_twice_in_a_response_is_kept_once() -> None:
    """Of equal keys in one response the last is kept."""
    readings = [reading("aba", 2, 0)]
    certificate = certify(Coded.of(readings))
    assert certificate is not None
    assert kept(readings, certificate) == [(0, 1, "b"), (0, 2, "a")]


@st.composite
def histories(draw: st.DrawFn) -> list[Reading]:
    """A few responses, concurrent or sequential, with a few keys and counts."""
    size = draw(st.integers(1, 7))
    ticks = draw(st.permutations(range(2 * size)))
    spans = [sorted(ticks[index : index + 2]) for index in range(0, 2 * size, 2)]
    keys, counts = st.text("abcde", max_size=4), st.integers(0, 6)
    return [reading(draw(keys), draw(counts), asked, answered) for asked, answered in spans]


def members(readings: list[Reading], at: Reading) -> set[str]:
    """The keys shown at a response or both before and after it, as plain sets."""
    before = {key for one in readings if one.answered < at.asked for key in shown(one)}
    after = {key for one in readings if one.asked > at.answered for key in shown(one)}
    return before & after | set(shown(at))


def proofs(readings: list[Reading]) -> set[int]:
    """Every response that has as many members as its count."""
    return {index for index, one in enumerate(readings) if len(members(readings, one)) == one.count}


def last_shown(readings: list[Reading], key: str) -> tuple[int, int, str]:
    """The reading and position of a key in the latest answer with it."""
    index, one = max(
        ((index, one) for index, one in enumerate(readings) if key in shown(one)),
        key=lambda pair: pair[1].answered,
    )
    return index, max(place for place, other in enumerate(shown(one)) if other == key), key


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(histories())
def test_no_response_that_proves_a_set_is_left_out(readings: list[Reading]) -> None:
    """The fast choice of candidates finds every certificate that trying all responses finds."""
    candidates = Spans.of(Coded.of(readings)).candidates()
    assert proofs(readings) <= set(candidates)
    assert candidates == sorted(set(candidates), key=lambda index: -readings[index].answered)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(histories())
def test_a_certificate_is_that_of_plain_sets(readings: list[Reading]) -> None:
    """A certificate is the newest proof, and keeps the last reading of each member, as plain sets find them."""
    certificate = certify(Coded.of(readings))
    newest = max(proofs(readings), key=lambda index: readings[index].answered, default=None)
    assert (certificate and certificate.at) == newest
    if certificate is not None:
        expected = {last_shown(readings, key) for key in members(readings, readings[certificate.at])}
        assert kept(readings, certificate) == sorted(expected)
