"""Undocumented values stay out of the typed columns and are not lost.

Each load is of the usual 40 contacts and one more; the next load, without it, must go as if nothing had been.
"""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from holdings import COLUMNS, LISTED, held_tables, query, typed_columns
from refusals import CONTACTS, refused
from worlds import Begin, World

from letters_source import MalformedResponse, RepeatedIds
from letters_source.decode.page import MAX_ROW_BYTES
from pages import page_of
from programmable_emulator import Emulator, Reply

Loaded = dict[str, Any]


def load_with(world: World, *rows: Any) -> tuple[list[Loaded], Loaded]:
    """The contacts that these rows became, and the audit; the tables of a load without them are as they were."""
    for row in rows:
        world.emulator.contacts.insert(row)
    audit = dict(world.load(only=("contacts",)).audits[0])
    table = world.tables()["contacts"]
    for row in rows:
        world.emulator.contacts.delete(str(row.get("id")))
    own = {str(row.get("id")) for row in rows}
    found = [{k: v for k, v in row.items() if v is not None} for row in table if row["id"] in own]
    assert [row["id"] for row in found] == sorted(own)
    assert len(table) == 40 + len(found)
    world.load()
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    return found, audit


def load_odd(world: World, field: str, values: Sequence[Any]) -> tuple[list[Loaded], Loaded]:
    """The contacts with one of these values each in a field, in their order, and the audit."""
    return load_with(world, *({"id": f"odd {number:02}", field: value} for number, value in enumerate(values)))


def load_wire(world: World, *rows: bytes) -> list[Loaded]:
    """The contacts of a listing of these rows alone, as they stand on the wire."""
    body = b'{"message": "Success", "data": {"count": %d, "rows": [%b]}}' % (len(rows), b",".join(rows))
    world.emulator.canned.always(CONTACTS, Reply(200, body))
    world.load(only=("contacts",), max_shrink=1)
    table = world.tables()["contacts"]
    world.emulator.canned.clear()
    world.load()
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]
    return [{k: v for k, v in row.items() if v is not None} for row in table]


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("key", [b"city", b"isVerified", b"unknown"])
def test_f25_numbers_that_json_has_not_are_no_json(world: World, key: bytes, token: bytes) -> None:
    """Some parsers take them: none of ours does, whatever is installed."""
    world.emulator.canned.always(
        CONTACTS, Reply(200, page_of({"id": "1", "x": 0}).replace(b'"x": 0', b'"%b": %b' % (key, token)))
    )
    message = str(refused(world, MalformedResponse))
    assert message.startswith("contacts page 0: expected JSON, got ")


def test_f26_of_equal_keys_the_last_counts(world: World) -> None:
    """In a page that fits, and in one that an odd value makes the decoder read column by column."""
    twice = b'{"id": "0", "id": "1", "city": "a", "city": "b"%b}'
    plain = load_wire(world, twice % b"")
    odd = load_wire(world, twice % b', "isVerified": "yes"')
    assert [(row["id"], row["city"]) for row in (*plain, *odd)] == [("1", "b")] * 2


UNUSABLE: dict[str, Any] = {"null": None, "empty": "", "boolean": True, "object": {}, "list": ["1"]}


def test_f48_a_row_without_a_usable_id_is_rejected_whole(world: World) -> None:
    """It counts, it is kept, and it poisons nothing."""
    rows = [{"city": f"Nowhere {name}", "id": value} for name, value in UNUSABLE.items()] + [{"city": "Nowhere"}]
    for row in rows:
        world.emulator.contacts.insert(row, at=3)
    result = world.load(only=("contacts",))
    [audit] = result.audits
    assert (audit["count_last"], audit["rows_yielded"], audit["rows_rejected"]) == (46, 40, 6)
    kept = f"select row::text from letters_data.rejected_rows where _dlt_load_id = '{result.load_id}' order by position"
    assert [json.loads(text) for [text] in query(world.place, kept)] == rows[::-1]
    for _ in rows:
        world.emulator.contacts.delete(3)
    world.load()
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]


def test_f48_an_id_that_is_a_number_is_its_digits(world: World) -> None:
    """No other id is guessed."""
    assert [row["id"] for row in load_wire(world, b'{"id": 7}', b'{"id": 12345678901234567890}')] == [
        "12345678901234567890",
        "7",
    ]


def test_f48_an_id_that_two_rows_have_is_never_loaded(world: World) -> None:
    """One of them would be lost, and nobody could say which; the next good load is not held up."""
    world.emulator.contacts.insert({"id": "7", "city": "Twice"})
    assert ": 1 row repeats the id of another row, for example 7, the same in" in str(refused(world, RepeatedIds))
    world.emulator.contacts.delete(-1)
    world.load()
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]


