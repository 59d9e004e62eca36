"""Decoding pages: exactly the rows of the page, nothing lost, nothing guessed."""

import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from letters_source.decode.page import decode_page, replace_surrogates
from letters_source.decode.row_schema import Notes, row_schema
from letters_source.errors import MalformedResponse
from pages import filled, golden, page_of, page_of_text

ENVELOPE = "contacts page 7: not the documented envelope of {data: {count, rows}}: "
NO_PART = {"reason": None, "raw": None, "undocumented": None}
at = partial(datetime, tzinfo=UTC)


def label(number: str | None = None, title: str | None = None, undocumented: str | None = None) -> dict[str, Any]:
    """A label as it is nested in its contact's row."""
    return {"id": number, "title": title, "undocumented": undocumented}


def read(body: bytes, listing: str = "contacts") -> tuple[list[dict[str, Any]], Notes]:
    """The values of each row of a page that are not null, and the notes."""
    page = decode_page(body, listing, 0)
    return [filled(row) for row in page.rows.to_pylist()], page.notes


def read_contact(**fields: Any) -> dict[str, Any]:
    """The values of one contact with the id 1 that are not null, without the id."""
    (row,), _ = read(page_of({"id": "1", **fields}))
    assert row.pop("id") == "1"
    return row


def read_text(fields: str) -> tuple[dict[str, Any], Notes]:
    """The values of one contact written as JSON that are not null, and the notes."""
    (row,), notes = read(page_of_text(f"[{{{fields}}}]"))
    return row, notes


def refusal(body: bytes) -> tuple[str, bool]:
    """The message of the error for a page, and whether a retry may help."""
    with pytest.raises(MalformedResponse) as caught:
        decode_page(body, "contacts", 7)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    return str(error), error.transient


def test_the_golden_contacts_are_decoded() -> None:
    """Every documented field of a contact lands in its column, and null and empty stay different."""
    page = golden("contacts", 3)
    assert page.count == 25
    assert page.notes == Notes()
    assert page.rows.schema == row_schema("contacts")
    assert page.rows.to_pylist() == [
        {
            "id": "101", "first_name": "Alex", "last_name": "Example", "full_name": "Alex Example",
            "company_name": "ABC, Inc.", "address1": "1234 Random Street", "address2": "Suite 567",
            "city": "Springfield", "state": "Illinois", "zip": "62704", "phone_no": "217-555-0123", "extension": "123",
            "website_url": "https://abc.example.org", "org_id": "1", "email": "alex@example.org", "is_verified": None,
            "is_live_mode": False, "created_at": at(2023, 11, 21, 9, 30, 15, 123_000),
            "contact_labels": [label("4", "office"), label("6", 'Q4 "hot"')],
            "page": 3, "position": 0, **NO_PART,
        },
        {
            "id": "102", "first_name": "", "last_name": "", "full_name": "", "company_name": "Example Holdings",
            "address1": "7 High St", "address2": "", "city": "Newark", "state": "New Jersey", "zip": "07102",
            "phone_no": "", "extension": "", "website_url": "", "org_id": "1", "email": "", "is_verified": None,
            "is_live_mode": True, "created_at": at(2023, 11, 21, 9, 30, 15), "contact_labels": [],
            "page": 3, "position": 1, **NO_PART,
        },
        {
            "id": "103", "first_name": "Nguyễn", "last_name": "O'Example", "full_name": "Nguyễn O'Example",
            "company_name": None, "address1": "9 Rue de l'Été", "address2": None, "city": "Portland", "state": "Maine",
            "zip": "04101", "phone_no": None, "extension": None, "website_url": None, "org_id": "2", "email": None,
            "is_verified": True, "is_live_mode": True, "created_at": at(2024, 2, 29, 23, 59, 59, 999_000),
            "contact_labels": [label("5", "house")],
            "page": 3, "position": 2, **NO_PART,
        },
    ]  # fmt: skip


