"""Coded keys: which rows are the same, and which are repeated."""

import pyarrow as pa

from letters_source.pagination.coding import PART_ROWS, Coded, code_keys, newest_rows
from letters_source.pagination.readings import NUL, Reading


def reading(keys: str, answered: int = 0) -> Reading:
    """A response with a key for each letter; a dot is a row without an id."""
    rows = [key.replace(".", f"{NUL}.") for key in keys]
    return Reading(0, 1, 9, pa.array(rows, pa.string()), keys.count("."), answered, answered)


def test_many_keys_are_coded_in_parts() -> None:
    """Keys are equal if their numbers are, also keys of one character or none, and those of slices."""
    number = PART_ROWS + 50_000
    keys = [*map(str, range(number)), ""]
    pages = [pa.array(["skipped", *keys]).slice(1), pa.array(keys[::-1]), pa.array([], pa.string())]
    (codes, again, none), size = code_keys(pages)
    assert (size, len(set(codes.tolist())), len(none)) == (number + 1, number + 1, 0)
    assert codes.tolist() == again.tolist()[::-1]


def test_nothing_is_coded() -> None:
    """Without readings, or with empty ones, there are no keys."""
    assert Coded.of([]).size == Coded.of([reading("")]).size == 0


def test_repeated_keys() -> None:
    """A key is repeated if it is twice in one reading or in two, and a row without an id is no id."""
    readings = [reading("abb."), reading("cda.")]
    coded = Coded.of(readings)
    letters = dict(zip(coded.codes(readings[0]).tolist(), "abb.", strict=True))
    assert [letters[code] for code in coded.repeated(map(coded.codes, readings)).tolist()] == ["a", "b", "."]
    assert [letters[code] for code in coded.repeated(map(coded.ids, readings)).tolist()] == ["a", "b"]


def test_the_newest_of_repeated_rows() -> None:
    """Of rows with one key, the last of the newest reading stays; the other keys are not touched."""
    readings = [reading("abb", 2), reading("bca", 1)]
    masks = newest_rows(readings, Coded.of(readings))
    assert [mask.tolist() for mask in masks] == [[True, False, True], [False, True, False]]
