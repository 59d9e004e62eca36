"""Every personal value is treated by its policy, and no trace of it remains."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from itertools import product
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from letters_source.decode.page import decode_page
from letters_source.decode.row_schema import row_schema
from letters_source.tables import TABLES, Column
from letters_source.transform.privacy import CHOICES, PERSONAL, Policy, Privacy, hash_texts
from pages import golden, page_of

KEY = b"sixteen bytes or more"
LISTINGS = ("contacts", "templates")
CANARY = "canary"
NOTE = f'{{"x":"{CANARY}"}}'
POLICIES: tuple[Policy, ...] = get_args(Policy)
TREATING = POLICIES[1:]
EVERYWHERE = {
    "first_name", "last_name", "full_name", "company_name", "address1", "address2", "city", "zip", "phone_no",
    "extension", "website_url", "email",
}  # fmt: skip


def privacy(**policies: Policy) -> Privacy:
    """Return privacy settings of these policies, with a key."""
    return Privacy(policies, KEY)


def all_treated(policy: Policy) -> Privacy:
    """One policy for every personal column."""
    return Privacy(dict.fromkeys(PERSONAL, policy), KEY)


def batch_of(listing: str, *rows: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows in the row shape; what they do not name is null."""
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=row_schema(listing))


def contacts_of(column: str, *values: str | None) -> pa.RecordBatch:
    """A contact for each value of a column."""
    return batch_of("contacts", *({"id": str(number), column: value} for number, value in enumerate(values)))


def hashed(text: str | None, key: bytes = KEY) -> str | None:
    """Keyed BLAKE2b of the standard library in one call; a key longer than it takes is hashed first."""
    short = key if len(key) <= 64 else blake2b(key).digest()
    return None if text is None else blake2b(text.encode(), key=short, digest_size=16).hexdigest()


FILTERS = {"search": "Kowalski", "tags": ["vip", "4"], "address_status": ["Failed"]}
RECORDED = {
    "nothing": ({}, KEY, FILTERS),
    "another column": ({"org_id": "hash", "undocumented": "drop"}, KEY, FILTERS),
    "the label's title": (
        {"title": "hash"},
        KEY,
        {**FILTERS, "search": hashed("Kowalski"), "tags": sorted([str(hashed("vip")), str(hashed("4"))])},
    ),
    "a column of contacts": ({"email": "hash"}, KEY, {**FILTERS, "search": hashed("Kowalski")}),
    "a dropped column": ({"email": "drop", "city": "hash"}, KEY, {**FILTERS, "search": hashed("filter Kowalski")}),
    "a masked column": ({"email": "mask"}, KEY, {**FILTERS, "search": hashed("filter Kowalski")}),
    "no key": ({"email": "mask", "title": "drop"}, b"", {**FILTERS, "search": "***", "tags": "***"}),
}


@pytest.mark.parametrize("treated", RECORDED)
def test_filters_are_recorded_as_the_columns_that_they_match(treated: str) -> None:
    """A filter on a hashed column has the column's hash, on others that are not kept one that no column has."""
    policies, key, recorded = RECORDED[treated]
    assert Privacy(policies, key).recorded_filters("contacts", FILTERS) == recorded  # type: ignore[arg-type]
    assert Privacy({"full_name": "hash"}, KEY).recorded_filters("templates", {"search": 1, "creator": "Eve"}) == {
        "search": 1,
        "creator": hashed("Eve"),
    }


@pytest.mark.parametrize("first", POLICIES)
@pytest.mark.parametrize("then", POLICIES)
def test_recorded_filters_are_recognized_under_any_policy(first: Policy, then: Policy) -> None:
    """Whichever policy a filter was recorded with, a load with any policy finds out whether it is its own."""
    for value, other in (("Kowalski", "Miller"), (["4", "vip"], ["vip"])):
        name = "tags" if isinstance(value, list) else "search"
        held = all_treated(first).recorded_value("contacts", name, value)
        assert all_treated(then).may_be(held, "contacts", name, value)
        assert not all_treated(then).may_be(held, "contacts", name, other)
    assert Privacy({"email": "drop"}).may_be("***", "contacts", "search", "whatever")
    assert not Privacy({"email": "drop"}).may_be("***", "contacts", "address_status", ["Failed"])


def buffers_of(values: pa.Array) -> Iterator[bytes]:
    """All memory that an array holds, whether it shows it or not."""
    return (buffer.to_pybytes() for buffer in values.buffers() if buffer)


