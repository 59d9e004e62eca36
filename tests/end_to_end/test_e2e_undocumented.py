"""Where undocumented fields and values end up."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from holdings import Rows, held_tables, query
from worlds import Begin, World, serve_world

from letters_source.decode.row_schema import MOST_NAMES
from letters_source.errors import UndocumentedFields
from letters_source.results import Audit
from programmable_emulator import Behavior, Emulator


@pytest.fixture(autouse=True)
def recorded(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Record the warnings of the package."""
    with caplog.at_level(logging.WARNING, "letters_source"):
        yield


def surprising(emulator: Emulator) -> None:
    """Add two good contacts, five rows without a usable id, and templates with surprises in their parts."""
    labels = [{"id": "4", "title": "office", "colour": "red"}, "odd", {"id": 5, "title": "house"}]
    emulator.contacts.insert({"id": "good-1", "isVerified": "yes", "createdAt": "soon", "zip": 7030, "tier": "gold"})
    emulator.contacts.insert({"id": "good-2", "ContactLabels": labels, "tier": {"name": "silver"}})
    for bad in ({"firstName": "No id"}, {"id": None}, {"id": ""}, {"id": ["x"]}, {"id": True}):
        emulator.contacts.insert(bad)
    emulator.templates.insert({"id": "t-1", "creator": {"id": "2", "role": "editor"}, "product": "a product"})


def test_undocumented_fields_can_be_queried(begin: Begin) -> None:
    """Undocumented fields of any type are JSON in the column `undocumented`, and change no other column."""
    fields = {"x": "7", "score": 1.5, "tags": ["a", {"b": None}], "weird name": True, "_dlt_id": "mine"}
    world = begin(Emulator(30, 7, behavior=Behavior(extra_fields=fields)))
    world.load()
    tables, held = world.tables(), held_tables(world.emulator)
    assert [row["undocumented"] for row in tables["contacts"]] == [fields] * 30
    assert [row["undocumented"] for row in tables["templates"]] == [fields] * 7
    for name in ("contacts", "templates"):
        assert [{**row, "undocumented": None} for row in tables[name]] == held[name]
    sql = (
        "select distinct undocumented->>'x', (undocumented->>'score')::double, undocumented->>'$.tags[0]', "
        "undocumented->>'weird name' from letters_data.contacts"
    )
    assert query(world.place, sql) == [("7", 1.5, "a", "true")]


def test_undocumented_fields_are_counted_and_warned_of_once_each(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """Each undocumented field has one warning per listing, and its count of rows in the audit."""
    world = begin(Emulator(30, 7, behavior=Behavior(extra_fields={"x": "7", "score": 1.5})))
    audits = world.read("templates", "contacts", page_size=10)["listing_audit"]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{listing}: new field {field} in {rows} rows, kept in the column undocumented"
        for listing, rows in (("templates", 7), ("contacts", 30))
        for field in ("score", "x")
    ]
    assert [(audit["undocumented_fields"], audit["misfit_values"]) for audit in audits] == [
        ({"score": 7, "x": 7}, 0),
        ({"score": 30, "x": 30}, 0),
    ]


