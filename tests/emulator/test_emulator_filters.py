"""The filters of section 4 select the right rows."""

from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlencode

import pytest
from served import Client, Serve

from programmable_emulator import ChangingListing, Emulator, Row, Traits

Query = str | Mapping[str, str | list[str]]


@pytest.fixture
def contacts(serve: Serve) -> Client:
    """A client of 400 contacts."""
    return serve(Emulator(contacts=400, templates=0))


@pytest.fixture
def templates(serve: Serve) -> Client:
    """A client of 200 templates."""
    return serve(Emulator(contacts=0, templates=200))


def expected(listing: ChangingListing, chosen: Callable[[Row], object]) -> list[str]:
    """The ids of the rows that a plain comparison chooses; some, but not all."""
    found = [row.id for row in listing.rows() if chosen(row)]
    assert 0 < len(found) < listing.count
    return found


def found(client: Client, listing: str, params: Query) -> list[str]:
    """The ids that the service returns, whose number must be its count."""
    query = params if isinstance(params, str) else urlencode(params, doseq=True)
    data = client.data(listing, f"{query}&pageSize=1000")
    assert data["count"] == len(data["rows"])
    return [row["id"] for row in data["rows"]]


@pytest.mark.parametrize(
    "params",
    [
        "addressStatus=Failed&addressStatus=Verified",
        'addressStatus=["Failed","Verified"]',
        "addressStatus=%5B%22Failed%22%2C%20%22Verified%22%5D",
        {"addressStatus": ["Failed", "Verified"]},
        "addressStatus=%22Failed%22&addressStatus=%22Verified%22",
    ],
)
def test_address_status_is_taken_in_every_documented_form(contacts: Client, params: Query) -> None:
    """Repeated, bracketed and percent-encoded arrays choose the same rows."""
    wanted = expected(contacts.emulator.contacts, lambda row: row.traits.address_status is not None)
    assert found(contacts, "contacts", params) == wanted


def test_last_mailed_status_is_an_open_list(contacts: Client) -> None:
    """Known statuses choose their rows; an unknown one chooses none."""
    wanted = expected(contacts.emulator.contacts, lambda row: row.traits.last_mailed_status in ("In Transit", "Mailed"))
    assert found(contacts, "contacts", 'lastMailedStatus=["In Transit","Mailed"]') == wanted
    assert found(contacts, "contacts", "lastMailedStatus=Returned") == []


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        ('{"startDate":"2024-03-01","endDate":"2024-06-30"}', date(2024, 3, 1), date(2024, 6, 30)),
        ('{"startDate":"01-03-2024","endDate":"30-06-2024"}', date(2024, 3, 1), date(2024, 6, 30)),
        ('{"startDate":"2024-10-01"}', date(2024, 10, 1), date.max),
        ('{"endDate":"2024-02-01","startDate":null}', date.min, date(2024, 2, 1)),
    ],
)
def test_last_mailed_date_takes_both_formats_days_inclusive(
    contacts: Client, period: str, first: date, last: date
) -> None:
    """A period chooses the contacts mailed within it; those never mailed are left out."""
    wanted = expected(
        contacts.emulator.contacts,
        lambda row: row.traits.last_mailed_date is not None and first <= row.traits.last_mailed_date <= last,
    )
    assert found(contacts, "contacts", {"lastMailedDate": period}) == wanted


def test_a_period_of_one_day_includes_that_day(serve: Serve) -> None:
    """startDate and endDate are both inclusive."""
    emulator = Emulator(contacts=0)
    for day in (1, 2, 3):
        emulator.contacts.insert({"id": str(day)}, traits=Traits(last_mailed_date=date(2024, 5, day)))
    period = '{"startDate":"2024-05-02","endDate":"02-05-2024"}'
    assert serve(emulator).ids("contacts", {"lastMailedDate": period}) == ["2"]


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        ("tags=[4,6]", {"4", "6"}),
        ("tags=4&tags=6", {"4", "6"}),
        ('tags=["4"]', {"4"}),
        ('tags=["office"]', {"4"}),
        ("tags=%5B%22Q4%20%5C%22hot%5C%22%22%5D", {"6"}),
        ("tags=[12,%22Gr%C3%B6%C3%9Fe%20XL%22]", {"7", "12"}),
    ],
)
def test_tags_are_label_ids_or_quoted_titles(contacts: Client, tags: str, labels: set[str]) -> None:
    """A contact with one of the labels is chosen."""
    wanted = expected(
        contacts.emulator.contacts,
        lambda row: labels & {label["id"] for label in row.document["ContactLabels"]},
    )
    assert found(contacts, "contacts", tags) == wanted


