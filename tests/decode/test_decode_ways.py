"""Do both ways of decoding agree on every page, and which way does a page go?"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from letters_source.decode import fast, tolerant
from letters_source.decode.page import decode_page, mend_surrogates, read_envelope
from letters_source.decode.row_schema import Notes, to_batch
from letters_source.decode.wire import parse_whole
from letters_source.tables import Table, tables_of
from pages import PAYLOADS, page_of, page_of_text

LISTINGS = ("contacts", "templates")
# names that need no escapes; the fast way leaves pages with others to the tolerant one
NAMES = st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc"]), max_size=6)

# halves of surrogate pairs are no UTF-8 and are mended before either way reads a page
letters = st.characters(codec="utf-8") | st.sampled_from('\x00\n"\\/é\U0001f600')
texts = st.text(letters, max_size=8)
plain_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
numbers = (
    st.integers()
    | st.sampled_from([2**63, 10**30, -(10**400), 0, -1])
    | st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    scalars, lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(texts, deeper, max_size=3), max_leaves=6
)
moments = st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds") + "Z")
odd_moments = st.sampled_from(
    [
        "2023-11-21T09:30:15",
        "2023-11-21 09:30",
        "2023-11-21",
        "",
        "soon",
        "2023-11-21T04:30:15-05:00",
        "24-01-01T00:00Z",
    ]
)
strangers = st.dictionaries(
    NAMES | st.sampled_from(["countryCode", "_dlt_id", "page", "id ", "ID"]), anything, max_size=2
)


def fitting_values(table: Table) -> dict[str, st.SearchStrategy[Any]]:
    """What the service documents for each column of a table."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "text": st.none() | plain_texts,
        "bool": st.none() | st.booleans(),
        "timestamp": st.none() | moments,
        "json": anything,
    }
    return {column.wire: kinds[column.kind] for column in table.documented}


def parts(table: Table, values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """A nested part of a row, keys missing or not."""
    one = st.fixed_dictionaries({}, optional=values)
    return st.none() | (st.lists(one, max_size=3) if table.part == "list" else one)


def fitting_rows(listing: str) -> st.SearchStrategy[dict[str, Any]]:
    """Rows as documented, with undocumented fields beside."""
    root, *children = tables_of(listing)
    optional = fitting_values(root) | {child.wire: parts(child, fitting_values(child)) for child in children}
    ids = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
    known = st.fixed_dictionaries({"id": ids}, optional={k: v for k, v in optional.items() if k != "id"})
    beside = strangers.map(lambda fields: {name: value for name, value in fields.items() if name not in optional})
    return st.tuples(beside, known).map(lambda pair: {**pair[0], **pair[1]})


def odd_rows(listing: str) -> st.SearchStrategy[Any]:
    """Rows of which anything may be anything."""
    root, *children = tables_of(listing)
    odd = {name: values | odd_moments | anything for name, values in fitting_values(root).items()}
    for child in children:
        inner = parts(child, {name: values | anything for name, values in fitting_values(child).items()})
        odd[child.wire] = inner | anything | st.lists(anything, max_size=2)
    known = st.fixed_dictionaries({}, optional=odd)
    odd_strangers = strangers | st.dictionaries(texts, anything, max_size=2)
    rows = st.tuples(odd_strangers, known).map(lambda pair: {**pair[0], **pair[1]})
    return rows | anything


def pages(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Pages of such rows, non-ASCII letters escaped or not, with blanks between tokens or not."""
    return st.builds(
        write,
        st.lists(rows, max_size=4),
        ascii_only=st.booleans(),
        separators=st.sampled_from([(", ", ": "), (",", ":"), (" ,\n", "\t: ")]),
    )


def write(rows: Sequence[Any], *, ascii_only: bool, separators: tuple[str, str]) -> bytes:
    """A page as some service would write it."""
    body = {"message": "Success", "data": {"count": len(rows), "rows": rows}}
    return json.dumps(body, ensure_ascii=ascii_only, separators=separators).encode()


Decoded = tuple[list[dict[str, Any]], Notes]


def tolerantly(body: bytes, listing: str) -> Decoded:
    """A page's rows and notes by the tolerant way."""
    columns, notes = tolerant.read_rows(read_envelope(body, listing).rows, listing)
    return to_batch(columns, listing, 0).to_pylist(), notes


def fast_or_none(body: bytes, listing: str) -> Decoded | None:
    """A page's rows and notes by the fast way, None where it does not fit."""
    try:
        columns, notes = fast.read_rows(body, read_envelope(body, listing).rows, listing)
    except fast.DoesNotFit:
        return None
    return to_batch(columns, listing, 0).to_pylist(), notes


def agree(body: bytes, listing: str) -> bool:
    """Whether the page fits the fast way; fails where both ways read it and differ."""
    quickly = fast_or_none(body, listing)
    event("fast" if quickly else "tolerant")
    assert quickly in (None, tolerantly(body, listing))
    return quickly is not None


@pytest.mark.parametrize("listing", LISTINGS)
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=80)
def test_both_ways_agree_on_documented_pages(listing: str, data: st.DataObject) -> None:
    """Pages as documented, with undocumented fields beside, fit the fast way and give the same rows and notes."""
    body = data.draw(pages(fitting_rows(listing)))
    assume(b"\\u0000" not in body)
    assert agree(body, listing)


@pytest.mark.parametrize("listing", LISTINGS)
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=80)
def test_both_ways_agree_on_odd_pages(listing: str, data: st.DataObject) -> None:
    """Where anything may be anything, the fast way steps aside or gives the same rows and notes."""
    agree(data.draw(pages(fitting_rows(listing) | odd_rows(listing))), listing)


