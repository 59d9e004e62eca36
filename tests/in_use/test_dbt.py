"""Does dbt build the project on the loaded tables, and find what is wrong with them?"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from closed_dbt import run_closed_dbt
from holdings import change, held_tables, query
from row_changes import amend
from terminals import Outcome
from worlds import Begin, World, serve_world

from letters_source.destination.kinds import place_of
from letters_source.destination.pipeline import make_pipeline
from letters_source.destination.publish import publish_copy
from programmable_emulator import Emulator

ROOT = Path(__file__).parents[2]
EVERYTHING = "{letters_parts: [templates, contacts, facets, mailings]}"
ORPHAN = """
    insert into letters_data.contacts__contact_labels
    select * replace ('nobody' as contact_id) from letters_data.contacts__contact_labels
    where _dlt_valid_to is null limit 1
"""
OWN = """
    create schema own;
    create table own.zones (id integer primary key, name varchar unique);
    create table own.areas (zone integer references own.zones, size integer, twice integer as (size * 2));
    insert into own.zones values (1, 'north'), (2, 'south');
    insert into own.areas values (1, 3), (2, 4);
    create view own.named as from letters.own.areas join letters.own.zones on id = zone;
    create view own.of_dbt as select label_count, count(*) from letters.analytics.contacts_with_labels group by all;
"""
KEYS = "select schema_name, table_name, constraint_text from duckdb_constraints() order by all"
DAYS_BEFORE = "started_at - interval 4 days"
FOUND_BY = "source_relationships_letters_contacts__contact_labels_contact_id__id__source_letters_contacts_"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Everything that can be loaded, mailings by windows of 31 days."""
    with serve_world(tmp_path_factory.mktemp("world"), "duckdb", Emulator(60, 12)) as world:
        world.load(facets=True, mailings=True, mailings_since="2024-01-01", mailings_window=31)
        yield world


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of dbt's own files; the project is parsed once for the same variables."""
    return tmp_path_factory.mktemp("target")


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    """A copy of the loaded file, in a folder that dbt is run in."""
    return Path(copy(world.place, tmp_path))


def run_dbt(file: Path, target: Path, *arguments: str) -> Outcome:
    """Run a command of dbt as the recipes do, with its own files elsewhere; it must not use the network."""
    [line] = re.findall(r"^export (DBT_.+)$", (ROOT / "pipelines/README.md").read_text(), re.MULTILINE)
    variables = {name: str(ROOT / place) for name, place in (each.split("=") for each in line.split())}
    environment = {**variables, "HOME": str(target), "PATH": "", "DBT_TARGET_PATH": str(target)}
    outcome = run_closed_dbt(["--log-path", str(target), *arguments], file.parent, environment)
    assert outcome.err == ""
    return outcome


def statuses(target: Path, name: str = "run_results") -> dict[str, str]:
    """Return how each model, test or source ended, except those that succeeded."""
    results = json.loads((target / f"{name}.json").read_text())["results"]
    assert results
    found = {name_of(each["unique_id"]): each["status"] for each in results}
    return {name: status for name, status in found.items() if status not in ("success", "pass")}


def name_of(unique_id: str) -> str:
    """The name of a model, test or source, without the hash that the name of a test ends with."""
    kind, _, *names = unique_id.split(".")
    return names[0] if kind in ("model", "test") else names[-1]


def built(file: Path, model: str, columns: str) -> Counter[tuple[Any, ...]]:
    """The rows of a model."""
    return Counter(query(file, f"select {columns} from analytics.{model}"))


def test_the_project_is_green(file: Path, target: Path, world: World) -> None:
    """`dbt build` passes, and its tables hold the service's numbers."""
    outcome = run_dbt(file, target, "build", "--vars", EVERYTHING)
    assert (outcome.code, statuses(target)) == (0, {}), outcome.out
    held = held_tables(world.emulator)
    labels: dict[str, list[str]] = {contact["id"]: [] for contact in held["contacts"]}
    for label in held["contacts__contact_labels"]:
        labels[label["contact_id"]].append(label["title"])
    assert built(file, "contacts_with_labels", "contact_id, label_count, labels") == Counter(
        (contact, len(titles), ", ".join(titles) or None) for contact, titles in labels.items()
    )
    products = {product["template_id"]: product["id"] for product in held["templates__product"]}
    assert built(file, "templates_by_product", "product_id, templates") == Counter(
        Counter(products.get(template["id"]) for template in held["templates"]).items()
    )
    days = query(file, "select mailed_on from letters_data.mailings")
    assert days
    assert built(file, "mailings_per_month", "month, mailings, contacts") == Counter(
        (month, count, count) for month, count in Counter(day.replace(day=1) for [day] in days).items()
    )


def test_what_dbt_built_works_in_a_published_copy(file: Path, target: Path) -> None:
    """Views and tables of dbt, and someone's own with keys, hold the same rows in a copy, each time it is published."""
    assert run_dbt(file, target, "build", "--vars", EVERYTHING).code == 0
    change(file, OWN)
    readers, before = file.with_name("readers.duckdb"), everything(file)
    assert {"analytics.stg_contacts", "analytics.contacts_with_labels", "own.of_dbt", "own.areas"} <= before.keys()
    for _ in range(3):
        publish_copy(place_of(make_pipeline("duckdb", file)), readers, 0)
        assert everything(file) == before
    assert query(readers, KEYS) == query(file, KEYS)
    file.unlink()
    assert everything(readers) == before


def everything(file: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of all tables and views."""
    found = query(file, "select table_schema || '.' || table_name from information_schema.tables")
    return {name: Counter(query(file, f"from {name}")) for [name] in found}


def test_a_listing_that_was_not_loaded_for_days_is_stale(file: Path, target: Path) -> None:
    """A listing that was not loaded for days is stale, whatever else was loaded since."""
    change(file, f"update letters_data.listing_audit set started_at = {DAYS_BEFORE} where listing = 'contacts'")
    outcome = run_dbt(file, target, "source", "freshness", "--vars", EVERYTHING)
    assert (outcome.code, statuses(target, "sources")) == (1, {"contacts": "error"})


def test_an_orphan_among_current_rows_fails_the_test_of_its_reference(begin: Begin, target: Path) -> None:
    """A current row without a parent fails one test; previous versions and parts that were never loaded fail none."""
    world = begin(Emulator(20, 5))
    world.load(history=True)
    amend(world.emulator.contacts, world.emulator.contacts.ids()[2], fullName="Another Name")
    world.load(history=True)
    assert query(world.place, "select count(*) from letters_data.contacts") == [(21,)]
    change(world.place, ORPHAN)
    outcome = run_dbt(world.place, target, "build", "--vars", "{letters_history: true}")
    assert outcome.code == 1
    assert statuses(target) == {
        FOUND_BY: "fail",
        "contacts_with_labels": "skipped",
        "unique_contacts_with_labels_contact_id": "skipped",
    }
    assert "WARNING" not in outcome.out
