"""Undocumented values stay out of the typed columns and are not lost.

One load of all odd rows together shows what each becomes; the load after it, without them, is exact again.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from holdings import COLUMNS, query, typed_columns
from refusals import CONTACTS, refused
from worlds import Begin, World

from letters_source import MalformedResponse, RepeatedIds
from letters_source.decode.page import MAX_ROW_BYTES
from pages import page_of
from programmable_emulator import Emulator, Reply

Row = dict[str, Any]

LONG = "x" * (MAX_ROW_BYTES - 100)
KEYS = {f"key{number}": number for number in range(2000)}
NOT_VERIFIED: tuple[Any, ...] = ("yes", "", 2, 0, "true", [], {})
NO_MOMENTS: tuple[Any, ...] = ("yesterday", "2024-01-31", 1_700_000_000, 1.5, "", "2024-13-01T00:00:00Z", {})
NO_LABELS = ({"id": "4"}, "x", 7, [None], [["4"]], ["4"])
STRANGE = {"first_name": "a", "FirstName": "b", "_dlt_id": "c", "_dlt_load_id": "d", "undocumented": "e", "id ": "f"}
NAMELESS: tuple[Row, ...] = (
    {"city": "Nowhere", "id": None},
    {"city": "Nowhere", "id": ""},
    {"city": "Nowhere", "id": True},
    {"city": "Nowhere", "id": {}},
    {"city": "Nowhere", "id": ["1"]},
    {"city": "Nowhere"},
)


def numbered(name: str, field: str, values: tuple[Any, ...]) -> list[Row]:
    """A row for each value of a field, with ids in their order."""
    return [{"id": f"{name} {number}", field: value} for number, value in enumerate(values)]


ODD: tuple[Row, ...] = (
    *NAMELESS,
    *numbered("verified", "isVerified", NOT_VERIFIED),
    *numbered("moment", "createdAt", NO_MOMENTS),
    *numbered("labels", "ContactLabels", NO_LABELS),
    {"id": "naive", "createdAt": "2024-01-31T10:20:30.400"},
    {"id": "null labels", "ContactLabels": None},
    {"id": "no labels"},
    {"id": "empty labels", "ContactLabels": []},
    {"id": "strange", "firstName": "right", **STRANGE},
    {"id": "many keys", **KEYS},
    {"id": "long", "city": LONG},
    {"id": "text", "zip": "07030"},
    {"id": "digits", "zip": 7030},
    {"id": 7007},
    {"id": 12345678901234567890},
)
# what Python's own writer of JSON would not write
ON_THE_WIRE = (
    b'{"id": "0", "id": "twice", "city": "a", "city": "b"}',
    b'{"id": "characters", "city": "a\\u0000b", "state": "\\ud800", "title": "\\u0001", "zip": "\\u0007"}',
    b'{"id": "numbers", "zip": 9223372036854775808, "a": 1000000000000000000000000000000, "b": 1e400}',
)
TEMPLATES: tuple[Row, ...] = (
    {"id": "object", "product": {"id": "p", "meta": {f"k{number}": number for number in range(50)}}},
    {"id": "text", "product": "letter"},
    {"id": "null", "product": None},
)


@dataclass(frozen=True)
class Odd:
    """What a load of all odd rows left: tables, columns, audits by listing, and the numbers as a text of JSON."""

    tables: dict[str, list[Row]]
    columns: dict[str, list[tuple[str, str]]]
    audits: dict[str, Row]
    numbers: str

    def row(self, row_id: str) -> Row:
        """The values of a contact that are not null, without its id."""
        [row] = [row for row in self.tables["contacts"] if row["id"] == row_id]
        return {name: value for name, value in row.items() if value is not None and name != "id"}

    def rows(self, name: str) -> list[Row]:
        """The values of the contacts of one name, in their order."""
        found = [row["id"] for row in self.tables["contacts"] if row["id"].startswith(f"{name} ")]
        return [self.row(row_id) for row_id in found]


def columns(world: World) -> dict[str, list[tuple[str, str]]]:
    """Each table's columns in order, with their types."""
    names = "select table_name, column_name, data_type from duckdb_columns() where schema_name = 'letters_data'"
    rows = query(world.place, f"{names} order by table_name, column_index")
    return {table: [(name, kind) for of, name, kind in rows if of == table] for table in COLUMNS}