def test_the_golden_templates_are_decoded() -> None:
    """Creator and product are nested, and any meta is kept as the service wrote it."""
    page = golden("templates")
    assert page.count == 3
    assert page.notes == Notes()
    assert page.rows.schema == row_schema("templates")
    files = "https://files.example.org/org-1"
    ada = {"id": "2", "full_name": "Ada Example", "undocumented": None}
    assert page.rows.to_pylist() == [
        {
            "id": "10", "title": "Spring offer", "template_url": f"{files}/user-1/templates/10.json",
            "template_type": "json", "thumbnail_url": f"{files}/user-1/thumbnails/10.png", "creator": ada,
            "product": {
                "id": "3", "paper_type": "60# Statement", "paper_size": "8.5x11", "delivery_type": "First Class",
                "product_type": "Professional Letters", "envelope_type": "#10 Grey", "postage_type": "Live",
                "name": "Professional Letters, First Class", "meta": None, "undocumented": None,
            },
            "page": 0, "position": 0, **NO_PART,
        },
        {
            "id": "9", "title": "", "template_url": f"{files}/user-1/templates/9.html", "template_type": "html",
            "thumbnail_url": f"{files}/user-1/thumbnails/9.png", "creator": ada,
            "product": {
                "id": "5", "paper_type": "80# Linen", "paper_size": "4.25x5.5", "delivery_type": "Standard Class",
                "product_type": "Personal Letters", "envelope_type": "A7 White", "postage_type": "Stamped",
                "name": "Personal Letters, Standard Class", "meta": '{"folds": 1, "colors": ["black", "blue"]}',
                "undocumented": None,
            },
            "page": 0, "position": 1, **NO_PART,
        },
        {
            "id": "8", "title": "Zweite Mahnung „Ä“", "template_url": f"{files}/user-4/templates/8.json",
            "template_type": "json", "thumbnail_url": None,
            "creator": {"id": "4", "full_name": "Zoë O'Example", "undocumented": None}, "product": None,
            "page": 0, "position": 2, **NO_PART,
        },
    ]  # fmt: skip


def test_the_golden_surprises_are_decoded() -> None:
    """Numbers become text, what does not fit keeps its wire name, and a row without an id is kept whole."""
    page = golden("contacts-surprises")
    assert page.count == 5
    assert page.rows["position"].to_pylist() == [0, 1, 2, 3, 4]
    assert [filled(row) for row in page.rows.to_pylist()] == [
        {
            "id": "201", "first_name": "Number", "last_name": "Id", "full_name": "Number Id", "company_name": "",
            "address1": "1 A St", "address2": "", "city": "X", "state": "Ohio", "zip": "7030", "phone_no": "2175550123",
            "extension": "", "website_url": "", "org_id": "1", "email": "n@example.org", "is_live_mode": True,
            "created_at": at(2023, 11, 21, 9, 30, 15),
            "undocumented": '{"countryCode":"US","customFields":{"Age": 20, "Spouse": "none"},"isVerified":"yes",'
            '"propertyAddress":"2 B St"}',
        },
        {
            "id": "202", "first_name": "No", "last_name": "Extras",
            "contact_labels": [label("4", "office", '{"color":"red"}'), None],
            "undocumented": '{"ContactLabels":[{"id": 4, "title": "office", "color": "red"}, null],'
            '"createdAt":"21-11-2023"}',
        },
        {
            "reason": "the id is null",
            "raw": '{"id": null, "firstName": "No", "lastName": "Id", "ContactLabels": [], "createdAt": null}',
        },
        {
            "id": "204",
            "undocumented": '{"ContactLabels":{"id": "4", "title": "office"},"createdAt":1700559015123,'
            '"firstName":{"given": "Nested"},"isLiveMode":"true","lastName":["L"]}',
        },
        {
            "id": "205", "first_name": "Twin", "email": "nul\ufffdinside@example.org", "is_verified": False,
            "is_live_mode": False, "created_at": at(2023, 11, 21, 9, 30, 15, 123_000), "contact_labels": [None],
            "undocumented": r'{"ContactLabels":["office"],"_dlt_id":"spoof",'
            r'"email":"\"nul\\u0000inside@example.org\"","first_name":"twin"}',
        },
    ]  # fmt: skip
    once = (
        "countryCode",
        "customFields",
        "propertyAddress",
        "isVerified",
        "ContactLabels.color",
        "firstName",
        "lastName",
    )
    assert page.notes.kept == Counter(
        {
            "ContactLabels": 3,
            "createdAt": 2,
            **dict.fromkeys((*once, "isLiveMode", "_dlt_id", "first_name", "email"), 1),
        }
    )
    assert page.notes.misfits == 10
    assert page.notes.numbers == Counter(("id", "zip", "phoneNo", "orgId", "ContactLabels.id"))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"null", "Expected `object`, got `null`."),
        (b"[]", "Expected `object`, got `array`."),
        (b'"canary"', "Expected `object`, got `str`."),
        (b'{"message": "canary"}', "Object missing required field `data`."),
        (b'{"data": null}', "Expected `object`, got `null` - at `$.data`."),
        (b'{"data": "canary"}', "Expected `object`, got `str` - at `$.data`."),
        (b'{"data": {"count": 1}}', "Object missing required field `rows` - at `$.data`."),
        (b'{"data": {"rows": []}}', "Object missing required field `count` - at `$.data`."),
        (b'{"data": {"count": 1, "rows": null}}', "Expected `array`, got `null` - at `$.data.rows`."),
        (b'{"data": {"count": 1, "rows": {"id": "canary"}}}', "Expected `array`, got `object` - at `$.data.rows`."),
        (b'{"data": {"count": 1, "rows": "canary"}}', "Expected `array`, got `str` - at `$.data.rows`."),
        (b'{"data": {"count": null, "rows": []}}', "Expected `int`, got `null` - at `$.data.count`."),
        (b'{"data": {"count": "25", "rows": []}}', "Expected `int`, got `str` - at `$.data.count`."),
        (b'{"data": {"count": true, "rows": []}}', "Expected `int`, got `bool` - at `$.data.count`."),
        (b'{"data": {"count": 1.0, "rows": []}}', "Expected `int`, got `float` - at `$.data.count`."),
        (b'{"data": {"count": 1e3, "rows": []}}', "Expected `int`, got `float` - at `$.data.count`."),
        (b'{"data": {"count": 1e400, "rows": []}}', "Number out of range - at `$.data.count`."),
    ],
)
def test_another_envelope_is_refused_without_a_retry(body: bytes, problem: str) -> None:
    """JSON that is not the documented envelope is an error that names the place and quotes nothing."""
    assert refusal(body) == (ENVELOPE + problem, False)