def test_a_contract_that_the_service_breaks_stops_the_load(begin: Begin) -> None:
    """With `on_undocumented` fail, a new field fails the load and keeps the tables, unless it is a known field."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    before = world.tables()
    world.emulator.behavior = Behavior(extra_fields={"x": "7"})
    with pytest.raises(UndocumentedFields) as caught:
        world.load(on_undocumented="fail")
    assert str(caught.value) == (
        "templates: fields that are not documented, or have values that do not fit: x (7 rows); nothing was loaded. "
        "Add the names to sources.letters.known_fields, or set sources.letters.on_undocumented to warn."
    )
    assert world.tables() == before
    tables = world.read("templates", on_undocumented="fail", known_fields=["x"])
    assert [row["undocumented"] for row in tables["templates"]] == [{"x": "7"}] * 7


def test_unusable_names_are_not_reported(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """Warnings and audit leave out names that may be values or control characters; the rows keep them."""
    fields = {"someone@example.org": 1, "a\nletters: all good": 2, "x": 3}
    world = begin(Emulator(30, 0, behavior=Behavior(extra_fields=fields)))
    tables = world.read("contacts")
    assert [record.getMessage().partition(",")[0] for record in caplog.records if record.levelno >= 30] == [
        "contacts: other fields in 60 rows",
        "contacts: new field x in 30 rows",
    ]
    [audit] = tables["listing_audit"]
    assert audit["undocumented_fields"] == {"other fields": 60, "x": 30}
    assert tables["contacts"][0]["undocumented"] == fields


def test_only_some_of_many_names_are_reported(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """Warnings and audit name at most `MOST_NAMES` undocumented fields; the rows keep all."""
    world = begin(Emulator(0, 0))
    for number in range(60):
        world.emulator.contacts.insert({"id": str(number), **{f"f{number}_{field}": field for field in range(10)}})
    tables = world.read("contacts", page_size=20)
    [audit] = tables["listing_audit"]
    assert len(audit["undocumented_fields"]) == MOST_NAMES + 1
    assert sum(audit["undocumented_fields"].values()) == 600
    assert len([record for record in caplog.records if "kept in the column" in record.getMessage()]) == MOST_NAMES + 1
    for row in tables["contacts"]:
        assert row["undocumented"] == {f"f{row['id']}_{field}": field for field in range(10)}


@dataclass(frozen=True)
class Surprised:
    """The tables and the audits of a load of surprising rows."""

    tables: dict[str, Rows]
    audits: Sequence[Audit]


@pytest.fixture(scope="module", params=["duckdb", "parquet"])
def surprised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surprised:
    """Surprising rows among others, loaded once for the tests that only read."""
    with serve_world(tmp_path_factory.mktemp("surprised"), request.param, Emulator(3, 1)) as world:
        surprising(world.emulator)
        result = world.load()
        return Surprised(world.tables(), result.audits)


def test_values_that_do_not_fit_are_kept_and_the_column_is_null(surprised: Surprised) -> None:
    """Values of another type are null in their column and kept in `undocumented`; numbers become text."""
    tables = surprised.tables
    contacts = {row["id"]: row for row in tables["contacts"]}
    one, other = contacts["good-1"], contacts["good-2"]
    assert (one["is_verified"], one["created_at"], one["zip"]) == (None, None, "7030")
    assert one["undocumented"] == {"isVerified": "yes", "createdAt": "soon", "tier": "gold"}
    assert other["undocumented"] == {
        "ContactLabels": [{"id": "4", "title": "office", "colour": "red"}, "odd", {"id": 5, "title": "house"}],
        "tier": {"name": "silver"},
    }
    labels = [row for row in tables["contacts__contact_labels"] if row["contact_id"] == "good-2"]
    assert labels == [
        {"contact_id": "good-2", "position": 0, "id": "4", "title": "office", "undocumented": {"colour": "red"}},
        {"contact_id": "good-2", "position": 2, "id": "5", "title": "house", "undocumented": None},
    ]
    [creator] = [row for row in tables["templates__creator"] if row["template_id"] == "t-1"]
    assert creator == {"template_id": "t-1", "id": "2", "full_name": None, "undocumented": {"role": "editor"}}
    [template] = [row for row in tables["templates"] if row["id"] == "t-1"]
    assert template["undocumented"] == {"product": "a product"}
    assert not any(row["template_id"] == "t-1" for row in tables["templates__product"])


def test_rows_without_a_usable_id_are_kept_whole(surprised: Surprised) -> None:
    """Rows without a usable id are in `rejected_rows` and nowhere else, and the audit counts them."""
    tables = surprised.tables
    assert [(row["listing"], row["page"], row["position"], row["row"]) for row in tables["rejected_rows"]] == [
        ("contacts", 0, 5, {"firstName": "No id"}),
        ("contacts", 0, 6, {"id": None}),
        ("contacts", 0, 7, {"id": ""}),
        ("contacts", 0, 8, {"id": ["x"]}),
        ("contacts", 0, 9, {"id": True}),
    ]
    assert all(row["reason"] for row in tables["rejected_rows"])
    assert {row["id"] for row in tables["contacts"]} == {"1", "2", "3", "good-1", "good-2"}
    templates, contacts = surprised.audits
    assert (templates["rows_rejected"], contacts["rows_rejected"]) == (0, 5)
    assert (contacts["rows_received"], contacts["rows_yielded"], contacts["count_last"]) == (10, 5, 10)
    assert (templates["misfit_values"], contacts["misfit_values"]) == (1, 3)


def test_each_load_adds_its_own_rejected_rows(begin: Begin) -> None:
    """Rejected rows of earlier loads stay, and each load adds its own."""
    world = begin(Emulator(3, 1))
    world.emulator.contacts.insert({"firstName": "No id"})
    loads = [world.load().load_id, world.load().load_id]
    rows = query(world.place, "select _dlt_load_id, count(*) from letters_data.rejected_rows group by all order by 1")
    assert rows == [(load_id, 1) for load_id in loads]


def test_rejected_rows_of_several_pages_are_kept_where_they_lay(begin: Begin) -> None:
    """Two equal rejected rows on two pages are kept as two rows, with page and position."""
    world = begin(Emulator(8, 1))
    world.emulator.contacts.insert({"firstName": "No id"}, at=2)
    world.emulator.contacts.insert({"firstName": "No id"}, at=6)
    tables = world.read("contacts", page_size=5)
    [audit], rows = tables["listing_audit"], tables["rejected_rows"]
    assert [(row["page"], row["position"]) for row in rows] == [(0, 2), (1, 1)]
    assert (audit["rows_yielded"], audit["rows_rejected"], audit["count_last"]) == (8, 2, 10)


def test_numbers_for_texts_are_warned_of(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A number in place of a text, such as a zip code, causes a warning."""
    world: World = begin(Emulator(0, 1))
    world.emulator.contacts.insert({"id": "1", "zip": 7030})
    assert world.read("contacts")["contacts"][0]["zip"] == "7030"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "contacts: zip was a number in 1 row and was kept as text"
    ]