def all_bytes(batch: pa.RecordBatch) -> bytes:
    """Return what the spool would write of a batch, and what the batch holds in memory."""
    return b"".join(
        [batch.serialize().to_pybytes(), *(held for column in batch.columns for held in buffers_of(column))]
    )


def personal_columns() -> set[tuple[str, str]]:
    """The tables and names of the columns that are marked."""
    return {(table.name, column.name) for table in TABLES for column in table.columns if column.personal}


def test_names_that_can_have_a_policy() -> None:
    """Personal columns can have each policy, and undocumented can be kept or dropped."""
    assert set(PERSONAL) == EVERYWHERE | {"title"}
    assert len(PERSONAL) == len(set(PERSONAL))
    expected = dict.fromkeys(PERSONAL, ("keep", "hash", "mask", "drop")) | {"undocumented": ("keep", "drop")}
    assert expected == CHOICES


def test_personal_columns_are_texts_that_may_be_null() -> None:
    """All personal columns are texts that may be null: those of contacts, creators and labels."""
    assert {(c.kind, c.nullable) for t in TABLES for c in t.columns if c.personal} == {("text", True)}
    nested = {("templates__creator", "full_name"), ("contacts__contact_labels", "title")}
    assert personal_columns() == {("contacts", name) for name in EVERYWHERE} | nested


def test_the_key_is_not_shown() -> None:
    """The repr of a privacy setting does not show its key."""
    assert repr(privacy(email="hash")) == "Privacy(policies={'email': 'hash'}, kept=frozenset())"


def test_an_audit_names_the_hash_method() -> None:
    """The audit names the hash method, and has a fingerprint of the key, where something is hashed, and only there."""
    assert privacy(email="mask").recorded == {"email": "mask"}
    fingerprints = set[str]()
    for key in (b"", KEY, b"another key of more than 64 bytes, which is as long as BLAKE2b takes"):
        policies = Privacy({"email": "mask", "city": "hash"}, key).recorded
        fingerprints.add(policies.pop("pii_key_fingerprint"))
        assert policies == {"email": "mask", "city": "hash", "hash_method": "blake2b"}
    assert len(fingerprints) == 3
    assert {len(each) for each in fingerprints} == {8}


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize(
    "policies", [{}, {"undocumented": "keep"}, {"email": "keep"}, {**dict.fromkeys(PERSONAL, "keep")}]
)
def test_a_batch_of_which_all_is_kept_is_the_same_batch(policies: dict[str, Policy], listing: str) -> None:
    """A batch of which all is kept comes back uncopied."""
    batch = golden(listing).rows
    assert Privacy(policies).treat(batch, listing) is batch


def test_a_listing_without_the_columns_is_the_same_batch() -> None:
    """A batch of templates comes back uncopied if the policies name columns that templates do not have."""
    batch = golden("templates").rows
    assert privacy(email="drop", title="drop", undocumented="keep").treat(batch, "templates") is batch


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_batch_stays_empty(policy: Policy, listing: str) -> None:
    """A batch without rows keeps every column of its type."""
    treated = all_treated(policy).treat(decode_page(page_of(), listing, 0).rows, listing)
    assert (treated.num_rows, treated.schema) == (0, row_schema(listing))
    treated.validate(full=True)


@pytest.mark.parametrize("column", sorted(EVERYWHERE))
def test_each_column_is_hashed(column: str) -> None:
    """Each text becomes its keyed BLAKE2b hash, and null stays null."""
    values = ("Alex", "", None, "Nguyễn 😀", "Alex", "x" * 1000, " Alex", "é", "e\u0301", "\0")
    batch = contacts_of(column, *values)
    treated = Privacy({column: "hash"}, KEY).treat(batch, "contacts")
    assert treated[column].to_pylist() == [hashed(value) for value in values]
    assert treated.drop_columns([column]).equals(batch.drop_columns([column]))


def test_the_hash_of_a_known_text() -> None:
    """A text's hash stays the same from release to release, or every row of a history would change."""
    (value,) = hash_texts(pa.array(["Hi There"]), b"sixteen bytes or more").to_pylist()
    assert value == "111f9688b5da7e95c03d2ea14e179050"


@pytest.mark.parametrize("length", [16, 63, 64, 65, 128, 129])
def test_keys_of_any_length_are_used_whole(length: int) -> None:
    """Keys longer than the 64 bytes that BLAKE2b takes are hashed first."""
    key = bytes(range(length))
    treated = Privacy({"city": "hash"}, key).treat(contacts_of("city", "Newark"), "contacts")
    assert treated["city"].to_pylist() == [hashed("Newark", key)]