@pytest.mark.parametrize("count", [-1, -(2**63), -(10**30)])
def test_a_negative_count_is_refused_without_a_retry(count: int) -> None:
    """A count below zero is an error that a retry would not help."""
    assert refusal(page_of(count=count)) == (ENVELOPE + "Expected `int` >= 0 - at `$.data.count`.", False)


@pytest.mark.parametrize("count", [2**53 + 1, 2**63, 2**64, 10**30, 10**400])
def test_a_count_beyond_every_listing_is_refused_without_a_retry(count: int) -> None:
    """A count beyond 2^53, which arithmetic could not hold exactly, is an error that a retry would not help."""
    expected = ENVELOPE + "Expected `int` <= 9007199254740992 - at `$.data.count`."
    assert refusal(page_of(count=count)) == (expected, False)


@pytest.mark.parametrize("count", [0, 2**53])
def test_the_bounds_of_a_count_are_counts(count: int) -> None:
    """Zero and 2^53 are accepted as counts."""
    assert decode_page(page_of(count=count), "contacts", 0).count == count


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"<html><title>canary</title></html>",
        page_of({"id": "canary"})[:-1],
        page_of({"id": "canary"})[:50],
        page_of() + page_of(),
        page_of_text('[{"id": "canary", "zip": NaN}]'),
        page_of_text('[{"id": "canary", "x": -Infinity}]'),
        page_of_text('[{"id": "canary", "x": 01}]'),
        page_of_text('[{"id": "canary", "x": [1,]}]'),
        page_of_text('[{"id": "canary", "x": "\\q"}]'),
        page_of_text('[{"id": "canary", "x": "line\nbreak"}]'),
        page_of_text('[{"id": "canary"}]').replace(b"Success", b"\xff"),
        page_of_text('[{"id": "canary"}]').replace(b"Success", b"\xed\xa0\x80"),
        page_of_text('[{"id": "canary"}]').decode().encode("utf-16"),
    ],
    ids=range(15),
)
def test_a_body_that_is_not_json_is_refused_and_may_be_requested_again(body: bytes) -> None:
    """The errors for HTML, truncated bodies, NaN and invalid UTF-8 give only the length."""
    expected = f"contacts page 7: expected JSON, got {len(body)} bytes of something else."
    assert refusal(body) == (expected, True)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("key", ["city", "isVerified", "unknown"])
def test_a_number_that_json_does_not_have_is_not_json(key: str, number: str) -> None:
    """Neither of our parsers accepts NaN or infinity, whatever the column."""
    body = page_of_text(f'[{{"id": "canary", "{key}": {number}}}]')
    assert refusal(body) == (f"contacts page 7: expected JSON, got {len(body)} bytes of something else.", True)


def test_a_value_that_nests_too_deep_is_refused_without_a_retry() -> None:
    """A value that nests too deep is an error, and a retry would return the same."""
    body = page_of_text(f'[{{"id": "canary", "x": {"[" * 100_000}{"]" * 100_000}}}]')
    assert refusal(body) == ("contacts page 7: a value nests deeper than can be read; report it to the service.", False)


def test_a_byte_order_mark_is_skipped() -> None:
    """A page may begin with one byte order mark, and one with two is not JSON."""
    bom = b"\xef\xbb\xbf"
    assert read(bom + page_of({"id": "1"})) == ([{"id": "1"}], Notes())
    assert refusal(bom * 2 + page_of())[1] is True


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_an_empty_page_has_the_same_columns(listing: str) -> None:
    """A page without rows has every column, each of its type."""
    page = decode_page(page_of(count=9), listing, 1)
    assert (page.count, page.rows.num_rows, page.notes) == (9, 0, Notes())
    assert page.rows.schema == row_schema(listing)