@pytest.fixture(scope="module")
def odd(loaded: World) -> Odd:
    """A load of the usual rows and all odd ones; the load after it, without them, is exact."""
    emulator = loaded.emulator
    usual = [row.document for row in emulator.contacts.rows()]
    rows = [json.dumps(row).encode() for row in (*usual, *ODD)] + list(ON_THE_WIRE)
    body = b'{"message": "Success", "data": {"count": %d, "rows": [%b]}}' % (len(rows), b",".join(rows))
    emulator.canned.always(CONTACTS, Reply(200, body))
    for template in TEMPLATES:
        emulator.templates.insert(template)
    result = loaded.load()
    [[numbers]] = query(loaded.place, "select undocumented::text from letters_data.contacts where id = 'numbers'")
    audits = {audit["listing"]: dict(audit) for audit in result.audits}
    found = Odd(loaded.tables(), columns(loaded), audits, numbers)
    emulator.canned.clear()
    for template in TEMPLATES:
        emulator.templates.delete(template["id"])
    loaded.load()
    assert loaded.is_exact()
    return found


def test_f25_a_number_that_json_does_not_have_is_not_json(world: World) -> None:
    """A load ends in an error if a page holds NaN, which tests/decode show of other such numbers and columns."""
    nan = page_of({"id": "1", "city": 0}).replace(b'"city": 0', b'"city": NaN')
    world.emulator.canned.always(CONTACTS, Reply(200, nan))
    message = str(refused(world, MalformedResponse))
    assert message == f"contacts page 0: expected JSON, got {len(nan)} bytes of something else."


def test_f26_of_equal_keys_the_last_counts(odd: Odd) -> None:
    """A row that has its id and its city twice is loaded with the last of each."""
    assert odd.row("twice") == {"city": "b"}
    assert "0" not in {row["id"] for row in odd.tables["contacts"]}


def test_f48_a_row_without_a_usable_id_is_rejected_whole(odd: Odd) -> None:
    """Rows whose id is null, empty, a boolean, an object, a list or missing are kept as rejected rows and counted."""
    rejected = odd.tables["rejected_rows"]
    assert [row["row"] for row in rejected] == list(NAMELESS)
    assert [(row["listing"], row["page"], row["position"]) for row in rejected] == [
        ("contacts", 0, 40 + number) for number in range(len(NAMELESS))
    ]
    assert odd.audits["contacts"]["rows_rejected"] == len(NAMELESS)


def test_f48_an_id_that_is_a_number_is_its_digits(odd: Odd) -> None:
    """Ids that are numbers, also those beyond 64 bits, become their digits."""
    assert (odd.row("7007"), odd.row("12345678901234567890")) == ({}, {})


def test_f48_an_id_that_two_rows_have_is_never_loaded(world: World) -> None:
    """Two rows of one id end the load, because one of them would be lost, and the next load is exact."""
    world.emulator.contacts.insert({"id": "1", "city": "Twice"})
    assert str(refused(world, RepeatedIds)) == (
        "contacts: 1 row repeats the id of another row, for example 1, the same in two passes: count 41, received 41, "
        "missing 0, passes 2; nothing was loaded. Set sources.letters.duplicates to drop, to load each id once."
    )
    world.emulator.contacts.delete(-1)
    world.load()
    assert world.is_exact()


def test_f49_a_zip_is_text_whatever_else_comes(odd: Odd) -> None:
    """A zip keeps its leading zero, and one that is a number becomes its digits and is counted as converted."""
    assert [odd.row("text"), odd.row("digits")] == [{"zip": "07030"}, {"zip": "7030"}]
    assert json.loads(odd.audits["contacts"]["converted_fields"]) == {"id": 2, "zip": 2}


def test_f50_only_true_and_false_are_verified(odd: Odd) -> None:
    """Any other value of isVerified is kept in `undocumented`, and its column is null."""
    assert odd.rows("verified") == [{"undocumented": {"isVerified": value}} for value in NOT_VERIFIED]


def test_f51_a_value_that_is_not_a_timestamp_is_kept_and_the_column_is_null(odd: Odd) -> None:
    """Numbers, dates and other texts in createdAt are kept in `undocumented`, and the column is null."""
    assert odd.rows("moment") == [{"undocumented": {"createdAt": value}} for value in NO_MOMENTS]


def test_f51_a_timestamp_without_an_offset_is_utc(odd: Odd) -> None:
    """A createdAt without an offset is read as UTC."""
    row = odd.row("naive")
    assert row.pop("created_at").isoformat() == "2024-01-31T10:20:30.400000+00:00"
    assert row == {}


def test_f52_labels_of_another_shape_are_kept_whole(odd: Odd) -> None:
    """ContactLabels that are no list of labels are kept in `undocumented`, each as it was sent."""
    assert odd.rows("labels") == [{"undocumented": {"ContactLabels": value}} for value in NO_LABELS]


