"""Different rows have different hashes; the same row always has the same."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from letters_source.tables import (
    CONTACTS,
    CONTACTS__CONTACT_LABELS,
    CONTACTS__RETURN_ADDRESSES,
    MAILINGS,
    TABLES,
    TEMPLATES__PRODUCT,
    UNDOCUMENTED,
    Column,
    ColumnKind,
    Mode,
    Table,
)
from letters_source.transform.row_hash import ROW_HASH, hash_text, listed_rows, row_texts, with_hash

KEYED = [table for table in TABLES if table.key and table.origin != "dates"]
VERSIONED: tuple[Mode, ...] = ("sync", "history")

# few and similar, so that a text that lacks a part of its row would soon occur twice; they include what a null or a
# separator might be mistaken for
TEXTS = st.sampled_from(["", "a", "b", "aa", "\x00", "\xff", "\xfe", "ÿþ", "\ufffd", "null", "None", ",", "true", "1"])
VALUES: dict[ColumnKind, st.SearchStrategy[Any]] = {
    "text": TEXTS | st.text(max_size=3),
    "json": TEXTS,
    "bool": st.booleans(),
    "bigint": st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1),
    "double": st.sampled_from([0.0, 0.5, 1.0]),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
}
SAMPLES: dict[ColumnKind, tuple[Any, Any]] = {
    "text": ("a", "b"),
    "json": ('{"a": 1}', '{"a": 2}'),
    "bool": (True, False),
    "bigint": (1, 2),
    "double": (1.0, 2.0),
    "date": (date(2024, 1, 1), date(2024, 1, 2)),
    "timestamp": (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
}


def row_of(table: Table) -> st.SearchStrategy[dict[str, Any]]:
    """Any row of a table."""
    return st.fixed_dictionaries({column.name: value_of(column) for column in table.columns})


def value_of(column: Column) -> st.SearchStrategy[Any]:
    """Any value of a column."""
    return st.none() | VALUES[column.kind] if column.nullable else VALUES[column.kind]


def full_row(table: Table) -> dict[str, Any]:
    """A row with a value in each column."""
    return {column.name: SAMPLES[column.kind][0] for column in table.columns}


def arrow(table: Table, *rows: dict[str, Any]) -> pa.Table:
    """Rows as the table's Arrow table."""
    return pa.Table.from_pylist(list(rows), table.schema)


def hashes(rows: pa.Table, table: Table, mode: Mode) -> list[str]:
    """The rows' hashes."""
    found: list[str] = with_hash(rows, table, mode)[ROW_HASH.name].to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@settings(max_examples=20)