def test_rows_without_a_usable_id_are_warned_of(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """Rows without a usable id have one warning per listing, and are not among the loaded rows of its summary."""
    world = begin(Emulator(3, 1))
    surprising(world.emulator)
    with caplog.at_level(logging.INFO, "letters_source"):
        world.read("templates", "contacts")
    messages = [record.getMessage() for record in caplog.records]
    assert [line for line in messages if "rejected_rows" in line] == [
        "contacts: 5 rows without a usable id, sent to rejected_rows"
    ]
    assert [line.partition(";")[0] for line in messages if "requests: " in line] == [
        "templates: 2 rows, exact",
        "contacts: 5 rows, exact",
    ]


def test_what_undocumented_labels_hold_is_kept_in_the_label(begin: Begin) -> None:
    """Undocumented fields and misfits of a label stay in the label's row, not in the contact's."""
    world = begin(Emulator(0, 1))
    labels = [{"id": "4", "title": ["office"], "colour": "red"}, {"id": "5", "title": "house"}]
    world.emulator.contacts.insert({"id": "1", "ContactLabels": labels})
    tables = world.read("contacts")
    [audit] = tables["listing_audit"]
    assert [row["undocumented"] for row in tables["contacts"]] == [None]
    assert [tuple(row.values()) for row in tables["contacts__contact_labels"]] == [
        ("1", 0, "4", None, {"colour": "red", "title": ["office"]}),
        ("1", 1, "5", "house", None),
    ]
    assert (audit["undocumented_fields"], audit["misfit_values"]) == (
        {"ContactLabels.colour": 1, "ContactLabels.title": 1},
        1,
    )


@pytest.mark.parametrize(("proof", "verdict", "walks"), [("continuous", "stable", 1), ("exact", "exact", 2)])
def test_each_value_is_counted_once_however_often_it_was_read(
    begin: Begin, caplog: pytest.LogCaptureFixture, proof: str, verdict: str, walks: int
) -> None:
    """Misfits and undocumented fields are counted once, even if their page is read again."""
    world = begin(Emulator(36, 1, behavior=Behavior(extra_fields={"x": "7"})))
    for at in (2, 15, 33):
        world.emulator.contacts.insert({"id": f"odd-{at}", "isVerified": "yes", "zip": 7030}, at=at)
    world.emulator.contacts.insert({"firstName": "No id"}, at=20)
    [audit] = world.read("contacts", page_size=10, proof=proof)["listing_audit"]
    assert (audit["verdict"], audit["walks"], audit["pages"], audit["count_last"]) == (verdict, walks, 4, 40)
    assert (audit["rows_yielded"], audit["rows_rejected"], audit["misfit_values"]) == (39, 1, 3)
    assert audit["undocumented_fields"] == {"isVerified": 3, "x": 39}
    assert [record.getMessage() for record in caplog.records] == [
        "contacts: 1 row without a usable id, sent to rejected_rows",
        "contacts: isVerified did not fit in 3 rows, kept in the column undocumented",
        "contacts: new field x in 39 rows, kept in the column undocumented",
        "contacts: zip was a number in 3 rows and was kept as text",
    ]