@pytest.mark.parametrize("column", sorted(EVERYWHERE - {"email", "zip"}))
def test_most_texts_are_masked_but_for_their_first_character(column: str) -> None:
    """Only the first of several characters is shown, null stays null, and empty stays empty."""
    values = ("Alex", "J", "Jo", "", None, "Éa", "É", "😀b", "\nx", " x", "A***")
    masked = ("A***", "***", "J***", "", None, "É***", "***", "😀***", "\n***", " ***", "A***")
    batch = contacts_of(column, *values)
    treated = Privacy({column: "mask"}).treat(batch, "contacts")
    assert treated[column].to_pylist() == list(masked)
    assert treated.drop_columns([column]).equals(batch.drop_columns([column]))


def test_postal_codes_are_masked_but_for_three_characters() -> None:
    """Three characters of a longer postal code are shown, and nothing of a shorter one."""
    values = ("62704", "07102-1234", "0710", "071", "07", "7", "", None, "ÄÖÜß", "SW1A 1AA")
    masked = ("627**", "071**", "071**", "***", "***", "***", "", None, "ÄÖÜ**", "SW1**")
    treated = privacy(zip="mask").treat(contacts_of("zip", *values), "contacts")
    assert treated["zip"].to_pylist() == list(masked)


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("alex@example.org", "***@example.org"),
        ("a@example.org", "***@example.org"),
        ("ünï@exämple.org", "***@exämple.org"),
        ('"a@b"@example.org', "***@example.org"),
        ("Alex Example\n<alex@example.org>", "***@example.org>"),
        ("alex@", "***@"),
        ("@example.org", "***"),
        ("@", "***"),
        ("alex", "***"),
        ("a", "***"),
        ("alex @ home", "***"),
        ("alex@example.org ", "***"),
        ("alex@example.org\n", "***"),
        ("", ""),
        (None, None),
    ],
)
def test_email_addresses_are_masked_but_for_their_domain(value: str | None, masked: str | None) -> None:
    """The domain of an address is shown, and nothing of a text that is no address."""
    treated = privacy(email="mask").treat(contacts_of("email", value), "contacts")
    assert treated["email"].to_pylist() == [masked]


@pytest.mark.parametrize("column", sorted(EVERYWHERE))
def test_each_column_is_dropped(column: str) -> None:
    """All values of a dropped column are null, and the other columns stay as they are."""
    batch = contacts_of(column, "Alex", "", None)
    treated = Privacy({column: "drop"}).treat(batch, "contacts")
    assert treated[column].to_pylist() == [None] * 3
    assert treated.schema == batch.schema
    assert treated.drop_columns([column]).equals(batch.drop_columns([column]))


def test_policies_differ_by_column() -> None:
    """Each column has its own policy, and one without a policy is kept."""
    treated = privacy(email="mask", last_name="hash", city="drop", zip="keep").treat(
        golden("contacts").rows, "contacts"
    )
    names = ["email", "last_name", "city", "zip", "first_name", "state"]
    assert treated.select(names).to_pydict() == {
        "email": ["***@example.org", "", None],
        "last_name": [hashed("Example"), hashed(""), hashed("O'Example")],
        "city": [None, None, None],
        "zip": ["62704", "07102", "04101"],
        "first_name": ["Alex", "", "Nguyễn"],
        "state": ["Illinois", "New Jersey", "Maine"],
    }


LABELS: tuple[list[dict[str, str | None] | None] | None, ...] = (
    None,
    [],
    [None],
    [{"id": "4", "title": "office", "undocumented": NOTE}, None, {"id": "5", "title": None, "undocumented": None}],
    [{"id": "4", "title": "office", "undocumented": None}],
    None,
    [{"id": None, "title": "", "undocumented": None}],
)


@pytest.mark.parametrize(
    ("policy", "office", "empty"),
    [("hash", hashed("office"), hashed("")), ("mask", "o***", ""), ("drop", None, None)],
)
def test_labels_are_treated_in_their_places(policy: Policy, office: str | None, empty: str | None) -> None:
    """A list that is null, empty or has null labels stays so, and a label keeps its id."""
    batch = batch_of("contacts", *({"id": "1", "contact_labels": labels} for labels in LABELS))
    treated = privacy(title=policy).treat(batch, "contacts")
    treated.validate(full=True)
    label = {"id": "4", "title": office, "undocumented": None}
    assert treated["contact_labels"].to_pylist() == [
        None, [], [None], [label, None, {"id": "5", "title": None, "undocumented": None}], [label], None,
        [{"id": None, "title": empty, "undocumented": None}],
    ]  # fmt: skip
    assert treated.drop_columns(["contact_labels"]).equals(batch.drop_columns(["contact_labels"]))