def test_unknown_fields_of_the_envelope_are_named() -> None:
    """Additional fields are noted and change no row; line breaks and another order of keys do not matter."""
    body = b'\n{"next": null,\n"data": {"total": "9", "rows": [{"id": "1"}],\n"count": 1},\n"message": 5}\n'
    assert read(body) == ([{"id": "1"}], Notes(Counter(["response.next", "response.data.total"])))


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("2023-11-21T09:30:15.123Z", at(2023, 11, 21, 9, 30, 15, 123_000)),
        ("2023-11-21T09:30:15Z", at(2023, 11, 21, 9, 30, 15)),
        ("2023-11-21T09:30:15.123456Z", at(2023, 11, 21, 9, 30, 15, 123_456)),
        ("2023-11-21T09:30:15", at(2023, 11, 21, 9, 30, 15)),
        ("2023-11-21 09:30:15.5", at(2023, 11, 21, 9, 30, 15, 500_000)),
        ("2023-11-21T09:30", at(2023, 11, 21, 9, 30)),
        ("2023-11-21T04:30:15-05:00", at(2023, 11, 21, 9, 30, 15)),
        ("2023-11-21T15:00:15.5+0530", at(2023, 11, 21, 9, 30, 15, 500_000)),
        ("0001-01-01T00:00:00Z", at(1, 1, 1)),
        ("9999-12-31T23:59:59.999999Z", at(9999, 12, 31, 23, 59, 59, 999_999)),
    ],
)
def test_timestamps_are_stored_in_utc(sent: str, stored: datetime) -> None:
    """Offsets are applied; a text without one is UTC, whatever the other texts are."""
    assert read_contact(createdAt=sent) == {"created_at": stored}
    rows, notes = read(page_of({"id": "1", "createdAt": sent}, {"id": "2", "createdAt": "soon"}, {"id": "3"}))
    kept = {"id": "2", "undocumented": '{"createdAt":"soon"}'}
    assert (rows, notes) == ([{"id": "1", "created_at": stored}, kept, {"id": "3"}], Notes(Counter(["createdAt"]), 1))


@pytest.mark.parametrize(
    "sent",
    ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-05:00",
     "", "2023-11-21", "21-11-2023", "2023-02-30T00:00:00Z", "2023-11-21T24:00:00Z", "2023-11-21T09:30:15.123456789Z",
     " 2023-11-21T09:30:15Z", "now", "1700559015"],
)  # fmt: skip
def test_texts_that_are_no_timestamps_are_kept(sent: str) -> None:
    """Dates alone, days that do not exist and fractions of microseconds are misfits."""
    rows, notes = read(page_of({"id": "1", "createdAt": sent}))
    assert rows == [{"id": "1", "undocumented": f'{{"createdAt":"{sent}"}}'}]
    assert notes == Notes(Counter(["createdAt"]), 1)


def test_a_timestamp_with_nul_is_kept_once() -> None:
    """A timestamp with NUL is one misfit, kept as the service wrote it."""
    row, notes = read_text(r'"id": "1", "createdAt": "2023\u0000"')
    assert row == {"id": "1", "undocumented": r'{"createdAt":"\"2023\\u0000\""}'}
    assert notes == Notes(Counter(["createdAt"]), 1)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ('"firstName": "canary"', "the id is missing"),
        ('"id": null', "the id is null"),
        ('"id": ""', "the id is empty"),
        ('"id": {"a": 1}', "the id is not usable text"),
        ('"id": ["1"]', "the id is not usable text"),
        ('"id": true', "the id is not usable text"),
        ('"id": false', "the id is not usable text"),
        (r'"id": "1\u00002"', "the id is not usable text"),
    ],
)
def test_a_row_without_a_usable_id_is_kept_whole(sent: str, reason: str) -> None:
    """A row without a usable id has a reason instead, adds nothing to the notes, and disturbs no other row."""
    rows, notes = read(page_of_text(f'[{{"id": "1"}}, {{{sent}, "x": 1}}, {{"id": "2"}}]'))
    raw = f'{{{sent}, "x": 1}}'
    kept = raw if "u0000" not in raw else r'"{\"id\": \"1\\u00002\", \"x\": 1}"'
    assert rows == [{"id": "1"}, {"reason": reason, "raw": kept}, {"id": "2"}]
    assert notes == Notes()


