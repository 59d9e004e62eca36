"""Decoding as structs and decoding column by column give the same rows."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from letters_source.decode.page import decode_page, read_data, read_fitting, replace_surrogates
from letters_source.decode.row_schema import Notes, to_batch
from letters_source.decode.undocumented import read_rows
from letters_source.tables import Table, tables_of
from pages import PAYLOADS, page_of_text

LISTINGS = ("contacts", "templates")

# unpaired surrogates are replaced before rows are read
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
    texts | st.sampled_from(["countryCode", "_dlt_id", "page", "id ", "ID"]), anything, max_size=2
)


def fitting_values(table: Table) -> dict[str, st.SearchStrategy[Any]]:
    """Documented values for each column of a table."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "text": st.none() | plain_texts,
        "bool": st.none() | st.booleans(),
        "timestamp": st.none() | moments,
        "json": anything,
    }
    return {column.wire: kinds[column.kind] for column in table.documented}


def parts(table: Table, values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """A nested object, with or without its keys."""
    one = st.fixed_dictionaries({}, optional=values)
    return st.none() | (st.lists(one, max_size=3) if table.origin == "list" else one)


def fitting_rows(listing: str) -> st.SearchStrategy[dict[str, Any]]:
    """Rows as documented."""
    root, *children = tables_of(listing)
    optional = fitting_values(root) | {child.wire: parts(child, fitting_values(child)) for child in children}
    ids = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
    return st.fixed_dictionaries({"id": ids}, optional={k: v for k, v in optional.items() if k != "id"})


def odd_rows(listing: str) -> st.SearchStrategy[Any]:
    """Rows in which anything may be any JSON."""
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
    """Pages of such rows, with or without escapes of non-ASCII letters and spaces between tokens."""
    return st.builds(
        write,
        st.lists(rows, max_size=4),
        ascii_only=st.booleans(),
        separators=st.sampled_from([(", ", ": "), (",", ":"), (" ,\n", "\t: ")]),
    )


def write(rows: Sequence[Any], *, ascii_only: bool, separators: tuple[str, str]) -> bytes:
    """A page in one of the ways that services write JSON."""
    body = {"message": "Success", "data": {"count": len(rows), "rows": rows}}
    return json.dumps(body, ensure_ascii=ascii_only, separators=separators).encode()


Decoded = tuple[list[dict[str, Any]], Notes]


def by_columns(body: bytes, listing: str) -> Decoded:
    """A page's rows and notes, read column by column."""
    columns, notes = read_rows(read_data(body, listing).rows, listing)
    return to_batch(columns, listing, 0).to_pylist(), notes


def as_structs(body: bytes, listing: str) -> Decoded | None:
    """A page's rows and notes decoded as structs; None if it does not fit."""
    if not (read := read_fitting(body, listing)):
        return None
    _, columns = read
    return to_batch(columns, listing, 0).to_pylist(), Notes()


def fits(body: bytes, listing: str) -> bool:
    """Whether the page fits; fails if it does and the two ways differ."""
    structs = as_structs(body, listing)
    assert structs in (None, by_columns(body, listing))
    return structs is not None


@pytest.mark.slow
@pytest.mark.parametrize("listing", LISTINGS)
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=40)
def test_both_ways_agree(listing: str, data: st.DataObject) -> None:
    """Documented rows fit; pages with other rows, or with one value replaced, may or may not."""
    documented, odd = fitting_rows(listing), odd_rows(listing)
    assert fits(data.draw(pages(documented)), listing)
    fits(data.draw(pages(documented | odd)), listing)
    rows = data.draw(st.lists(documented, min_size=1, max_size=3))
    root, *children = tables_of(listing)
    wires = [column.wire for column in root.documented] + [child.wire for child in children]
    data.draw(st.sampled_from(rows))[data.draw(st.sampled_from(wires))] = data.draw(scalars | odd_moments | anything)
    fits(write(rows, ascii_only=data.draw(st.booleans()), separators=(",", ":")), listing)


# written as escapes these are pairs, unpaired surrogates, and escaped backslashes before what only looks like one
surrogates = st.lists(st.sampled_from(["\ud83d", "\ude00", "\\", "\\ud83d", "\\ude00", "a"]), max_size=8).map("".join)


def whole(text: str) -> str:
    """A text as Python's own decoder reads it, with U+FFFD for unpaired surrogates."""
    return re.sub("[\ud800-\udfff]", "\ufffd", json.loads(json.dumps(text)))


@pytest.mark.slow
@given(surrogates, surrogates, surrogates)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_unpaired_surrogates_are_replaced_in_names_and_values(city: str, name: str, value: str) -> None:
    """Pairs become their character; unpaired surrogates become U+FFFD, and each is counted."""
    body = write(
        [{"id": "1", "city": city, "x" + name: value}, {"id": "2", "zip": city}], ascii_only=True, separators=(",", ":")
    )
    _, counted = replace_surrogates(body)
    page = decode_page(body, "contacts", 0)
    rows = page.rows.to_pylist()
    assert [rows[0]["city"], rows[1]["zip"]] == [whole(city)] * 2
    assert json.loads(rows[0]["undocumented"]) == {"x" + whole(name): whole(value)}
    # a letter of our own is not among those drawn, so each one stands for a half
    assert counted == sum(whole(text).count("\ufffd") for text in (city, city, name, value))
    assert page.notes == Notes(Counter(["x" + whole(name)]), misfits=counted, surrogates=counted)