@pytest.mark.parametrize(
    ("policy", "ada"), [("hash", hashed("Ada Example")), ("mask", "A***"), ("drop", None), ("keep", "Ada Example")]
)
def test_creators_are_treated_in_their_places(policy: Policy, ada: str | None) -> None:
    """A template without a creator has none, and full_name has one policy in both tables."""
    creators = [{"id": "2", "full_name": "Ada Example", "undocumented": None}, None, {"id": "3"}, {}]
    batch = batch_of("templates", *({"id": "1", "title": "Spring", "creator": creator} for creator in creators))
    treated = privacy(full_name=policy).treat(batch, "templates")
    treated.validate(full=True)
    nothing = {"id": None, "full_name": None, "undocumented": None}
    assert treated["creator"].to_pylist() == [
        {"id": "2", "full_name": ada, "undocumented": None}, None, {**nothing, "id": "3"}, nothing,
    ]  # fmt: skip
    assert treated.drop_columns(["creator"]).equals(batch.drop_columns(["creator"]))
    assert privacy(full_name=policy).treat(contacts_of("full_name", "Ada Example"), "contacts")[
        "full_name"
    ].to_pylist() == [ada]


def test_a_column_of_the_same_name_that_is_not_personal_is_kept() -> None:
    """A policy for titles treats those of labels, and keeps those of templates."""
    treated = privacy(title="drop").treat(golden("templates").rows, "templates")
    assert treated["title"].to_pylist() == ["Spring offer", "", "Zweite Mahnung „Ä“"]


@pytest.mark.parametrize(
    ("policies", "note"),
    [
        ({}, NOTE),
        ({"email": "keep"}, NOTE),
        ({"undocumented": "keep"}, NOTE),
        ({"email": "hash", "undocumented": "keep"}, NOTE),
        ({"email": "hash"}, None),
        ({"city": "mask", "email": "keep"}, None),
        ({"title": "drop"}, None),
        ({"undocumented": "drop"}, None),
        ({"email": "drop", "undocumented": "drop"}, None),
    ],
)
def test_what_may_hold_anything_goes_with_the_first_column(policies: dict[str, Policy], note: str | None) -> None:
    """Undocumented values and rejected rows are dropped if any column is treated, unless they are to be kept."""
    label = {"id": "4", "undocumented": NOTE}
    contacts = batch_of(
        "contacts",
        {"id": "1", "undocumented": NOTE, "contact_labels": [label], "page": 5, "position": 0},
        {"reason": "the id is null", "raw": NOTE, "page": 5, "position": 1},
    )
    part = {"id": "2", "undocumented": NOTE}
    templates = batch_of(
        "templates", {"id": "1", "undocumented": NOTE, "creator": part, "product": {**part, "meta": "[1]"}}
    )
    treated = Privacy(policies, KEY).treat(contacts, "contacts")
    assert treated.select(["id", "undocumented", "page", "position", "reason", "raw"]).to_pylist() == [
        {"id": "1", "undocumented": note, "page": 5, "position": 0, "reason": None, "raw": None},
        {"id": None, "undocumented": None, "page": 5, "position": 1, "reason": "the id is null", "raw": note},
    ]
    assert treated["contact_labels"].to_pylist() == [[{"id": "4", "title": None, "undocumented": note}], None]
    (row,) = Privacy(policies, KEY).treat(templates, "templates").to_pylist()
    assert row["undocumented"] == row["creator"]["undocumented"] == row["product"]["undocumented"] == note
    assert (row["creator"]["id"], row["product"]["id"], row["product"]["meta"]) == ("2", "2", "[1]")


def shown(policy: Policy, column: Column, value: str | None) -> str | None:
    """Return what a policy leaves of a name of several letters, a postal code or an address of the golden pages."""
    if policy == "drop" or value is None:
        return None
    if policy == "hash" or not value:
        return value if policy == "mask" else hashed(value)
    masks = {"zip": f"{value[:3]}**", "email": f"***@{value.rpartition('@')[2]}"}
    return masks.get(column.name, f"{value[0]}***")