@pytest.mark.parametrize("sent", ["null", "1", '"a"', "[]", "true"])
def test_a_row_that_is_no_object_is_kept_whole(sent: str) -> None:
    """A row that is no object is kept whole with its reason, because the service counts it as a row."""
    rows, notes = read(page_of_text(f'[{{"id": "1"}}, {sent}]'))
    assert rows == [{"id": "1"}, {"reason": "the row is not an object", "raw": sent}]
    assert notes == Notes()


@pytest.mark.parametrize("sent", ["0", "-7", "1.50", "1e400", "1" + "0" * 30])
def test_a_number_becomes_its_own_digits_where_text_is_documented(sent: str) -> None:
    """A number in place of a text keeps its digits as sent, and the notes count it as a number."""
    assert read_text(f'"id": {sent}, "zip": {sent}') == (
        {"id": sent, "zip": sent},
        Notes(numbers=Counter(["id", "zip"])),
    )


@pytest.mark.parametrize("sent", ["true", "{}", '["a"]', '{"given": "Nested"}'])
def test_other_values_do_not_become_text(sent: str) -> None:
    """A value that is neither a string nor a number is null in a text column and kept in `undocumented`."""
    expected = {"id": "1", "undocumented": f'{{"city":{sent}}}'}
    assert read_text(f'"id": "1", "city": {sent}') == (expected, Notes(Counter(["city"]), 1))


@pytest.mark.parametrize("sent", ['"yes"', '""', "2", "0", '"true"', "[]", "{}"])
def test_only_true_and_false_are_booleans(sent: str) -> None:
    """Values other than true and false are misfits of a boolean column, and are not guessed."""
    expected = {"id": "1", "undocumented": f'{{"isVerified":{sent}}}'}
    assert read_text(f'"id": "1", "isVerified": {sent}') == (expected, Notes(Counter(["isVerified"]), 1))


@pytest.mark.parametrize(
    "sent",
    ["null", "5", "-0.5", "1e300", "true", '"US"', '""', '"é"', r'"\u00e9"', "[]", "{}", '[1, "a", null]',
     '{"Age": 20, "Deep": {"er": []}}', "1" + "0" * 30, "7" * 299, f"-{'7' * 299}.{'7' * 299}", "7" * 299 + "e8"],
)  # fmt: skip
def test_an_undocumented_field_is_kept_as_the_service_wrote_it(sent: str) -> None:
    """Scalars, objects and arrays go into the row's undocumented column, spaces and escapes included."""
    rows, notes = read(page_of_text(f'[{{"id": "1", "x": {sent}}}, {{"id": "2"}}]'))
    assert rows == [{"id": "1", "undocumented": f'{{"x":{sent}}}'}, {"id": "2"}]
    assert notes == Notes(Counter(["x"]))


def test_an_undocumented_field_may_change_its_type_from_row_to_row() -> None:
    """Each value is kept as it is, and the notes count the rows with the field."""
    rows, notes = read(page_of_text('[{"id":"1","x":1},{"id":"2","x":"a"},{"id":"3"},{"id":"4","x":[{}],"a":null}]'))
    assert [row.get("undocumented") for row in rows] == ['{"x":1}', '{"x":"a"}', None, '{"a":null,"x":[{}]}']
    assert notes == Notes(Counter({"x": 3, "a": 1}))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("1e400", '"1e400"'),
        ("1e-20000", '"1e-20000"'),
        ("0e99999999999", '"0e99999999999"'),
        ("[1e99999999999999999999]", '"[1e99999999999999999999]"'),
        ("[1e-99999999999999999999]", '"[1e-99999999999999999999]"'),
        ('{"a": -1E999}', r'"{\"a\": -1E999}"'),
        (r'"a\u0000b"', r'"\"a\\u0000b\""'),
        (r'["\u0000"]', r'"[\"\\u0000\"]"'),
        ("7" * 300, f'"{"7" * 300}"'),
        ("7" * 400, f'"{"7" * 400}"'),
        (f"0.{'7' * 300}", f'"0.{"7" * 300}"'),
        (f"[1, {'7' * 300}.5]", f'"[1, {"7" * 300}.5]"'),
        ("7" * 299 + "e20", f'"{"7" * 299}e20"'),
        (f"-{'7' * 5_000}", f'"-{"7" * 5_000}"'),
        (f"[{'7' * 5_000}]", f'"[{"7" * 5_000}]"'),
    ],
)
def test_json_that_an_engine_could_not_hold_is_kept_as_its_text(sent: str, kept: str) -> None:
    """NUL and numbers beyond a double are kept inside a JSON string, also in rows that do not fit."""
    for more in ("", ', "zip": 7'):
        row, notes = read_text(f'"id": "1", "x": {sent}, "y": 1{more}')
        assert row["undocumented"] == f'{{"x":{kept},"y":1}}'
        assert notes.kept == Counter(["x", "y"])