def test_f49_a_zip_is_text_whatever_comes_first(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Leading zeros stay; a number is its digits, and warned of."""
    rows = load_wire(world, b'{"id": "1", "zip": 7030}', b'{"id": "2", "zip": "07030"}')
    assert [row["zip"] for row in rows] == ["7030", "07030"]
    assert "zip was a number in 1 rows and was kept as text" in caplog.text


def test_f50_only_true_and_false_are_verified(world: World) -> None:
    """Anything else is kept beside a null, and counted."""
    values = ["yes", "", 2, 0, "true", [], {}]
    rows, audit = load_odd(world, "isVerified", values)
    assert [row["undocumented"] for row in rows] == [{"isVerified": value} for value in values]
    assert not any("is_verified" in row for row in rows)
    assert audit["misfit_values"] == len(values)


def test_f51_what_is_no_timestamp_is_kept_beside_a_null(world: World) -> None:
    """A number could be seconds or milliseconds, a date any of its moments: neither is guessed at."""
    values = ["yesterday", "2024-01-31", 1_700_000_000, 1.5, "", "2024-13-01T00:00:00Z", {}]
    rows, audit = load_odd(world, "createdAt", values)
    assert not any("created_at" in row for row in rows)
    assert [row["undocumented"] for row in rows] == [{"createdAt": value} for value in values]
    assert audit["misfit_values"] == len(values)


def test_f51_a_timestamp_without_an_offset_is_utc(world: World) -> None:
    """As all others are."""
    [row], audit = load_with(world, {"id": "naive", "createdAt": "2024-01-31T10:20:30.400"})
    assert row["created_at"].isoformat() == "2024-01-31T10:20:30.400000+00:00"
    assert audit["misfit_values"] == 0


def test_f52_labels_of_another_shape_are_kept_whole(world: World) -> None:
    """Beside a contact without them."""
    values = [{"id": "4"}, "x", 7, [None], [["4"]], ["4"]]
    rows, audit = load_odd(world, "ContactLabels", values)
    assert [row["undocumented"] for row in rows] == [{"ContactLabels": labels} for labels in values]
    assert audit["misfit_values"] == len(values)


def test_f52_no_labels_are_no_labels(world: World) -> None:
    """Null, missing and empty are the same, and nothing to report."""
    rows, audit = load_with(world, {"id": "0", "ContactLabels": None}, {"id": "00"}, {"id": "000", "ContactLabels": []})
    assert [row.keys() for row in rows] == [{"id"}] * 3
    assert audit["misfit_values"] == 0


def test_f53_meta_is_json_whatever_its_keys(world: World) -> None:
    """No column comes of them; a product that is no object is kept."""
    for number, product in enumerate(({"id": "p", "meta": {f"k{n}": n for n in range(50)}}, "letter", None)):
        world.emulator.templates.insert({"id": f"t{number}", "product": product})
    world.load(only=("templates",))
    tables = world.tables()
    [kept] = [row for row in tables["templates__product"] if row["template_id"] == "t0"]
    assert kept["meta"] == {f"k{n}": n for n in range(50)}
    assert {row["template_id"] for row in tables["templates__product"]} & {"t1", "t2"} == set()
    assert {row["id"]: row["undocumented"] for row in tables["templates"]}["t1"] == {"product": "letter"}
    assert columns(world, "templates__product") == typed_columns("templates__product")


def columns(world: World, table: str) -> list[tuple[str, str]]:
    """A table's columns in order, with their types."""
    names = "select column_name, data_type from duckdb_columns() where schema_name = 'letters_data' and table_name = "
    return [(name, kind) for name, kind in query(world.place, f"{names}'{table}' order by column_index")]


STRANGE = {"first_name": "a", "FirstName": "b", "_dlt_id": "c", "_dlt_load_id": "d", "undocumented": "e", "id ": "f"}


def test_f54_f55_f61_no_key_of_the_service_makes_or_takes_a_column(world: World) -> None:
    """Unknown keys, those that would collide in snake_case, and dlt's own: all are undocumented."""
    [row], _ = load_with(world, {"id": "odd", "firstName": "right", **STRANGE})
    assert row["first_name"] == "right"
    assert row["undocumented"] == STRANGE
    assert columns(world, "contacts") == typed_columns("contacts")


def test_f56_characters_that_no_text_holds_stop_nothing(world: World) -> None:
    """NUL and halves of surrogate pairs are replaced, control characters stay; all that is replaced is counted."""
    [row] = load_wire(
        world, b'{"id": "1", "city": "a\\u0000b", "state": "\\ud800", "title": "\\u0001", "zip": "\\u0007"}'
    )
    assert (row["city"], row["state"], row["zip"]) == ("a\ufffdb", "\ufffd", "\x07")


def test_f57_numbers_beyond_any_column_are_text(world: World) -> None:
    """Digit by digit; what not even JSON's engines hold is a JSON text."""
    wire = b'{"id": "1", "zip": 9223372036854775808, "a": 1000000000000000000000000000000, "b": 1e400}'
    [row] = load_wire(world, wire)
    assert row["zip"] == "9223372036854775808"
    assert query_undocumented(world, wire) == '{"a":1000000000000000000000000000000,"b":"1e400"}'


def query_undocumented(world: World, wire: bytes) -> str:
    """The text of the column undocumented of a row, as it stands."""
    body = b'{"message": "Success", "data": {"count": 1, "rows": [%b]}}' % wire
    world.emulator.canned.always(CONTACTS, Reply(200, body))
    world.load(only=("contacts",), max_shrink=1)
    [(text,)] = query(world.place, "select undocumented::text from letters_data.contacts")
    world.emulator.canned.clear()
    world.load()
    return str(text)


def test_f58_depth_beyond_reason_is_refused(world: World) -> None:
    """A hundred thousand lists in one another reach no parser that would fall over them."""
    deep = b'{"id": "1", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    world.emulator.canned.always(CONTACTS, Reply(200, b'{"data": {"count": 1, "rows": [%b]}}' % deep))
    assert str(refused(world, MalformedResponse)) == "contacts page 0: a value nests deeper than can be read."


def test_f58_two_thousand_keys_are_one_column(world: World) -> None:
    """As JSON."""
    keys = {f"key{number}": number for number in range(2000)}
    [row], audit = load_with(world, {"id": "odd", **keys})
    assert row["undocumented"] == keys
    assert audit["misfit_values"] == 0
    assert columns(world, "contacts") == typed_columns("contacts")


def test_f58_a_text_of_sixty_megabytes_is_refused(world: World) -> None:
    """Before anything is loaded."""
    world.emulator.contacts.insert({"id": "long", "city": "x" * 60 * 2**20})
    message = str(refused(world, MalformedResponse, page_size=100))
    assert message == "contacts page 0: a row is larger than 16777216 bytes, which no row of a listing is."


def test_f58_a_text_within_the_bound_is_a_text(world: World) -> None:
    """DuckDB holds it in the memory that a load leaves to it."""
    [row], _ = load_with(world, {"id": "long", "city": "x" * (MAX_ROW_BYTES - 100)})
    assert len(row["city"]) == MAX_ROW_BYTES - 100


def test_f59_f60_columns_and_tables_are_there_without_any_value(begin: Begin) -> None:
    """One contact with nothing but its id makes all columns, and no labels make their table."""
    world = begin(Emulator(0, 0))
    world.emulator.contacts.insert({"id": "1"})
    world.emulator.templates.insert({"id": "1"})
    world.load()
    assert {table: columns(world, table) for table in COLUMNS} == {table: typed_columns(table) for table in COLUMNS}
    assert world.tables()["contacts__contact_labels"] == []


def test_f62_what_is_read_is_what_is_loaded_and_rejected(world: World) -> None:
    """Nothing is discarded on the way: the audit's sums are those of the tables."""
    odd: tuple[Any, ...] = (
        {"id": "a", "zip": 1},
        {"id": None},
        {"id": "b", "isVerified": "x"},
        {"city": "c"},
        {"id": "d", "new": 1},
    )
    for row in odd:
        world.emulator.contacts.insert(row, at=0)
    result = world.load()
    audits = {audit["listing"]: audit for audit in result.audits}
    rejected = "select count(*) from letters_data.rejected_rows where _dlt_load_id = "
    for listing in ("templates", "contacts"):
        audit = audits[listing]
        assert audit["rows_yielded"] + audit["rows_rejected"] == audit["count_last"]
        assert query(world.place, f"select count(*) from letters_data.{listing}") == [(audit["rows_yielded"],)]
    assert query(world.place, f"{rejected}'{result.load_id}'") == [(2,)]
    assert (audits["contacts"]["count_last"], audits["contacts"]["rows_rejected"]) == (45, 2)
    for _ in odd:
        world.emulator.contacts.delete(0)
    world.load()
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]
