"""The query parameters of requests, in each format that the interface allows."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from datetime import date
from typing import Any, get_args

import pytest

from letters_source.errors import SettingsError
from letters_source.service.listings import (
    ADDRESS_STATUSES,
    CONTACTS,
    LAST_MAILED_STATUSES,
    LISTINGS,
    PRODUCT_TYPES,
    TEMPLATES,
    ContactFilters,
    DateFormat,
    FilterEncoding,
    FilterForm,
    Filters,
    TemplateFilters,
    check_days,
    given,
    is_identifier,
    refined,
    unknown_statuses,
)

ISO, COMPACT, DAY_FIRST = FilterForm(), FilterForm(encoding="compact"), FilterForm(date_format="%d-%m-%Y")
YEAR: dict[str, Any] = {"last_mailed_from": date(2024, 1, 31), "last_mailed_to": date(2024, 12, 1)}
ALL_CONTACTS = ContactFilters(
    search="a b&c", address_status=("Failed", "Verified"), last_mailed_status=("In Transit", "Mailed"),
    last_mailed_from=date(2024, 1, 31), last_mailed_to=date(2024, 12, 1), tags=("4", 'Q4 "hot"'),
    with_property_addresses=False, is_return_address=True, account_id="502",
)  # fmt: skip
ALL_TEMPLATES = TemplateFilters(
    search=1, product_types=("Professional Letters", "Personal Letters"), creator="Zoë", is_shared=False, account_id="5"
)


def problem(make: Callable[..., object], *values: object, **filters: Any) -> str:
    """The message of the error that filters, or a check of them, end with."""
    with pytest.raises(SettingsError) as caught:
        make(*values, **filters)
    return str(caught.value)


def test_the_listings_are_those_of_the_interface() -> None:
    """Paths, and which listing gets the refresh token, are those of service-interface 4 and 5."""
    assert LISTINGS == {"templates": TEMPLATES, "contacts": CONTACTS}
    assert [(each.name, each.path, each.sends_refresh_token) for each in LISTINGS.values()] == [
        ("templates", "/templates", False),
        ("contacts", "/contacts", True),
    ]


def test_the_values_are_those_of_the_interface() -> None:
    """Values of filters are those of service-interface 4.1 and 4.2, with ways to write days and lists of our own."""
    assert (ADDRESS_STATUSES, LAST_MAILED_STATUSES) == (("Failed", "Verified"), ("In Transit", "Mailed", "Scheduled"))
    assert PRODUCT_TYPES == ("Professional Letters", "Personal Letters")
    assert get_args(DateFormat) == ("%Y-%m-%d", "%d-%m-%Y")
    assert get_args(FilterEncoding) == ("json", "compact")
    assert FilterForm() == FilterForm("%Y-%m-%d", "json")


@pytest.mark.parametrize("kind", [ContactFilters, TemplateFilters])
def test_no_filters_are_no_parameters(kind: type[Filters]) -> None:
    """A filter that is not set is not sent."""
    assert kind().encode(ISO) == {}
    assert given(kind()) == {}


def test_every_contact_filter_is_a_parameter() -> None:
    """All filters of service-interface 4.2 are sent in its order, the two days as one object."""
    assert ALL_CONTACTS.encode(ISO) == {
        "search": "a b&c",
        "addressStatus": '["Failed", "Verified"]',
        "lastMailedStatus": '["In Transit", "Mailed"]',
        "lastMailedDate": '{"startDate": "2024-01-31", "endDate": "2024-12-01"}',
        "tags": '[4, "Q4 \\"hot\\""]',
        "withPropertyAddresses": "false",
        "isReturnAddress": "true",
        "meta.account_id": "502",
    }
    assert len(ALL_CONTACTS.encode(ISO)) == len(fields(ContactFilters)) - 1


def test_every_template_filter_is_a_parameter() -> None:
    """All filters of service-interface 4.1 are sent in its order, and product types have commas and no quotes."""
    assert ALL_TEMPLATES.encode(ISO) == {
        "search": "1",
        "productTypes": "Professional Letters,Personal Letters",
        "creator": "Zoë",
        "isShared": "false",
        "meta.account_id": "5",
    }
    assert len(ALL_TEMPLATES.encode(ISO)) == len(fields(TemplateFilters))


def test_compact_lists_and_objects_have_no_blanks() -> None:
    """Compact lists and objects have no blanks but those of their texts."""
    changed = {
        "addressStatus": '["Failed","Verified"]',
        "lastMailedStatus": '["In Transit","Mailed"]',
        "lastMailedDate": '{"startDate":"2024-01-31","endDate":"2024-12-01"}',
        "tags": '[4,"Q4 \\"hot\\""]',
    }
    assert ALL_CONTACTS.encode(COMPACT) == ALL_CONTACTS.encode(ISO) | changed
    assert ALL_TEMPLATES.encode(COMPACT) == ALL_TEMPLATES.encode(ISO)


def test_days_may_be_written_first() -> None:
    """Dates can be sent with the day first, and nothing else changes."""
    changed = {"lastMailedDate": '{"startDate": "31-01-2024", "endDate": "01-12-2024"}'}
    assert ALL_CONTACTS.encode(DAY_FIRST) == ALL_CONTACTS.encode(ISO) | changed
    assert ALL_TEMPLATES.encode(DAY_FIRST) == ALL_TEMPLATES.encode(ISO)
    both = FilterForm("%d-%m-%Y", "compact")
    assert ALL_CONTACTS.encode(both)["lastMailedDate"] == '{"startDate":"31-01-2024","endDate":"01-12-2024"}'


@pytest.mark.parametrize(
    ("filters", "parameters"),
    [
        (ContactFilters(search=""), {"search": ""}),
        (ContactFilters(tags=("12",)), {"tags": "[12]"}),
        (ContactFilters(tags=("007", "-1", "٤", "1e3")), {"tags": '["007", "-1", "٤", "1e3"]'}),
        (ContactFilters(tags=("été", "VIP 🎩")), {"tags": '["été", "VIP 🎩"]'}),
        (ContactFilters(is_return_address=False), {"isReturnAddress": "false"}),
        (ContactFilters(with_property_addresses=True), {"withPropertyAddresses": "true"}),
        (ContactFilters(last_mailed_status=("Returned",)), {"lastMailedStatus": '["Returned"]'}),
        (TemplateFilters(search=0), {"search": "0"}),
        (TemplateFilters(product_types=()), {"productTypes": ""}),
        (TemplateFilters(creator=""), {"creator": ""}),
        (TemplateFilters(is_shared=True), {"isShared": "true"}),
    ],
)
def test_a_filter_alone_is_a_parameter_alone(filters: Filters, parameters: dict[str, str]) -> None:
    """False, 0 and empty text are values; non-ASCII letters are percent-encoded later."""
    assert filters.encode(ISO) == parameters


def test_tags_are_identifiers_or_titles() -> None:
    """A canonical whole number has no quotes; any other text has."""
    found = [tag for tag in ("0", "4", "4711", "04", "+4", "4.0", "", " 4", "٤", "four") if is_identifier(tag)]
    assert found == ["0", "4", "4711"]


@pytest.mark.parametrize("digits", [19, 100, 5000])
def test_a_tag_of_very_many_digits_is_a_title(digits: int) -> None:
    """A tag of more digits than a number holds exactly is sent as a title."""
    tag = "9" * digits
    assert not is_identifier(tag)
    assert ContactFilters(tags=("4", tag)).encode(ISO) == {"tags": f'[4, "{tag}"]'}
    assert is_identifier("9" * 15)


def test_only_documented_address_statuses_and_product_types_are_taken() -> None:
    """The error of an unknown value names it and those that are documented."""
    assert problem(ContactFilters, address_status=("Failed", "failed", "Bounced")) == (
        "sources.letters.contacts.address_status must be Failed or Verified, got 'failed', 'Bounced' "
        "(did you mean Failed?)."
    )
    assert problem(TemplateFilters, product_types=("Postcards",)) == (
        "sources.letters.templates.product_types must be Professional Letters or Personal Letters, got 'Postcards'."
    )


@pytest.mark.parametrize("name", ["address_status", "last_mailed_status", "tags"])
def test_a_plain_text_is_no_list_of_texts(name: str) -> None:
    """A text in place of a list is refused, because it would be read letter by letter."""
    message = f"sources.letters.contacts.{name} must be a tuple, such as ('office',), not a string."
    given: dict[str, Any] = {name: "office"}
    assert problem(lambda: ContactFilters(**given)) == message
    products: Any = "Personal Letters"
    with pytest.raises(SettingsError, match=r"^sources\.letters\.templates\.product_types must be a tuple") as caught:
        TemplateFilters(product_types=products)
    assert caught.value.key == "sources.letters.templates.product_types"


def test_days_go_together_and_in_order() -> None:
    """Both days or none are accepted, the first not after the second."""
    first, last = ContactFilters(last_mailed_from=date(2024, 1, 2)), ContactFilters(last_mailed_to=date(2024, 1, 1))
    for one, names in ((first, ("from", "to")), (last, ("to", "from"))):
        assert problem(check_days, one) == (
            "sources.letters.contacts.last_mailed_{} needs last_mailed_{} too: set both, or none.".format(*names)
        )
    assert problem(check_days, replace(first, last_mailed_to=last.last_mailed_to)) == (
        "sources.letters.contacts.last_mailed_from must not be after last_mailed_to (got 2024-01-02 and 2024-01-01)."
    )
    both = replace(last, last_mailed_from=last.last_mailed_to)
    assert both.encode(ISO) == {"lastMailedDate": '{"startDate": "2024-01-01", "endDate": "2024-01-01"}'}
    for right in (both, ContactFilters(), ContactFilters(**YEAR)):
        check_days(right)


def test_any_last_mailed_status_is_accepted_and_the_unknown_ones_are_found() -> None:
    """Any mailing status is accepted, and those that the interface does not list are found."""
    filters = ContactFilters(last_mailed_status=("Mailed", "Returned", "mailed"))
    assert list(unknown_statuses(filters)) == ["Returned", "mailed"]
    assert list(unknown_statuses(ContactFilters(last_mailed_status=LAST_MAILED_STATUSES))) == []
    assert list(unknown_statuses(TemplateFilters())) == []


def test_the_filters_that_are_set_are_known_by_name() -> None:
    """Values are as in JSON, False counts as set, and the account is left out."""
    assert given(ALL_CONTACTS) == {
        "search": "a b&c", "address_status": ["Failed", "Verified"], "last_mailed_status": ["In Transit", "Mailed"],
        "last_mailed_from": "2024-01-31", "last_mailed_to": "2024-12-01", "tags": ["4", 'Q4 "hot"'],
        "with_property_addresses": False, "is_return_address": True,
    }  # fmt: skip
    assert given(TemplateFilters(product_types=(), creator="", is_shared=False)) == {
        "product_types": [],
        "creator": "",
        "is_shared": False,
    }


def test_refined_filters_are_new_ones() -> None:
    """The original stays unchanged, and the new filters are checked too."""
    before = ContactFilters(search="x")
    assert refined(before, tags=("4",)) == ContactFilters(search="x", tags=("4",))
    assert before == ContactFilters(search="x")
    assert problem(refined, before, address_status=("x",)) == (
        "sources.letters.contacts.address_status must be Failed or Verified, got 'x'."
    )


@pytest.mark.parametrize("kind", [ContactFilters, TemplateFilters])
def test_filters_are_named_and_do_not_change(kind: Any) -> None:
    """Filters are given by name alone, and cannot be changed."""
    with pytest.raises(TypeError):
        kind("ada")
    with pytest.raises(FrozenInstanceError):
        kind().search = "ada"