@pytest.mark.parametrize("policy", TREATING)
@pytest.mark.parametrize("listing", LISTINGS)
def test_the_golden_pages_are_treated(listing: str, policy: Policy) -> None:
    """Every personal value in every table is treated, and all else stays as it is."""
    batch = golden(listing).rows
    expected = batch.to_pylist()
    tables = [table for table in TABLES if table.listing == listing]
    personal = [(table, column) for table in tables for column in table.columns if column.personal]
    for (table, column), row in product(personal, expected):
        part = row if table.origin == "row" else row[table.short]
        for holder in part if isinstance(part, list) else [part]:
            holder[column.name] = shown(policy, column, holder[column.name])
    treated = all_treated(policy).treat(batch, listing)
    assert treated.to_pylist() == expected
    assert treated.schema == batch.schema


@pytest.mark.parametrize("policy", TREATING)
@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 3), slice(1, 2), slice(2, 2)])
def test_a_slice_is_treated_like_a_batch_of_its_rows(rows: slice, listing: str, policy: Policy) -> None:
    """Offsets of the batch, of its lists and of its structs are honored."""
    batch = golden(listing).rows
    part = batch.slice(rows.start, rows.stop - rows.start)
    treated = all_treated(policy).treat(part, listing)
    treated.validate(full=True)
    assert treated.to_pylist() == all_treated(policy).treat(batch, listing).to_pylist()[rows]
    assert part.to_pylist() == batch.to_pylist()[rows]


def test_a_batch_of_sliced_columns_is_treated() -> None:
    """Each column and each nested one may begin elsewhere in its memory."""
    batch = batch_of("contacts", *({"id": str(n), "city": f"c{n}", "contact_labels": LABELS[n]} for n in range(7)))
    sliced = [batch.slice(2, 4)[0], *batch.slice(1, 4).columns[1:]]
    shifted = pa.RecordBatch.from_arrays(sliced, schema=batch.schema)
    treated = privacy(city="hash", title="mask", undocumented="keep").treat(shifted, "contacts")
    treated.validate(full=True)
    assert treated["id"].to_pylist() == ["2", "3", "4", "5"]
    assert treated["city"].to_pylist() == [hashed(f"c{n}") for n in range(1, 5)]
    label = {"id": "4", "title": "o***", "undocumented": NOTE}
    assert treated["contact_labels"].to_pylist() == [
        [], [None], [label, None, {"id": "5", "title": None, "undocumented": None}], [{**label, "undocumented": None}],
    ]  # fmt: skip


def hidden_texts() -> pa.StringArray:
    """Three texts of which the second is null and still in memory."""
    _, offsets, letters = pa.array([f"Xx{CANARY}"] * 3).buffers()
    return pa.StringArray.from_buffers(3, offsets, letters, pa.py_buffer(b"\x05"))