@pytest.mark.parametrize("listing", LISTINGS)
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=80)
def test_both_ways_agree_where_one_value_is_odd(listing: str, data: st.DataObject) -> None:
    """One value of one row is replaced by anything, which is what a service's slow drift looks like."""
    rows = data.draw(st.lists(fitting_rows(listing), min_size=1, max_size=3))
    root, *children = tables_of(listing)
    wires = [column.wire for column in root.documented] + [child.wire for child in children]
    data.draw(st.sampled_from(rows))[data.draw(st.sampled_from(wires))] = data.draw(scalars | odd_moments | anything)
    agree(write(rows, ascii_only=data.draw(st.booleans()), separators=(",", ":")), listing)


# written as escapes these are pairs, halves, and escaped backslashes before what only looks like one
halves = st.lists(st.sampled_from(["\ud83d", "\ude00", "\\", "\\ud83d", "\\ude00", "a"]), max_size=8).map("".join)


def whole(text: str) -> str:
    """A text as Python's own decoder reads it, with U+FFFD for what is half a letter then."""
    return re.sub("[\ud800-\udfff]", "\ufffd", json.loads(json.dumps(text)))


@given(halves, halves, halves)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_both_ways_agree_on_mended_pages(city: str, name: str, value: str) -> None:
    """Pairs become their letter and halves U+FFFD, each counted, in values, names and undocumented fields."""
    body = write(
        [{"id": "1", "city": city, "x" + name: value}, {"id": "2", "zip": city}], ascii_only=True, separators=(",", ":")
    )
    mended, counted = mend_surrogates(body)
    agree(mended, "contacts")
    page = decode_page(body, "contacts", 0)
    rows = page.rows.to_pylist()
    assert [rows[0]["city"], rows[1]["zip"]] == [whole(city)] * 2
    assert json.loads(rows[0]["undocumented"]) == {"x" + whole(name): whole(value)}
    # a letter of our own is not among those drawn, so each one stands for a half
    assert counted == sum(whole(text).count("\ufffd") for text in (city, city, name, value))
    assert page.notes == Notes(Counter(["x" + whole(name)]), misfits=counted, halves=counted)