@pytest.mark.parametrize("text", ["fernsby", "FERNSBY", "grünwald", "@EXAMPLE.org", "Cañon"])
def test_search_looks_at_names_company_email_and_city(contacts: Client, text: str) -> None:
    """Free text is found in any of them, whatever the case."""
    fields = ("firstName", "lastName", "fullName", "companyName", "email", "city")
    wanted = expected(
        contacts.emulator.contacts,
        lambda row: any(text.lower() in (row.document[field] or "").lower() for field in fields),
    )
    assert found(contacts, "contacts", {"search": text}) == wanted


@pytest.mark.parametrize(("text", "wanted"), [("true", True), ("True", True), ("0", False), ("false", False)])
def test_return_addresses_are_chosen_by_a_boolean(contacts: Client, text: str, *, wanted: bool) -> None:
    """isReturnAddress chooses the rows that are, or are not."""
    chosen = expected(contacts.emulator.contacts, lambda row: row.traits.is_return_address is wanted)
    assert found(contacts, "contacts", {"isReturnAddress": text}) == chosen


def test_property_addresses_are_left_out_on_request_only(contacts: Client) -> None:
    """withPropertyAddresses=false leaves rows out, true does not."""
    without = expected(contacts.emulator.contacts, lambda row: not row.traits.has_property_address)
    assert found(contacts, "contacts", "withPropertyAddresses=false") == without
    assert found(contacts, "contacts", "withPropertyAddresses=true") == contacts.emulator.contacts.ids()


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_an_account_sees_its_own_rows(serve: Serve, listing: str) -> None:
    """meta.account_id chooses the rows of the account."""
    emulator = Emulator(contacts=100, templates=100)
    wanted = expected(getattr(emulator, listing), lambda row: row.traits.account_id == "502")
    assert found(serve(emulator), listing, {"meta.account_id": "502"}) == wanted


def test_filters_add_up(contacts: Client) -> None:
    """Several parameters choose the rows that agree with all of them."""
    wanted = expected(
        contacts.emulator.contacts,
        lambda row: (
            row.traits.address_status == "Verified"
            and "Portland" in row.document["city"]
            and {"id": "5", "title": "house"} in row.document["ContactLabels"]
        ),
    )
    assert found(contacts, "contacts", 'addressStatus=Verified&search=portland&tags=["house"]') == wanted


def test_filtered_pages_follow_changes_of_the_rows(serve: Serve) -> None:
    """A filtered view is rebuilt when a row is added or removed."""
    emulator = Emulator(contacts=0)
    client = serve(emulator)
    for row in ("a", "b", "c"):
        emulator.contacts.insert({"id": row, "city": "Fargo" if row != "b" else "Tampa"})
    assert client.ids("contacts", {"search": "fargo"}) == ["a", "c"]
    assert client.data("contacts", {"search": "fargo", "page": 1, "pageSize": 1})["rows"][0]["id"] == "c"
    emulator.contacts.delete("a")
    assert client.ids("contacts", {"search": "fargo"}) == ["c"]
    emulator.contacts.insert({"id": "d", "city": "FARGO"}, at=0)
    assert client.ids("contacts", {"search": "fargo"}) == ["d", "c"]