def test_f52_no_labels_are_no_labels(odd: Odd) -> None:
    """Null, missing and empty ContactLabels give no label, and nothing is kept of them."""
    names = ("null labels", "no labels", "empty labels")
    assert [odd.row(name) for name in names] == [{}, {}, {}]
    assert {row["contact_id"] for row in odd.tables["contacts__contact_labels"]} & set(names) == set()


def test_f53_meta_is_json_whatever_its_keys(odd: Odd) -> None:
    """A product's meta stays one JSON column, and a product that is no object is kept in `undocumented`."""
    metas = {row["template_id"]: row["meta"] for row in odd.tables["templates__product"]}
    own = {template["id"] for template in TEMPLATES}
    assert {name: meta for name, meta in metas.items() if name in own} == {"object": TEMPLATES[0]["product"]["meta"]}
    kept = {row["id"]: row["undocumented"] for row in odd.tables["templates"] if row["id"] in own}
    assert kept == {"object": None, "text": {"product": "letter"}, "null": None}


def test_f54_f55_f61_no_key_of_the_service_makes_or_takes_a_column(odd: Odd) -> None:
    """Unknown keys, keys that collide in snake_case and keys of dlt's own names all go into `undocumented`."""
    assert odd.row("strange") == {"first_name": "right", "undocumented": STRANGE}
    assert odd.columns == {table: typed_columns(table) for table in COLUMNS}


def test_f56_characters_that_text_cannot_hold_are_replaced(odd: Odd) -> None:
    """NUL and halves of surrogate pairs are replaced in the columns, and control characters stay."""
    assert odd.row("characters") == {
        "city": "a\ufffdb",
        "state": "\ufffd",
        "zip": "\x07",
        "undocumented": {"city": '"a\\u0000b"', "title": "\x01"},
    }


def test_f57_numbers_beyond_any_column_are_text(odd: Odd) -> None:
    """A zip beyond 64 bits is kept digit by digit, and a number that no engine holds is kept as a JSON text."""
    assert odd.row("numbers")["zip"] == "9223372036854775808"
    assert odd.numbers == '{"a":1000000000000000000000000000000,"b":"1e400"}'


def test_f58_excessive_nesting_is_refused(world: World) -> None:
    """A hundred thousand nested lists end the load in an error."""
    deep = b'{"id": "1", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    world.emulator.canned.always(CONTACTS, Reply(200, b'{"data": {"count": 1, "rows": [%b]}}' % deep))
    assert (
        str(refused(world, MalformedResponse))
        == "contacts page 0: a value nests deeper than can be read; report it to the service."
    )


def test_f58_two_thousand_keys_are_one_column(odd: Odd) -> None:
    """Two thousand unknown keys of one row are kept in its `undocumented`."""
    assert odd.row("many keys") == {"undocumented": KEYS}


def test_f58_a_text_beyond_the_limit_is_refused(world: World) -> None:
    """A row larger than the limit ends the load in an error."""
    world.emulator.contacts.insert({"id": "long", "city": "x" * MAX_ROW_BYTES})
    message = str(refused(world, MalformedResponse, page_size=100))
    assert message == "contacts page 0: a row is larger than 16 MiB; report it to the service."


def test_f58_a_text_within_the_limit_is_loaded(odd: Odd) -> None:
    """A text of almost 16 MiB is loaded whole, in the memory that a load leaves to DuckDB."""
    assert odd.row("long") == {"city": LONG}


def test_f59_f60_columns_and_tables_are_there_without_any_value(begin: Begin) -> None:
    """A contact and a template of nothing but their ids make every column and every table."""
    world = begin(Emulator(0, 0))
    world.emulator.contacts.insert({"id": "1"})
    world.emulator.templates.insert({"id": "1"})
    world.load()
    assert columns(world) == {table: typed_columns(table) for table in COLUMNS}
    assert world.tables()["contacts__contact_labels"] == []


def test_f62_what_is_read_is_what_is_loaded_and_rejected(odd: Odd) -> None:
    """The sums of the audit are those of the tables, so nothing is discarded on the way."""
    sent = len(ODD) + len(ON_THE_WIRE)
    sums = {
        name: (audit["count_last"], audit["rows_yielded"], audit["rows_rejected"]) for name, audit in odd.audits.items()
    }
    assert sums == {
        "templates": (10, 10, 0),
        "contacts": (40 + sent, 40 + sent - len(NAMELESS), len(NAMELESS)),
    }
    assert {name: len(odd.tables[name]) for name in sums} == {"templates": 10, "contacts": 40 + sent - len(NAMELESS)}
    # one for each value that did not fit, one for NUL, and one for the half of a surrogate pair
    misfits = len(NOT_VERIFIED) + len(NO_MOMENTS) + len(NO_LABELS) + 2
    assert odd.audits["contacts"]["misfit_values"] == misfits