@pytest.mark.parametrize("name", [r"a\"b", r"a\\b", r"a\tb", r"a\u001fb", r"a\u0000b"])
@pytest.mark.parametrize("more", ["", ', "x": 1', ', "x": [1, "a"]'])
def test_names_that_need_escapes_go_the_tolerant_way(name: str, more: str) -> None:
    """No field can be named so where pages are read together; other undocumented fields beside change nothing."""
    body = page_of_text(f'[{{"id": "1", "{name}": 1{more}}}, {{"id": "2"}}]')
    assert fast_or_none(body, "contacts") is None
    assert len(tolerantly(body, "contacts")[0]) == 2


@pytest.mark.parametrize("name", ["contacts", "templates", "contacts-surprises"])
def test_both_ways_agree_on_the_golden_pages(name: str) -> None:
    """The documented ones go the fast way; the surprises do not."""
    body, listing = (PAYLOADS / f"{name}.json").read_bytes(), name.partition("-")[0]
    assert fast_or_none(body, listing) == (tolerantly(body, listing) if name == listing else None)


@pytest.mark.parametrize(
    "fields",
    [
        '"x": 1', '"x": "US"', '"x": null', '"x": true', '"x": {"Age": 20, "Spouse": "none"}', '"x": [1, 2]',
        '"x": []', '"x": {}', '"x": [1, "a"]', '"x": [{}, []]', '"x": 1' + "0" * 400, '"x": 1, "x": "a"',
        '"x": "2023-11-21T09:30:15Z"', '"first_name": "twin"', '"_dlt_id": "spoof"', '"": 1', '"é": 1',
        '"page": 1, "position": 2, "reason": 3, "raw": 4, "undocumented": 5',
        '"createdAt": "2023-11-21T09:30:15"', '"createdAt": "2023-11-21T04:30:15-05:00"', '"createdAt": null',
        '"city": "\\u00e9\\ud83d\\ude00"', '"city": "\\\\u0000"', '"city": ""', '"isVerified": null',
        '"ContactLabels": null', '"ContactLabels": []', '"ContactLabels": [{}]', '"ContactLabels": [{"title": "a"}]',
    ],
)  # fmt: skip
def test_pages_that_stay_on_the_fast_way(fields: str) -> None:
    """Undocumented fields of whatever type and everything documented, absent or null."""
    body = page_of_text(f'[{{"id": "1", {fields}}}, {{"id": "2"}}]')
    quickly = fast_or_none(body, "contacts")
    assert quickly is not None
    assert quickly == tolerantly(body, "contacts")


@pytest.mark.parametrize("message", ["null", "7", '{"a": 1}', '[1, "a"]'])
def test_another_message_stays_on_the_fast_way(message: str) -> None:
    """Nothing of it is needed, so it may be whatever it likes."""
    body = page_of_text('[{"id": "1"}]').replace(b'"Success"', message.encode())
    quickly = fast_or_none(body, "contacts")
    assert quickly is not None
    assert quickly == tolerantly(body, "contacts")


def test_an_undocumented_field_of_mixed_types_stays_on_the_fast_way() -> None:
    """Text in one row, a number in the next, an object in a third."""
    rows = [{"id": str(place), "x": value} for place, value in enumerate(["a", 1, {"b": 2}, None, [3], 1.5, True])]
    body = page_of(*rows, {"id": "7"})
    quickly = fast_or_none(body, "contacts")
    assert quickly is not None
    assert quickly == tolerantly(body, "contacts")


@pytest.mark.parametrize("first", ['"x": 1', '"x": -1.5', '"x": true', '"x": false', '"x": null', '"x": "a"', '"y": 7'])
@pytest.mark.parametrize("second", ['"x": 2', '"y": "\\u0000"', '"x": {"a": 1}', '"x": null', '"y": [2]', '"zip": "a"'])
def test_undocumented_fields_that_the_first_rows_do_not_tell_stay_on_the_fast_way(first: str, second: str) -> None:
    """A later row may have another, or one of another type."""
    rows = [f'{{"id": "1", {first}}}'] * fast.FIRST_ROWS + [f'{{"id": "2", {second}}}']
    body = page_of_text(f"[{', '.join(rows)}]")
    quickly = fast_or_none(body, "contacts")
    assert quickly is not None
    assert quickly == tolerantly(body, "contacts")


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("1", "2.5", pa.float64()),
        ("-1e3", "7", pa.float64()),
        ("true", "false", pa.bool_()),
        ("null", "false", pa.bool_()),
        ("null", '"a"', pa.string()),
        ("null", "null", pa.null()),
    ],
)
def test_arrow_is_told_the_scalars_of_the_first_rows(first: str, second: str, kind: pa.DataType) -> None:
    """So a page with the same in each row is parsed once."""
    body = page_of_text(f'[{{"id": "1", "x": {first}}}, {{"id": "2", "x": {second}}}]')
    told = fast.first_strangers(read_envelope(body, "contacts").rows, "contacts")
    assert told == {"x": kind}
    assert parse_whole(body, "contacts", told).field("x").type == kind


