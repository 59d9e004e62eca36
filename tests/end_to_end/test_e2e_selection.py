"""A dataset remembers the selection and mode of its rows, and refuses others."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dlt
import duckdb
import pytest
from dlt.pipeline.exceptions import PipelineStepFailed
from holdings import LISTED, change, held_tables, query, read_tables, table_names, typed_columns
from row_changes import amend
from terminals import Letters
from worlds import Begin, World, serve_world

import letters_source
from letters_source import IncompleteListing, LoadFailed, SettingsError
from letters_source.service.listings import ContactFilters, TemplateFilters
from letters_source.wording import causes
from programmable_emulator import Behavior, Emulator

VARIED = ContactFilters(
    search="a", address_status=("Failed", "Verified"), last_mailed_status=("Mailed",), tags=("4", "house")
)
REORDERED = ContactFilters(
    search="a", address_status=("Verified", "Failed"), last_mailed_status=("Mailed",), tags=("house", "4")
)


MAILED = {"only": ("mailings",), "mailings": True, "mailings_since": "2024-01-01", "mailings_window": 400}


def contents(place: Path) -> dict[Any, Any]:
    """All values of all tables of a file, dlt's own too, or the bytes of all files of a folder."""
    if place.is_dir():
        return {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    with duckdb.connect(str(place)) as connection:
        names = sorted(table_names(place))
        return {name: sorted(connection.sql(f"from {'.'.join(name)}").fetchall(), key=repr) for name in names}


def refused(world: World, **changes: Any) -> str:
    """Return the message of a refused load, which changes no table and leaves nothing pending."""
    before = contents(world.place)
    with pytest.raises(SettingsError) as caught:
        world.load(**changes)
    assert type(caught.value) is SettingsError
    assert contents(world.place) == before
    assert not world.pipeline.has_pending_data
    return str(caught.value)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A file with all of one environment, which no test here may change."""
    with serve_world(tmp_path_factory.mktemp("full"), emulator=Emulator(30, 7)) as world:
        world.start_loaded(environment="demo")
        yield world


OTHERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "filters of contacts": (
        {"only": ("contacts",), "contact_filters": ContactFilters(search="smith", tags=("7",))},
        "without search and tags",
        'with search="smith", tags=["7"]',
    ),
    "filters of templates": (
        {"template_filters": TemplateFilters(is_shared=False)},
        "without is_shared",
        "with is_shared=false",
    ),
    "account": ({"account_id": "502"}, "without account_id", "for account_id 502"),
    "account of a listing": (
        {"template_filters": TemplateFilters(account_id="502")},
        "without account_id",
        "for account_id 502",
    ),
    "environment": ({"environment": "production"}, "for environment demo", "for environment production"),
    "history": ({"history": True}, "in mode replace", "in mode history"),
    "sync": ({"sync": True}, "in mode replace", "in mode sync"),
    "several": (
        {"history": True, "account_id": "502", "template_filters": TemplateFilters(search=1)},
        "without account_id and search in mode replace",
        "with search=1 in mode history for account_id 502",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_rows_of_another_choice_are_refused(full: World, name: str) -> None:
    """A load with another choice is refused before any request, with both choices and a remedy."""
    changes, before, words = OTHERS[name]
    sent = len(full.emulator.hits)
    message = refused(full, **{"environment": "demo", **changes})
    listing = "contacts" if "only" in changes else "templates"
    assert message == (
        f"{listing}: the dataset letters_data was loaded {before}, and this load is {words}; "
        "to keep both, choose another dataset."
    )
    assert full.emulator.hits[sent:] == []


@pytest.mark.parametrize(("first", "then"), [("contacts", "mailings"), ("mailings", "contacts")])
def test_mailings_are_of_the_account_of_the_contacts(begin: Begin, first: str, then: str) -> None:
    """Contacts and mailings of a dataset must be of one account, whichever was loaded first."""
    world = begin(Emulator(60, 3))
    settings: dict[str, Any] = {"mailings_since": date(2024, 6, 1), "mailings_window": 365}
    world.load(only=(first,), account_id="501", **settings)
    assert refused(world, only=(then,), account_id="502", **settings) == (
        f"{then}: the dataset letters_data holds {first} of the account 501, and this load is for 502; "
        "to keep both, choose another dataset."
    )
    assert refused(world, only=(then,), **settings).count("this load is for the token's own;") == 1
    world.load(only=(then,), account_id="501", **settings)


def test_no_listing_is_requested_if_one_is_refused(full: World) -> None:
    """No listing is requested if one of them is refused."""
    sent = len(full.emulator.hits)
    assert refused(full, environment="demo", contact_filters=ContactFilters(search="smith")).startswith("contacts: ")
    assert full.emulator.hits[sent:] == []


def test_a_plain_pipeline_refuses_too(full: World) -> None:
    """A plain pipeline refuses another choice during extraction, and nothing is pending or changed."""
    before = contents(full.place)
    with pytest.raises(PipelineStepFailed) as caught:
        full.pipeline.run(letters_source.letters(**full.settings, account_id="502"))
    assert caught.value.step == "extract"
    [error] = [cause for cause in causes(caught.value) if isinstance(cause, SettingsError)]
    assert str(error).startswith("templates: the dataset letters_data was loaded without account_id, and")
    assert contents(full.place) == before
    assert not full.pipeline.has_pending_data


def test_rows_can_be_read_whatever_the_dataset_holds(full: World) -> None:
    """A resource can be read without loading, whatever choice the dataset was loaded with."""
    filters = ContactFilters(search="a")
    resource = letters_source.letters(**full.settings, contact_filters=filters, history=True).resources["contacts"]
    assert sum(table.num_rows for table in resource) > 0


CHOSEN: dict[str, Any] = {
    "account_id": "501",
    "environment": "demo",
    "template_filters": TemplateFilters(
        product_types=("Professional Letters", "Personal Letters"), creator="", search=1
    ),
}


@pytest.fixture(scope="module", params=["duckdb", "parquet"])
def chosen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A dataset of one account that was loaded with filters, and once more with those in another order."""
    with serve_world(tmp_path_factory.mktemp("chosen"), request.param, Emulator(30, 7)) as world:
        turned = TemplateFilters(product_types=("Personal Letters", "Professional Letters"), creator="", search=1)
        world.load(**CHOSEN, contact_filters=VARIED)
        world.load(**{**CHOSEN, "template_filters": turned}, contact_filters=REORDERED)
        yield world


def test_the_same_again_is_loaded(chosen: World) -> None:
    """A load with the same filters, in any order of their lists, account and environment is accepted."""
    assert len(read_tables(chosen.place)["listing_audit"]) == 4
    assert refused(chosen, **CHOSEN, only=("contacts",)) == (
        'contacts: the dataset letters_data was loaded with address_status=["Failed", "Verified"], '
        'last_mailed_status=["Mailed"], search="a", tags=["4", "house"], and this load is without address_status and '
        "last_mailed_status and search and tags; to keep both, choose another dataset."
    )


def test_a_lost_working_folder_forgets_nothing(chosen: World) -> None:
    """The dataset itself remembers the account, so that dlt's working folder may be lost."""
    chosen.pipeline.drop()
    message = refused(chosen, **{**CHOSEN, "account_id": None}, contact_filters=VARIED)
    assert "for account_id 501, and this load is without account_id" in message


def test_files_refuse_too(begin: Begin) -> None:
    """A folder of Parquet files refuses other filters, accounts, environments and modes before any request."""
    world = begin(Emulator(30, 7), "parquet")
    world.start_loaded(environment="demo")
    sent = len(world.emulator.hits)
    for changes in (
        {"contact_filters": ContactFilters(search="smith"), "only": ("contacts",)},
        {"account_id": "502"},
        {"environment": "production"},
    ):
        assert "to keep both, choose another dataset" in refused(world, **{"environment": "demo", **changes})
    for mode in ("history", "sync"):
        assert refused(world, environment="demo", **{mode: True}) == (
            f"templates: {mode} is not supported for plain files; turn off sources.letters.{mode}, "
            "or choose another destination."
        )
    assert world.emulator.hits[sent:] == []


@pytest.mark.parametrize(("mode", "other"), [("history", {}), ("history", {"sync": True}), ("sync", {})])
def test_a_mode_is_kept(begin: Begin, mode: str, other: dict[str, Any]) -> None:
    """A dataset loaded with history or sync refuses loads in another mode."""
    world = begin(Emulator(30, 7))
    world.start_loaded(**{mode: True})
    wanted = next(iter(other), "replace")
    assert refused(world, **other) == (
        f"templates: the dataset letters_data was loaded in mode {mode}, and this load is in mode {wanted}; "
        "to keep both, choose another dataset."
    )


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ({"history": True}, [{"contact_filters": ContactFilters(address_status=("Failed",))}, {"pii": "drop"}]),
        (MAILED, [{"contact_filters": ContactFilters(address_status=("Failed",))}, {"account_id": "501"}]),
    ],
    ids=["history", "mailings"],
)
def test_rows_of_a_killed_first_load_are_not_mixed_with_others(
    begin: Begin, settings: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """Kept rows of a killed first load refuse loads with other filters, policies or accounts."""
    world = begin(Emulator(30, 3))
    world.start_loaded(**{"only": ("contacts",), **settings})
    change(world.place, "delete from letters_data._dlt_loads")
    for other in others:
        assert "the dataset letters_data was loaded " in refused(world, **{"only": ("contacts",), **settings, **other})
    world.load(only=("templates",), history="history" in settings)
    for other in others:
        assert "the dataset letters_data was loaded " in refused(world, **{"only": ("contacts",), **settings, **other})
    world.load(**{"only": ("contacts",), **settings})


def test_a_first_load_of_which_no_rows_are_there_may_be_followed_by_another_choice(begin: Begin) -> None:
    """A load with other filters is accepted if the load before wrote only its audit."""
    world = begin(Emulator(30, 3))
    world.start_loaded(only=("contacts",), history=True)
    for table in ("contacts", "contacts__contact_labels", "_dlt_loads"):
        change(world.place, f"delete from letters_data.{table}")
    chosen = ContactFilters(address_status=("Failed",))
    world.load(only=("contacts",), history=True, contact_filters=chosen)


def test_a_replacement_may_follow_any_load_that_was_killed(begin: Begin) -> None:
    """A load that replaces all rows is accepted after a killed load with other filters."""
    world = begin(Emulator(30, 3))
    world.load(contact_filters=ContactFilters(address_status=("Failed",)))
    change(world.place, "delete from letters_data._dlt_loads")
    world.load()
    assert world.tables()["contacts"] == held_tables(world.emulator)["contacts"]


def test_a_part_is_remembered_for_itself(begin: Begin) -> None:
    """Each listing remembers its own filters, and one that was never loaded accepts any."""
    world = begin(Emulator(30, 7))
    world.load(only=("templates",), template_filters=TemplateFilters(is_shared=True))
    world.load(only=("contacts",), contact_filters=ContactFilters(search="a"))
    assert refused(world, contact_filters=ContactFilters(search="a")).startswith("templates: ")
    assert refused(world, only=("contacts",), history=True).startswith("contacts: ")


def test_an_environment_that_is_not_named_is_any(begin: Begin) -> None:
    """A dataset refuses a second environment once one was named, even after loads without any."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    world.load(environment="demo")
    world.load()
    assert refused(world, environment="production") == (
        "templates: the dataset letters_data was loaded for environment demo, and this load is for environment "
        "production; to keep both, choose another dataset."
    )


def test_another_dataset_takes_the_other_choice(begin: Begin) -> None:
    """A load with other filters and mode is accepted into another dataset of the same file."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    other = letters_source.make_pipeline("duckdb", world.place, dataset="smiths")
    letters_source.run(other, **world.settings, contact_filters=ContactFilters(search="b"), history=True)
    counts = "select (select count(*) from letters_data.contacts), (select count(*) from smiths.contacts_current)"
    [(full, found)] = query(world.place, counts)
    assert 0 < found < full == 30


def test_a_load_that_was_refused_or_incomplete_is_not_remembered(begin: Begin) -> None:
    """A load refused as incomplete has no effect on what later loads may choose."""
    world = begin(Emulator(9, 2))
    world.start_loaded(only=("templates",))
    world.emulator.behavior = Behavior(ignore_page=True)
    with pytest.raises(IncompleteListing):
        world.load(only=("contacts",), history=True, account_id="501", page_size=2)
    world.emulator.behavior = Behavior()
    world.load()
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)


