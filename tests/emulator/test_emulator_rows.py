"""The sample rows look like the documented ones."""

import re
from collections import Counter
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from letters_source import emulator as shipped
from programmable_emulator import TODAY, Emulator, Row, Traits

CONTACT_FIELDS = [
    "id", "firstName", "lastName", "fullName", "companyName", "address1", "address2", "city", "state", "zip", "phoneNo",
    "extension", "websiteUrl", "orgId", "email", "isVerified", "isLiveMode", "ContactLabels", "createdAt",
]  # fmt: skip
TEMPLATE_FIELDS = ["id", "title", "templateUrl", "templateType", "thumbnailUrl", "creator", "product"]
PRODUCT_FIELDS = [
    "id", "paperType", "paperSize", "deliveryType", "productType", "envelopeType", "postageType", "name", "meta",
]  # fmt: skip


@pytest.fixture(scope="module")
def contacts() -> list[dict[str, Any]]:
    """Two thousand invented contacts."""
    return [row.document for row in Emulator(contacts=2_000, templates=0).contacts.rows()]


@pytest.fixture(scope="module")
def templates() -> list[dict[str, Any]]:
    """Two hundred invented templates."""
    return [row.document for row in Emulator(contacts=0, templates=200).templates.rows()]


def test_contacts_carry_the_documented_fields_in_order(contacts: list[dict[str, Any]]) -> None:
    """Section 2.4 names every field of a contact, and there is no other."""
    assert {tuple(contact) for contact in contacts} == {tuple(CONTACT_FIELDS)}


def test_templates_carry_the_documented_fields_in_order(templates: list[dict[str, Any]]) -> None:
    """Sections 2.2 and 2.3 name every field of a template, its creator and its product."""
    assert {tuple(template) for template in templates} == {tuple(TEMPLATE_FIELDS)}
    assert {tuple(template["creator"]) for template in templates} == {("id", "fullName")}
    assert {tuple(template["product"]) for template in templates if template["product"]} == {tuple(PRODUCT_FIELDS)}


def test_ids_are_distinct_decimal_texts(contacts: list[dict[str, Any]], templates: list[dict[str, Any]]) -> None:
    """The n-th row has the text of n for its id."""
    assert [contact["id"] for contact in contacts] == [str(number) for number in range(1, 2_001)]
    assert [template["id"] for template in templates] == [str(number) for number in range(1, 201)]


def test_contacts_have_one_and_a_half_labels_each(contacts: list[dict[str, Any]]) -> None:
    """Zero to three distinct labels come equally often."""
    sizes = Counter(len(contact["ContactLabels"]) for contact in contacts)
    assert set(sizes) == {0, 1, 2, 3}
    assert 2_850 < sum(size * times for size, times in sizes.items()) < 3_150
    assert all(len({label["id"] for label in c["ContactLabels"]}) == len(c["ContactLabels"]) for c in contacts)


def test_no_contact_is_a_real_one(contacts: list[dict[str, Any]]) -> None:
    """Mailboxes and sites are under example.org, telephone numbers are the 555-01xx of fiction."""
    assert all(not contact["email"] or contact["email"].endswith("@example.org") for contact in contacts)
    assert all(not contact["websiteUrl"] or contact["websiteUrl"].endswith(".example.org") for contact in contacts)
    assert all(not c["phoneNo"] or re.fullmatch(r"\d{3}-555-01\d\d", c["phoneNo"]) for c in contacts)


def test_texts_are_sometimes_empty_or_null(contacts: list[dict[str, Any]]) -> None:
    """The fields that people leave out are text, empty text and null in turn."""
    for field in ("companyName", "address2", "phoneNo", "extension", "websiteUrl", "email"):
        assert {type(contact[field]) for contact in contacts} == {str, type(None)}
        assert "" in {contact[field] for contact in contacts}
    assert "" in {contact["firstName"] for contact in contacts}


def test_contacts_are_verified_now_and_then(contacts: list[dict[str, Any]]) -> None:
    """isVerified is null for most and true or false for a few."""
    verified = Counter(contact["isVerified"] for contact in contacts)
    assert set(verified) == {None, True, False}
    assert verified[None] > 1_500


def test_zips_keep_their_leading_zeros(contacts: list[dict[str, Any]]) -> None:
    """Every zip is five digits of text, and some begin with 0."""
    zips = {contact["zip"] for contact in contacts}
    assert all(re.fullmatch(r"\d{5}", text) for text in zips)
    assert "07030" in zips


def test_timestamps_have_milliseconds_and_a_zone(contacts: list[dict[str, Any]]) -> None:
    """createdAt is ISO 8601 in UTC."""
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", c["createdAt"]) for c in contacts)


def test_products_and_metas_are_sometimes_null(templates: list[dict[str, Any]]) -> None:
    """A few templates have no product, and a product's meta is null or an object."""
    assert [template["id"] for template in templates if template["product"] is None] == [
        "23", "46", "69", "92", "115", "138", "161", "184",
    ]  # fmt: skip
    metas = {type(template["product"]["meta"]) for template in templates if template["product"]}
    assert metas == {dict, type(None)}


@pytest.mark.parametrize("today", [TODAY, date(2026, 3, 2)])
def test_dates_lie_in_the_year_before_today(today: date) -> None:
    """The newest contact was created, and the newest letter mailed, on the day before, in UTC."""
    rows = shipped.Emulator(2_000, 0, today=today).contacts.rows()
    created = {datetime.fromisoformat(row.document["createdAt"]).date() for row in rows}
    mailed = {row.traits.last_mailed_date for row in rows if row.traits.last_mailed_date}
    first, last = today - timedelta(days=366), today - timedelta(days=1)
    assert (min(created), max(created), max(mailed)) == (first, last, last)
    assert min(mailed) >= first


def test_the_day_changes_dates_and_nothing_else() -> None:
    """Rows of two days differ by as much as the days."""
    one, other = (shipped.Emulator(50, 5, today=TODAY + timedelta(days=days)) for days in (0, 30))
    assert one.templates.rows() == other.templates.rows()
    for before, after in zip(one.contacts.rows(), other.contacts.rows(), strict=True):
        moments = [datetime.fromisoformat(row.document["createdAt"]) for row in (before, after)]
        assert moments[1] - moments[0] == timedelta(days=30)
        assert {**before.document, "createdAt": None} == {**after.document, "createdAt": None}


def test_the_same_seed_gives_the_same_rows() -> None:
    """Rows depend on the seed alone: more of them begin with the fewer."""
    few, many, other = Emulator(5, 5, seed=3), Emulator(50, 50, seed=3), Emulator(5, 5, seed=4)
    assert few.contacts.rows() == many.contacts.rows()[:5]
    assert few.templates.rows() == many.templates.rows()[:5]
    assert few.contacts.rows() != other.contacts.rows()
    assert few.templates.rows() != other.templates.rows()


def test_a_row_given_by_hand_keeps_its_traits() -> None:
    """A test may say what the service knows of its row; by default it knows nothing."""
    assert Row.of({"id": "7"}) == Row("7", b'{"id":"7"}', Traits())
    assert Row.of({"id": 7}, Traits(is_shared=True)) == Row("7", b'{"id":7}', Traits(is_shared=True))