@pytest.mark.parametrize("value", ["{}", "[1]", '{"a": 1}'])
def test_arrow_refuses_objects_and_lists(value: str) -> None:
    """Those that nobody told it of: they could be of any size."""
    body = page_of_text(f'[{{"id": "1", "x": null}}, {{"id": "2", "x": {value}}}]')
    told = fast.first_strangers(read_envelope(body, "contacts").rows, "contacts")
    with pytest.raises(pa.ArrowInvalid):
        parse_whole(body, "contacts", told)


@pytest.mark.parametrize(
    ("names", "rows", "fits"), [(200, 2, True), (201, 2, False), (100, 10, True), (100, 1000, False), (1, 1000, True)]
)
def test_undocumented_fields_of_few_rows_go_the_tolerant_way(names: int, rows: int, *, fits: bool) -> None:
    """Where all rows would take more memory for them than the page."""
    wide = {"id": "0"} | {f"x{name}": name for name in range(names)}
    body = page_of(wide, *({"id": str(row)} for row in range(1, rows)))
    quickly = fast_or_none(body, "contacts")
    assert (quickly is not None) is fits
    assert quickly in (None, tolerantly(body, "contacts"))


@pytest.mark.parametrize(("listing", "wire"), [("contacts", '"x"'), ("templates", '"product": {"meta"')])
def test_objects_with_keys_of_their_own_take_little_memory(listing: str, wire: str) -> None:
    """A column for each key would take 20 MB."""
    objects = ["{" + ", ".join(f'"{row}_{key}": {key}' for key in range(20)) + "}" for row in range(300)]
    closed = "}" * wire.count("{")
    body = page_of_text(
        "[" + ", ".join(f'{{"id": "{row}", {wire}: {value}{closed}}}' for row, value in enumerate(objects)) + "]"
    )
    usual, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    try:
        assert decode_page(body, listing, 0).rows.num_rows == 300
    finally:
        pa.set_memory_pool(usual)
    assert 0 < counting.max_memory() < 2**20


@pytest.mark.parametrize(
    "row",
    [
        '{"id": "1", "zip": 7030}', '{"id": "1", "zip": ["a"]}', '{"id": "1", "city": {"a": 1}}',
        '{"id": "1", "zip": true}',
        '{"id": "1", "isVerified": "yes"}', '{"id": "1", "isLiveMode": 1}', '{"id": "1", "createdAt": 1700559015123}',
        '{"id": "1", "createdAt": "21-11-2023"}', '{"id": "1", "createdAt": ""}',
        '{"id": "1", "ContactLabels": [null]}',
        '{"id": "1", "ContactLabels": ["a"]}', '{"id": "1", "ContactLabels": {"id": "4"}}',
        '{"id": "1", "ContactLabels": [{"id": 4}]}', '{"id": "1", "ContactLabels": [{"color": "red"}]}',
        '{"id": "1", "x": [1, "a"], "ContactLabels": [{"color": "red"}]}',
        '{"id": "1", "zip": "a", "zip": "b"}', '{"id": "1", "city": "\\u0000"}',
        '{"id": "1", "ContactLabels": [{}, {"title": "\\u0000"}]}',
        '{"id": "1", "city": ' + "[" * 500 + "]" * 500 + "}", '{"id": "1", "\\u0000": 1}',
        '{"id": 1}', '{"id": null}', '{"id": ""}', '{"id": {}}', "{}", "null", "1", '"a"', "[]",
        '{"id": "1", "x": 1e400}', '{"id": "1", "x": ' + "[" * 500 + "]" * 500 + "}",
    ],
)  # fmt: skip
def test_pages_that_go_the_tolerant_way(row: str) -> None:
    """A documented field of another type, an unusable id, undocumented fields in labels, NUL, and deep nesting."""
    body = page_of_text(f'[{{"id": "0"}}, {row}]')
    assert fast_or_none(body, "contacts") is None
    assert len(tolerantly(body, "contacts")[0]) == 2