@pytest.mark.parametrize("sent", ['"9e12345 1e-20000"', "1e-16000", "[1.5e3, -2E-5]"])
def test_json_that_every_engine_holds_is_kept_as_it_is(sent: str) -> None:
    """Exponents within bounds, and strings that look like numbers, are kept as they are."""
    row, _ = read_text(f'"id": "1", "x": {sent}')
    assert row["undocumented"] == f'{{"x":{sent}}}'


def test_nul_in_a_text_is_replaced_and_kept() -> None:
    """The column gets U+FFFD, because engines end text at NUL; the value is a misfit."""
    row, notes = read_text(r'"id": "1", "city": "a\u0000b"')
    assert row == {"id": "1", "city": "a\ufffdb", "undocumented": r'{"city":"\"a\\u0000b\""}'}
    assert notes == Notes(Counter(["city"]), 1)


def test_escapes_are_read() -> None:
    """A surrogate pair is one character, and an escaped backslash before u0000 is not NUL."""
    row, notes = read_text(r'"id": "1", "city": "\ud83d\ude00 \u00e9 \/ \n", "state": "\\u0000"')
    assert row == {"id": "1", "city": "\U0001f600 é / \n", "state": "\\u0000"}
    assert notes == Notes()


@pytest.mark.parametrize(
    ("sent", "expected", "surrogates", "kept"),
    [
        (r'"id": "1", "city": "\ud800"', {"id": "1", "city": "\ufffd"}, 1, ""),
        (r'"id": "1", "city": "a\uDFFFb"', {"id": "1", "city": "a\ufffdb"}, 1, ""),
        (r'"id": "\ud800"', {"id": "\ufffd"}, 1, ""),
        (r'"id": "1", "x": "\ude00\ud83d"', {"id": "1", "undocumented": r'{"x":"\ufffd\ufffd"}'}, 2, "x"),
        (r'"id": "1", "\ud800": 1', {"id": "1", "undocumented": '{"\ufffd":1}'}, 1, "\ufffd"),
        (r'"id": "1", "x": ["\uD800"], "zip": 7', {"id": "1", "zip": "7", "undocumented": r'{"x":["\ufffd"]}'}, 1, "x"),
    ],
)  # fmt: skip
def test_an_unpaired_surrogate_stops_nothing(sent: str, expected: dict[str, str], surrogates: int, kept: str) -> None:
    """An unpaired surrogate, which text cannot hold, becomes U+FFFD and counts as a misfit."""
    row, notes = read_text(sent)
    assert row == expected
    assert (notes.surrogates, notes.misfits, notes.kept) == (surrogates, surrogates, Counter([kept] if kept else []))


def test_a_half_outside_the_rows_is_a_misfit_too() -> None:
    """An unpaired surrogate is replaced and counted anywhere in the page."""
    body = rb'{"message": "\ud800", "data": {"count": 1, "rows": [{"id": "1"}], "\udfff": 2}}'
    assert read(body) == ([{"id": "1"}], Notes(Counter(["response.data.\ufffd"]), misfits=2, surrogates=2))


def test_a_half_adds_to_the_misfit_that_it_makes() -> None:
    """A timestamp with an unpaired surrogate is a misfit, and the surrogate is another."""
    row, notes = read_text(r'"id": "1", "createdAt": "2023\ud800"')
    assert row == {"id": "1", "undocumented": r'{"createdAt":"2023\ufffd"}'}
    assert notes == Notes(Counter(["createdAt"]), misfits=2, surrogates=1)


@pytest.mark.parametrize(
    ("body", "repaired", "surrogates"),
    [
        (rb"", rb"", 0),
        (rb"\ud83d\ude00", rb"\ud83d\ude00", 0),
        (rb"\uD83D\uDE00\uDbFf\uDfFf", rb"\uD83D\uDE00\uDbFf\uDfFf", 0),
        (rb"\ud83d\ud83d\ude00", rb"\ufffd\ud83d\ude00", 1),
        (rb"\ud83d\ude00\ude00", rb"\ud83d\ude00\ufffd", 1),
        (rb"\ude00\ud83d", rb"\ufffd\ufffd", 2),
        (rb"\ud83d \ude00", rb"\ufffd \ufffd", 2),
        (rb"\ud83d\n\ude00", rb"\ufffd\n\ufffd", 2),
        (rb"\\ud83d\\ude00", rb"\\ud83d\\ude00", 0),
        (rb"\\\ud83d", rb"\\\ufffd", 1),
        (rb"\ud83d\\ude00", rb"\ufffd\\ude00", 1),
        (rb"\\\\ud83d", rb"\\\\ud83d", 0),
        (rb"ud83d \ud7ff \ue000 \u00d8", rb"ud83d \ud7ff \ue000 \u00d8", 0),
    ],
)
def test_surrogates_are_distinguished_from_pairs_and_from_escaped_backslashes(
    body: bytes, repaired: bytes, surrogates: int
) -> None:
    """Pairs are kept, and an escaped backslash does not begin an escape."""
    assert replace_surrogates(body) == (repaired, surrogates)