@pytest.mark.parametrize("policy", TREATING)
def test_what_lies_under_a_null_is_not_written(policy: Policy) -> None:
    """What memory holds under a null text, object or list is neither written nor kept."""
    mask = pa.array([False, True, False])
    schema = row_schema("contacts")
    label = schema.field("contact_labels").type.value_type
    parts = pa.StructArray.from_arrays(
        [pa.nulls(3, pa.string()), hidden_texts(), hidden_texts()], fields=list(label), mask=mask
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), parts, type=schema.field("contact_labels").type, mask=mask
    )
    given = {"contact_labels": lists, "first_name": hidden_texts(), "raw": hidden_texts()}
    arrays = [given[field.name] if field.name in given else pa.nulls(3, field.type) for field in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    assert CANARY.encode() in all_bytes(batch)
    treated = all_treated(policy).treat(batch, "contacts")
    treated.validate(full=True)
    assert CANARY.encode() not in all_bytes(treated)
    text = {"hash": hashed(f"Xx{CANARY}"), "mask": "X***", "drop": None}[policy]
    assert treated["first_name"].to_pylist() == [text, None, text]
    labels = [{"id": None, "title": text, "undocumented": None}]
    assert treated["contact_labels"].to_pylist() == [labels, None, labels]


@pytest.mark.parametrize("policy", TREATING)
def test_what_lies_under_a_null_object_is_not_written(policy: Policy) -> None:
    """A name that memory holds under a null creator is neither written nor kept."""
    schema = row_schema("templates")
    texts = [pa.nulls(3, pa.string()), pa.array([f"Xx{CANARY}"] * 3), pa.nulls(3, pa.string())]
    creator = pa.StructArray.from_arrays(texts, fields=list(schema.field("creator").type), mask=pa.array([True] * 3))
    arrays = [creator if field.name == "creator" else pa.nulls(3, field.type) for field in schema]
    treated = all_treated(policy).treat(pa.RecordBatch.from_arrays(arrays, schema=schema), "templates")
    assert treated["creator"].to_pylist() == [None] * 3
    assert CANARY.encode() not in all_bytes(treated)
    assert str(hashed(f"Xx{CANARY}")).encode() not in all_bytes(treated)


def test_pages_are_treated_side_by_side() -> None:
    """Threads that treat pages at the same time do not disturb each other."""
    batches = [contacts_of("email", *(f"{row}@{page}" for row in range(50))) for page in range(40)]
    treat = partial(privacy(email="hash").treat, listing="contacts")
    with ThreadPoolExecutor(8) as pool:
        treated = list(pool.map(treat, batches))
    assert [page["email"].to_pylist() for page in treated] == [
        [hashed(f"{row}@{page}") for row in range(50)] for page in range(40)
    ]


texts = st.text(st.characters(codec="utf-8"), max_size=8)


@pytest.mark.slow
@given(st.lists(st.none() | texts | st.text(st.characters(codec="utf-8"), min_size=50)), st.binary(max_size=200))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_any_text_and_key_hash_as_the_standard_library_says(values: list[str | None], key: bytes) -> None:
    """Any texts, also repeated ones, have the hashes of the standard library under any key."""
    doubled = values + values[::-1]
    array = hash_texts(pa.array(doubled, pa.string()), key)
    array.validate(full=True)
    assert array.to_pylist() == [hashed(value, key) for value in doubled]


def marked(before: st.SearchStrategy[str], after: st.SearchStrategy[str]) -> st.SearchStrategy[str | None]:
    """Texts with the canary in them, and null."""
    return st.none() | st.builds(lambda first, last: f"{first}{CANARY}{last}", before, after)


notes = marked(texts, texts)
labels = st.none() | st.lists(
    st.none() | st.fixed_dictionaries({"id": texts, "title": notes, "undocumented": notes}), max_size=3
)
emails = marked(texts, texts.map(lambda text: f"{text}@example.org"))
marked_contacts = st.fixed_dictionaries(
    {name: emails if name == "email" else notes for name in (*sorted(EVERYWHERE), "raw", "undocumented")}
    | {"id": st.none() | texts.map(lambda text: f"id {text}"), "contact_labels": labels}
)
creators = st.none() | st.fixed_dictionaries({"id": texts, "full_name": notes, "undocumented": notes})
products = st.none() | st.fixed_dictionaries({"name": texts, "meta": texts, "undocumented": notes})
marked_templates = st.fixed_dictionaries(
    {"title": texts, "undocumented": notes, "raw": notes, "creator": creators, "product": products}
)


def cut(batch: pa.RecordBatch, data: st.DataObject) -> pa.RecordBatch:
    """Some of a batch's rows, sliced or filtered."""
    if data.draw(st.booleans()):
        return batch.filter(
            pa.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))), pa.bool_())
        )
    start = data.draw(st.integers(0, len(batch)))
    return batch.slice(start, data.draw(st.integers(0, len(batch) - start)))


def without_personal(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows but for what may be treated."""
    treated = {*EVERYWHERE, "undocumented", "raw"}
    kept = batch.drop_columns([name for name in batch.schema.names if name in treated])
    rows: list[dict[str, Any]] = kept.to_pylist()
    for row in rows:
        labels = list(filter(None, row.get("contact_labels") or ()))
        objects = filter(None, (row.get("creator"), row.get("product"), *labels))
        for holder, name in product(objects, ("full_name", "undocumented")):
            holder.pop(name, None)
        for label in labels:
            label.pop("title", None)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("policy", TREATING)
@pytest.mark.parametrize(("listing", "rows"), [("contacts", marked_contacts), ("templates", marked_templates)])
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=20)
def test_nothing_of_a_treated_value_is_left(
    listing: str, rows: st.SearchStrategy[dict[str, Any]], policy: Policy, data: st.DataObject
) -> None:
    """Nothing of a treated value is left in memory or in what would be written, whatever rows were cut off."""
    batch = cut(batch_of(listing, *data.draw(st.lists(rows, max_size=4))), data)
    treated = all_treated(policy).treat(batch, listing)
    treated.validate(full=True)
    assert CANARY.encode() not in all_bytes(treated)
    assert treated.schema == batch.schema
    assert without_personal(treated) == without_personal(batch)