@pytest.mark.parametrize("name", ["contacts", "templates", "contacts-surprises"])
def test_both_ways_agree_on_the_golden_pages(name: str) -> None:
    """Both ways read the golden pages alike; the documented ones fit, and the surprises do not."""
    body, listing = (PAYLOADS / f"{name}.json").read_bytes(), name.partition("-")[0]
    assert fits(body, listing) is (name == listing)


@pytest.mark.parametrize(
    "fields",
    [
        '"createdAt": "2023-11-21T09:30:15"', '"createdAt": "2023-11-21T04:30:15-05:00"', '"createdAt": null',
        '"city": "\\u00e9\\ud83d\\ude00"', '"city": "\\\\u0000"', '"city": ""', '"isVerified": null',
        '"ContactLabels": null', '"ContactLabels": []', '"ContactLabels": [{}]', '"ContactLabels": [{"title": "a"}]',
        '"zip": "a", "zip": "b"', '"zip": "a", "z\\u0069p": null',
    ],
)  # fmt: skip
def test_contacts_that_fit(fields: str) -> None:
    """Contacts with documented values, absent or null ones, and repeated keys are decoded as structs."""
    assert fits(page_of_text(f'[{{"id": "1", {fields}}}, {{"id": "2"}}]'), "contacts")


@pytest.mark.parametrize("message", ["null", "7", '{"a": 1}', '[1, "a"]'])
def test_any_message_fits(message: str) -> None:
    """The message is not used, so it may be anything."""
    assert fits(page_of_text('[{"id": "1"}]').replace(b'"Success"', message.encode()), "contacts")


@pytest.mark.parametrize(
    "row",
    [
        '{"id": "1", "zip": 7030}', '{"id": "1", "zip": ["a"]}', '{"id": "1", "city": {"a": 1}}',
        '{"id": "1", "zip": true}', '{"id": "1", "zip": 7, "zip": "a"}',
        '{"id": "1", "x": 1}', '{"id": "1", "x": null}',
        '{"id": "1", "isVerified": "yes"}', '{"id": "1", "isLiveMode": 1}', '{"id": "1", "createdAt": 1700559015123}',
        '{"id": "1", "createdAt": "21-11-2023"}', '{"id": "1", "createdAt": ""}',
        '{"id": "1", "ContactLabels": [null]}', '{"id": "1", "ContactLabels": [null, {"id": "4"}]}',
        '{"id": "1", "ContactLabels": ["a"]}', '{"id": "1", "ContactLabels": {"id": "4"}}',
        '{"id": "1", "ContactLabels": [{"id": 4}]}', '{"id": "1", "ContactLabels": [{"color": "red"}]}',
        '{"id": "1", "city": "\\u0000"}', '{"id": "1", "ContactLabels": [{}, {"title": "\\u0000"}]}',
        '{"id": "1", "city": ' + "[" * 500 + "]" * 500 + "}", '{"id": "1", "\\u0000": 1}',
        '{"id": 1}', '{"id": null}', '{"id": ""}', '{"id": {}}', "{}", "null", "1", '"a"', "[]",
    ],
)  # fmt: skip
def test_contacts_that_do_not_fit(row: str) -> None:
    """Contacts with undocumented fields, other types, NUL or unusable ids are read by columns, and none is lost."""
    body = page_of_text(f'[{{"id": "0"}}, {row}]')
    assert not fits(body, "contacts")
    assert len(by_columns(body, "contacts")[0]) == 2


@pytest.mark.parametrize(
    "fields",
    [
        '"creator": null, "product": null', '"product": {"meta": null, "id": "3"}, "creator": {"id": "2"}',
        '"product": {}', '"product": {"meta": {}}', '"product": {"meta": "a"}', '"product": {"meta": [1, "a"]}',
        '"product": {"meta": {"a":  1, "a": 2}}', '"product": {"met\\u0061": {"id": 7}, "id": "3"}',
        '"product": {"meta": {"a": "\\ud83d\\ude00", "b": 1e-9, "c": 7' + "0" * 400 + "}}",
        '"product": {"meta": 1, "meta": [2, "a"]}', '"product": {"meta": {"a": "\\u0000"}}',
    ],
)  # fmt: skip
def test_templates_that_fit(fields: str) -> None:
    """Templates whose `meta` is any JSON are decoded as structs."""
    assert fits(page_of_text(f'[{{"id": "1", {fields}}}, {{"id": "2"}}]'), "templates")


@pytest.mark.parametrize(
    "fields",
    [
        '"product": {"meta": {}, "weight": 1}', '"product": {"weight": null}', '"product": "a"', '"product": []',
        '"creator": {"id": 2}', '"creator": {"team": "a"}', '"meta": {"a": 1}',
    ],
)  # fmt: skip
def test_templates_that_do_not_fit(fields: str) -> None:
    """Templates with undocumented fields in nested objects, or other types, are read by columns."""
    assert not fits(page_of_text(f'[{{"id": "1", {fields}}}, {{"id": "2"}}]'), "templates")