def test_what_nests_deep_around_the_rows_goes_the_tolerant_way_too() -> None:
    """Arrow reads it as well."""
    around = page_of_text('[{"id": "1"}]').replace(b"{", b'{"x": ' + b"[" * 501 + b"]" * 501 + b", ", 1)
    assert fast_or_none(around, "contacts") is None
    assert len(tolerantly(around, "contacts")[0]) == 1


@pytest.mark.parametrize(
    ("row", "fits"),
    [
        ('{"id": "1", "product": {"meta": null}, "creator": null}', True),
        ('{"id": "1", "product": {"meta": null, "id": "3"}, "creator": {"id": "2"}, "x": {"a": [1, 2]}}', True),
        ('{"id": "1", "product": {"meta": {}}}', True),
        ('{"id": "1", "product": {"meta": "a"}}', True),
        ('{"id": "1", "product": {"meta": false}}', True),
        ('{"id": "1", "product": {"meta": [1, "a"]}, "x": [1, "a"]}', True),
        ('{"id": "1", "product": {"meta": {"a":  1, "a": 2}}}', True),
        ('{"id": "1", "product": {"met\\u0061": {"id": 7}, "id": "3"}}', True),
        ('{"id": "1", "product": {"meta": {"a": "\\ud83d\\ude00", "b": 1e-9, "c": 7' + "0" * 400 + "}}}", True),
        ('{"id": "1", "meta": {"a": 1}, "product": {"id": "3", "meta": null}}', True),
        ('{"id": "1", "meta": 7, "product": null}', True),
        ('{"id": "1", "product": {"meta": 1, "meta": [2, "a"]}}', True),
        ('{"id": "1", "product": {"meta": "\\u0000"}}', True),
        ('{"id": "1", "product": {"meta": {"a": "\\u0000"}}}', True),
        ('{"id": "1", "product": {"meta": {}, "weight": 1}}', False),
        ('{"id": "1", "product": {"meta": [1, "a"], "weight": 1}}', False),
        ('{"id": "1", "product": {"weight": 1}}', False),
        ('{"id": "1", "product": {"weight": null}}', False),
        ('{"id": "1", "product": {"meta": {"a": [1, "b"]}}}', True),
        ('{"id": "1", "product": "a"}', False),
        ('{"id": "1", "creator": {"id": 2}}', False),
        ('{"id": "1", "creator": {"team": "a"}}', False),
        ('{"id": "1", "x": [1, "a"], "creator": {"team": "a"}}', False),
        ('{"id": "1"}', True),
        ('{"id": "1", "product": null}', True),
        ('{"id": "1", "product": {}}', True),
        ('{"id": "1", "product": {"id": "3"}}', True),
        ('{"id": "1", "product": {"meta": null}, "x": [1, "a"]}', True),
        ('{"id": "1", "product": {"id": "3"}, "x": [1, "a"]}', True),
    ],
)
def test_the_way_that_templates_go(row: str, *, fits: bool) -> None:
    """Documented parts fit, be a meta what it may; other fields in them do not."""
    body = page_of_text(f'[{row}, {{"id": "2"}}, {{"id": "3", "product": {{"meta": {{"a": "b"}}}}}}]')
    quickly = fast_or_none(body, "templates")
    assert (quickly is not None) is fits
    assert quickly in (None, tolerantly(body, "templates"))