def test_a_failed_load_is_not_remembered(begin: Begin) -> None:
    """A load whose transaction failed has no effect on what later loads may choose."""
    world = begin(Emulator(9, 2))
    world.start_loaded(only=("templates",))
    for row_id in world.emulator.contacts.ids():
        labels = [{"id": "1", "title": "one"}, {"id": "2", "title": "two"}]
        amend(world.emulator.contacts, row_id, ContactLabels=labels)
    columns = ", ".join(f"{name} {kind}" for name, kind in typed_columns("contacts__contact_labels"))
    change(world.place, f"create table letters_data.contacts__contact_labels ({columns})")
    change(world.place, "create unique index one_label on letters_data.contacts__contact_labels (contact_id)")
    with pytest.raises(LoadFailed, match=r"^load: ConstraintException, probably because of the unique index"):
        world.load(only=("contacts",), environment="demo")
    change(world.place, "drop index letters_data.one_label")
    world.load(environment="production")
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)


def test_an_audit_of_an_unfinished_load_does_not_count(begin: Begin) -> None:
    """The audit of a load that dlt does not list as finished has no effect on later loads."""
    world = begin(Emulator(30, 7))
    world.start_loaded(environment="demo")
    change(world.place, "update letters_data._dlt_loads set status = 1")
    world.load(environment="production")
    assert "for environment production, and this load" in refused(world, environment="demo")