@given(data=st.data())
def test_different_rows_have_different_texts(table: Table, data: st.DataObject) -> None:
    """Two rows have the same text only where all their values are the same."""
    one, other = data.draw(row_of(table)), data.draw(row_of(table))
    first, second = row_texts(arrow(table, one, other))
    assert (first == second) == (one == other)


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_that_changes_its_column_changes_the_text(data: st.DataObject) -> None:
    """Values of a row that trade places, or of which one takes characters from another, make another text."""
    texts = data.draw(st.lists(st.none() | TEXTS, min_size=2, max_size=4))
    moved = data.draw(st.permutations(texts))
    assume(texts != moved)
    table = pa.table(
        {str(number): pa.array(pair, pa.string()) for number, pair in enumerate(zip(texts, moved, strict=True))}
    )
    assert len(set(row_texts(table))) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, "a"), ("a", None)),
        ((None, ""), ("", None)),
        ((None, None), ("", "")),
        (("a", ""), ("", "a")),
        (("ab", "c"), ("a", "bc")),
        (("a\xff", "b"), ("a", "\xffb")),
        (("\xfe", "a"), (None, "a")),
        (("null", "a"), (None, "a")),
    ],
)
def test_nulls_empty_texts_and_separators_are_distinguished(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Bytes that no text holds stand for null, and between values."""
    table = pa.table(
        {str(number): pa.array(pair, pa.string()) for number, pair in enumerate(zip(one, other, strict=True))}
    )
    first, second = row_texts(table)
    assert first != second


@pytest.mark.parametrize("mode", VERSIONED)
@pytest.mark.parametrize("table", KEYED, ids=lambda table: table.name)
def test_a_change_in_any_column_changes_the_hash_but_undocumented_in_history(table: Table, mode: Mode) -> None:
    """A change in any column changes the hash, but not one of undocumented values in history."""
    row = full_row(table)
    changed = [row | {column.name: SAMPLES[column.kind][1]} for column in table.columns]
    first, *others = hashes(arrow(table, row, *changed), table, mode)
    unnoticed = [column for column, other in zip(table.columns, others, strict=True) if other == first]
    assert unnoticed == [column for column in table.columns if mode == "history" and column is UNDOCUMENTED]


@pytest.mark.parametrize("mode", VERSIONED)
@pytest.mark.parametrize("table", KEYED, ids=lambda table: table.name)
def test_a_value_that_becomes_null_changes_the_hash(table: Table, mode: Mode) -> None:
    """A null in any column changes the hash, and so does an empty text in its place, each in another way."""
    row = full_row(table)
    nullable = [column for column in table.columns if column.nullable and column is not UNDOCUMENTED]
    gone = [row | {column.name: None} for column in nullable]
    empty = [row | {column.name: ""} for column in nullable if column.kind in ("text", "json")]
    found = hashes(arrow(table, row, *gone, *empty), table, mode)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("mode", VERSIONED)
def test_the_order_of_columns_is_that_of_the_table(mode: Mode) -> None:
    """Rows whose columns come in another order have the same hash."""
    rows = arrow(CONTACTS, full_row(CONTACTS))
    turned = rows.select(rows.schema.names[::-1])
    assert hashes(turned, CONTACTS, mode) == hashes(rows, CONTACTS, mode)


def test_hashes_are_those_of_earlier_releases() -> None:
    """A row's hash is that of earlier releases, or every version in a user's history would end."""
    label = {"contact_id": "7", "position": 0, "id": "15", "title": None, "undocumented": '{"a": 1}'}
    contact = full_row(CONTACTS) | {"is_verified": None, "address2": ""}
    assert hashes(arrow(CONTACTS__CONTACT_LABELS, label), CONTACTS__CONTACT_LABELS, "history") == [
        hash_text(b"7\xff0\xff15\xff\xfe")
    ]
    assert hashes(arrow(CONTACTS__CONTACT_LABELS, label), CONTACTS__CONTACT_LABELS, "sync") == [
        hash_text(b'7\xff0\xff15\xff\xfe\xff{"a": 1}')
    ]
    assert row_texts(arrow(CONTACTS, contact)) == [
        b"\xff".join([b"a"] * 6 + [b""] + [b"a"] * 8 + [b"\xfe", b"true", b"1704067200000000", b'{"a": 1}'])
    ]
    assert hash_text(b"7\xff0\xff15\xff\xfe") == "3bc039a0434982c8cf4d4ca854a9fca3"


@pytest.mark.slow
@pytest.mark.parametrize("mode", VERSIONED)
@pytest.mark.parametrize(
    "table", [CONTACTS, CONTACTS__CONTACT_LABELS, CONTACTS__RETURN_ADDRESSES], ids=lambda t: t.name
)
@settings(max_examples=10)
@given(data=st.data())
def test_slices_and_chunks_do_not_matter(table: Table, mode: Mode, data: st.DataObject) -> None:
    """A row has one hash, wherever in a table, a slice or a table of many chunks it lies."""
    rows = data.draw(st.lists(row_of(table), min_size=1, max_size=6))
    start = data.draw(st.integers(0, len(rows)))
    whole = arrow(table, *rows)
    chunked = pa.concat_tables([whole.slice(0, start), whole.slice(start)])
    uneven = chunked.set_column(0, whole.schema.field(0), whole[0].combine_chunks())
    alone = [hashes(arrow(table, row), table, mode)[0] for row in rows]
    assert hashes(whole, table, mode) == alone
    assert hashes(chunked, table, mode) == hashes(uneven, table, mode) == alone
    assert hashes(whole.slice(start), table, mode) == alone[start:]


@pytest.mark.parametrize("mode", VERSIONED)
@pytest.mark.parametrize("table", KEYED, ids=lambda table: table.name)
def test_an_empty_table_gets_the_column_too(table: Table, mode: Mode) -> None:
    """A table without rows gets the column of hashes, with chunks or without."""
    empty = table.schema.empty_table()
    without_chunks = pa.Table.from_arrays(
        [pa.chunked_array([], field.type) for field in table.schema], schema=table.schema
    )
    for rows in (empty, without_chunks, arrow(table, full_row(table)).slice(1)):
        hashed = with_hash(rows, table, mode)
        assert hashed.num_rows == 0
        assert hashed.schema == table.schema.append(pa.field("row_hash", pa.string(), nullable=False))


@pytest.mark.parametrize("mode", VERSIONED)
def test_the_rows_stay_as_they_are(mode: Mode) -> None:
    """The hash is a column of 32 hexadecimal digits behind the others, which stay as they are."""
    rows = arrow(TEMPLATES__PRODUCT, full_row(TEMPLATES__PRODUCT))
    hashed = with_hash(rows, TEMPLATES__PRODUCT, mode)
    assert hashed.drop_columns(["row_hash"]) == rows
    [found] = hashed["row_hash"].to_pylist()
    assert len(bytes.fromhex(found)) == 16


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
        (r'{"a": "\u00e9", "b": "\ud800"}', r'{"b": "\ud800", "a": "é"}'),
        (r'{"a": {"c": null, "b": 1}}', r'{"a":{"b":1,"c":null}}'),
    ],
)
def test_history_hashes_values_of_json_and_sync_its_text(text: str, other: str) -> None:
    """Equal JSON has equal hashes in history, whatever its keys' order, spaces and escapes."""
    rows = arrow(TEMPLATES__PRODUCT, *({**full_row(TEMPLATES__PRODUCT), "meta": each} for each in (text, other)))
    found = {mode: len(set(hashes(rows, TEMPLATES__PRODUCT, mode))) for mode in VERSIONED}
    assert found == {"sync": 2, "history": 1}


def test_what_is_replaced_has_no_hash() -> None:
    """Rows of a table that is replaced come back uncopied, without a hash."""
    rows = arrow(MAILINGS, full_row(MAILINGS))
    assert with_hash(rows, MAILINGS, "replace") is rows


@pytest.mark.parametrize("table", [table for table in KEYED if table.origin != "row"], ids=lambda table: table.name)
def test_a_row_that_stands_for_a_listed_parent_has_the_table_s_columns(table: Table) -> None:
    """A row that stands for a listed parent has its key, the values that must not be null, and no hash."""
    [row] = listed_rows(pa.chunked_array([["7"]]), table).to_pylist()
    fillings = {"position": -1, "address_status": "", "last_mailed_status": "", "is_shared": False}
    others = {column.name: fillings.get(column.name) for column in table.columns[1:]}
    assert row == {table.key[0]: "7", **others, "row_hash": "listed"}
    rows = with_hash(arrow(table, full_row(table)), table, "history")
    assert listed_rows(pa.chunked_array([["7"]]), table).schema == rows.schema