def test_only_unpaired_surrogates_are_replaced() -> None:
    """A page that is also malformed in another way stays so, with the same error."""
    assert refusal(rb'{"data": {"count": "\ud800", "rows": []}}') == (
        ENVELOPE + "Expected `int`, got `str` - at `$.data.count`.",
        False,
    )
    body = rb'{"data": "\ud800'
    assert refusal(body) == (f"contacts page 7: expected JSON, got {len(body)} bytes of something else.", True)


def test_the_last_of_equal_keys_wins() -> None:
    """The last of equal keys counts in rows, nested objects, the envelope and undocumented fields."""
    assert read_text('"id": "0", "id": "1", "zip": "a", "zip": null')[0] == {"id": "1"}
    assert read_text('"id": "1", "x": 1, "x": [2]')[0] == {"id": "1", "undocumented": '{"x":[2]}'}
    labels = '"ContactLabels": [{"id": "1"}], "ContactLabels": [{"id": "2", "id": "3"}]'
    assert read_text(f'"id": "1", {labels}')[0] == {"id": "1", "contact_labels": [label("3")]}
    twice = b'{"data": {"count": 1, "rows": []}, "data": {"count": 2, "rows": [], "rows": [{"id": "1"}], "count": 3}}'
    page = decode_page(twice, "contacts", 0)
    assert (page.count, page.rows["id"].to_pylist()) == (3, ["1"])


def test_our_own_names_are_undocumented_on_the_wire() -> None:
    """Fields named like our columns or dlt's never reach a column."""
    names = (
        "_dlt_id",
        "_dlt_load_id",
        "first_name",
        "contact_labels",
        "undocumented",
        "page",
        "position",
        "reason",
        "raw",
        "",
    )
    row, notes = read_text('"id": "1", ' + ", ".join(f'"{name}": "spoof"' for name in names))
    assert row == {"id": "1", "undocumented": "{" + ",".join(f'"{name}":"spoof"' for name in sorted(names)) + "}"}
    assert notes == Notes(Counter(names))


@pytest.mark.parametrize("name", [r"a\"b", r"a\\b", r"a\tb", r"a\u001fb"])
def test_an_undocumented_name_may_need_escapes(name: str) -> None:
    """Quotes, backslashes and control characters in a name are kept."""
    row, notes = read_text(f'"id": "1", "{name}": 1')
    assert row == {"id": "1", "undocumented": f'{{"{name}":1}}'}
    assert notes == Notes(Counter([json.loads(f'"{name}"')]))


def test_nul_in_an_undocumented_name_is_replaced() -> None:
    """The key in `undocumented` has U+FFFD, because engines end text at NUL; the notes have the original name."""
    row, notes = read_text(r'"id": "1", "a\u0000b": 1')
    assert row == {"id": "1", "undocumented": '{"a\ufffdb":1}'}
    assert notes == Notes(Counter(["a\0b"]))


@pytest.mark.parametrize(
    ("sent", "labels", "notes"),
    [
        ("null", None, Notes()),
        ("[]", [], Notes()),
        ("[{}]", [label()], Notes()),
        ("[null]", [None], Notes(Counter(["ContactLabels"]), 1)),
        ('["office", []]', [None, None], Notes(Counter({"ContactLabels": 2}), 2)),
        ('"office"', None, Notes(Counter(["ContactLabels"]), 1)),
        ('{"id": "4"}', None, Notes(Counter(["ContactLabels"]), 1)),
        ('[{"id": 4}]', [label("4")], Notes(numbers=Counter(["ContactLabels.id"]))),
        ('[{"id": {}, "title": "t"}]', [label(None, "t", '{"id":{}}')], Notes(Counter(["ContactLabels.id"]), 1)),
        (
            '[{"id": "4", "color": "red"}]',
            [label("4", None, '{"color":"red"}')],
            Notes(Counter(["ContactLabels.color"])),
        ),
        (
            '[{"id": "4"}, null, {"id": true, "color": 1}]',
            [label("4"), None, label(None, None, '{"color":1,"id":true}')],
            Notes(Counter(["ContactLabels", "ContactLabels.id", "ContactLabels.color"]), 2),
        ),
    ],
)  # fmt: skip
def test_labels_keep_their_places(sent: str, labels: list[Any] | None, notes: Notes) -> None:
    """An element that is not a label is null in its place, and the contact keeps the whole list."""
    page = decode_page(page_of_text(f'[{{"id": "1", "ContactLabels": {sent}}}]'), "contacts", 0)
    assert page.rows["contact_labels"].to_pylist() == [labels]
    assert page.rows["undocumented"].to_pylist() == [
        f'{{"ContactLabels":{sent}}}' if notes.kept["ContactLabels"] else None
    ]
    assert page.notes == notes