def test_rows_of_any_shape_can_be_filtered(serve: Serve) -> None:
    """Labels, products and creators that are no objects match nothing and break nothing."""
    emulator = Emulator(contacts=0, templates=0)
    for number, labels in enumerate([None, [None, "office"], {"id": "4"}, [{"id": 4}]]):
        emulator.contacts.insert({"id": str(number), "ContactLabels": labels})
    emulator.templates.insert({"id": "1", "product": "Letters", "creator": None})
    client = serve(emulator)
    assert client.ids("contacts", "tags=[4]") == ["3"]
    assert client.ids("templates", "productTypes=Letters") == []


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        ("Professional Letters", {"Professional Letters"}),
        ("Personal Letters, Postcards", {"Personal Letters"}),
        ("Professional Letters,Personal Letters", {"Professional Letters", "Personal Letters"}),
    ],
)
def test_product_types_are_separated_by_commas(templates: Client, types: str, wanted: set[str]) -> None:
    """A template with one of the product types is chosen; one without product is not."""
    chosen = expected(
        templates.emulator.templates, lambda row: (row.document["product"] or {}).get("productType") in wanted
    )
    assert found(templates, "templates", {"productTypes": types}) == chosen


@pytest.mark.parametrize(("creator", "wanted"), [("4", "4"), ("zoë", "4"), ("Gideon Fernsby", "7")])
def test_creators_are_found_by_id_or_name(templates: Client, creator: str, wanted: str) -> None:
    """creator is an id or a part of the full name."""
    chosen = expected(templates.emulator.templates, lambda row: row.document["creator"]["id"] == wanted)
    assert found(templates, "templates", {"creator": creator}) == chosen


@pytest.mark.parametrize(("text", "wanted"), [("true", True), ("false", False)])
def test_shared_templates_are_chosen_by_a_boolean(templates: Client, text: str, *, wanted: bool) -> None:
    """isShared chooses the templates that are, or are not."""
    chosen = expected(templates.emulator.templates, lambda row: row.traits.is_shared is wanted)
    assert found(templates, "templates", {"isShared": text}) == chosen


@pytest.mark.parametrize(
    ("listing", "params"),
    [
        ("templates", "search=1&productTypes=&creator=&isShared=&meta.account_id="),
        ("contacts", "search=&addressStatus=&lastMailedStatus=[]&lastMailedDate=&tags=&isReturnAddress="),
        ("contacts", "unheardOf=1"),
        ("contacts", "lastMailedDate={}"),
    ],
)
def test_empty_filters_choose_every_row(serve: Serve, listing: str, params: str) -> None:
    """A parameter without a value is no filter, nor is one the document does not name."""
    client = serve(Emulator(contacts=30, templates=30))
    assert found(client, listing, params) == getattr(client.emulator, listing).ids()


@pytest.mark.parametrize(
    ("listing", "params", "message"),
    [
        ("contacts", "addressStatus=Unknown", "addressStatus must be some of Failed, Verified"),
        ("contacts", "addressStatus=[1]", "addressStatus must be a list of strings"),
        ("contacts", 'lastMailedStatus=["Mailed"', "lastMailedStatus must be valid JSON"),
        ("contacts", "addressStatus=%255B%2522Failed%2522%255D", "addressStatus must be some of Failed, Verified"),
        ("contacts", "tags=[true]", "tags must be a list of label ids or quoted titles"),
        ("contacts", "tags=[[4]]", "tags must be a list of label ids or quoted titles"),
        ("contacts", "tags=" + "[" * 5_000, "tags must be valid JSON"),
        ("contacts", "lastMailedDate=2024-01-01", "lastMailedDate must be valid JSON"),
        ("contacts", "lastMailedDate=[]", "lastMailedDate must be an object with startDate and endDate"),
        ("contacts", 'lastMailedDate={"start":1}', "lastMailedDate must be an object with startDate and endDate"),
        (
            "contacts",
            'lastMailedDate={"startDate":"Jan 1"}',
            "lastMailedDate must be days such as 2024-01-31 or 31-01-2024",
        ),
        ("contacts", "isReturnAddress=maybe", "isReturnAddress must be true or false"),
        ("contacts", "withPropertyAddresses=2", "withPropertyAddresses must be true or false"),
        ("templates", "isShared=yes", "isShared must be true or false"),
        ("templates", "search=spring", "search must be a whole number of at least 0"),
    ],
)
def test_a_malformed_filter_is_refused(serve: Serve, listing: str, params: str, message: str) -> None:
    """A malformed filter is answered 400 with a message that names it."""
    response = serve(Emulator()).get(listing, params)
    assert (response.status_code, response.json()) == (400, {"message": message})