def test_a_dataset_of_the_first_release_can_be_loaded_again(begin: Begin) -> None:
    """A dataset whose audit has no mode counts as loaded in mode replace."""
    world = begin(Emulator(30, 7))
    world.start_loaded()
    change(world.place, "update letters_data.listing_audit set mode = null")
    world.load()
    change(world.place, "update letters_data.listing_audit set mode = null")
    assert refused(world, history=True) == (
        "templates: the dataset letters_data was loaded in mode replace, and this load is in mode history; "
        "to keep both, choose another dataset."
    )


def test_a_destination_without_sql_has_no_audits(begin: Begin) -> None:
    """A destination without SQL, such as a function, accepts loads with any filters."""
    world, taken = begin(Emulator(3, 2)), []

    def take(items: Any, table: Any) -> None:
        taken.append((table["name"], len(items)))

    sink = dlt.destination(take, name="sink", batch_size=10)
    pipeline = dlt.pipeline("sink", destination=sink)
    for filters in (ContactFilters(), ContactFilters(tags=("4",))):
        pipeline.run(letters_source.letters(**world.settings, contact_filters=filters).with_resources("contacts"))
    own = [
        row for row in world.emulator.contacts.rows() if "4" in {each["id"] for each in row.document["ContactLabels"]}
    ]
    assert sum(rows for table, rows in taken if table == "contacts") == 3 + len(own)
    dummy = dlt.pipeline("dummy", destination=dlt.destinations.dummy(completed_prob=1.0))
    dummy.run(letters_source.letters(**world.settings))


def test_rows_can_be_extracted_without_a_destination(begin: Begin) -> None:
    """A pipeline without a destination can extract the source."""
    world = begin(Emulator(3, 2))
    pipeline = dlt.pipeline("nowhere")
    pipeline.extract(letters_source.letters(**world.settings, contact_filters=ContactFilters(search="a")))
    assert pipeline.has_pending_data


def test_the_command_refuses_in_one_line(letters: Letters, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command refuses other filters with exit code 2 and one line, and loads them into another dataset."""
    world = begin(Emulator(30, 7))
    world.configure(monkeypatch)
    world.start_loaded()
    before, sent = contents(world.place), len(world.emulator.hits)
    done = letters("load", "--search", "smith", "--only", "contacts")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "letters: contacts: the dataset letters_data was loaded without search, and this load is "
        'with search="smith"; to keep both, choose another --dataset.\n'
    )
    assert contents(world.place) == before
    assert world.emulator.hits[sent:] == []
    assert letters("load", "--quiet", "--search", "smith", "--dataset", "smiths").code == 0
    assert query(world.place, "select count(*) from letters_data.contacts") == [(30,)]