def test_nested_objects_keep_what_did_not_fit() -> None:
    """Creator and product have an undocumented column of their own; their notes carry the path."""
    creator = '{"id": 2, "fullName": {"a": 1}, "team": "x"}'
    body = page_of_text(f'[{{"id": "1", "creator": {creator}, "product": {{"meta": {{"a":  1}}, "weight": 5}}}}]')
    (row,), notes = read(body, "templates")
    assert row["creator"] == {"id": "2", "full_name": None, "undocumented": '{"fullName":{"a": 1},"team":"x"}'}
    assert filled(row["product"]) == {"meta": '{"a":  1}', "undocumented": '{"weight":5}'}
    assert notes == Notes(Counter(["creator.fullName", "creator.team", "product.weight"]), 1, Counter(["creator.id"]))


@pytest.mark.parametrize("sent", ['"Professional Letters"', '["a"]', "5", "true"])
def test_a_product_that_is_no_object_is_kept(sent: str) -> None:
    """The template has no product then, and its undocumented column has the value."""
    (row,), notes = read(page_of_text(f'[{{"id": "1", "product": {sent}}}]'), "templates")
    assert row == {"id": "1", "undocumented": f'{{"product":{sent}}}'}
    assert notes == Notes(Counter(["product"]), 1)


@pytest.mark.parametrize("sent", ["{}", '{"meta": null}'])
def test_an_empty_product_is_a_product(sent: str) -> None:
    """A product without values exists, although all its columns are null."""
    page = decode_page(
        page_of_text(f'[{{"id": "1", "product": {sent}}}, {{"id": "2", "product": null}}]'), "templates", 0
    )
    first, second = page.rows["product"].to_pylist()
    assert (set(first.values()), second, page.notes) == ({None}, None, Notes())


@pytest.mark.parametrize("sent", ["{}", '{"a": [1, {"b": null}]}', "[]", "5", '"text"'])
def test_a_products_meta_is_kept_as_the_service_wrote_it(sent: str) -> None:
    """A product's meta is kept as the service wrote it, and nothing in it is a misfit."""
    (row,), notes = read(page_of_text(f'[{{"id": "1", "product": {{"id": "3", "meta": {sent}}}}}]'), "templates")
    assert filled(row["product"]) == {"id": "3", "meta": sent}
    assert notes == Notes()


@pytest.mark.parametrize("depth", [499, 600, 900])
def test_deep_json_is_kept(depth: int) -> None:
    """Undocumented values may nest as deep as the interpreter allows."""
    deep = "[" * depth + "]" * depth
    assert read_text(f'"id": "1", "x": {deep}')[0] == {"id": "1", "undocumented": f'{{"x":{deep}}}'}


@pytest.mark.slow
def test_json_too_deep_to_be_read_is_refused() -> None:
    """JSON too deep for a decoder is refused, also where brackets in strings hide the depth at first."""
    refused = []
    for depth in range(800, 1050):
        meta = "[" * depth + "]" * depth
        first = f'{{"id": "1", "title": "{"]" * depth}", "product": {{"meta": {meta}}}}}'
        body = page_of_text(f'[{first}, {{"id": "2", "product": {{"meta": "a"}}}}]')
        try:
            assert read(body, "templates")[0][0]["product"]["meta"] == meta
        except MalformedResponse:
            refused.append(depth)
    assert refused == [*range(refused[0], 1050)]
    assert 900 < refused[0] <= 950


def below(frames: int, body: bytes) -> None:
    """Read a page from a call stack that many frames deep."""
    if frames:
        below(frames - 1, body)
    else:
        read(body)


def test_a_deep_value_is_kept_or_refused_however_deep_the_stack_is() -> None:
    """Deep values end in no other error, though calls share their recursion limit up to Python 3.11."""
    kept = 0
    for depth in range(800, 900):
        body = page_of_text(f'[{{"id": "1", "x": {"[" * depth}1e5{"]" * depth}}}]')
        with suppress(MalformedResponse):
            below(100, body)
            kept += 1
    assert kept


def test_notes_add_up() -> None:
    """The sum of the notes of two pages has the counts of both."""
    first = Notes(Counter(["x"]), 1, Counter(["zip"]), 1)
    second = Notes(Counter(["x", "y"]), 2, Counter(["id"]), 3)
    assert first + second == Notes(Counter({"x": 2, "y": 1}), 3, Counter(["zip", "id"]), 4)
