"""Night after night, sync leaves the tables that a fresh load would write, and history every version of each row."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any

import pytest
from holdings import COLUMNS, KEYS, LISTED, Rows, parsed
from postgres import serve_postgres
from row_changes import amend
from test_postgres import utc
from worlds import Begin, World

from letters_source import make_pipeline
from letters_source.config.settings import Kind
from letters_source.destination.kinds import place_of
from letters_source.destination.sql import fetch_rows
from programmable_emulator import ChangingListing, Emulator, Row

NIGHTS = {"duckdb": 8, "postgres": 4, "delta": 4}
LABELS = [{"id": str(number), "title": title} for number, title in enumerate(("notes", "green", "blue"))]
POLICIES = ("keep", "hash", "mask", "drop")
KEYS_OF_HASHES = ("a key of 16 bytes", "another key, longer")
COLUMNS_OF = {name: [column.partition(":")[0] for column in COLUMNS[name].split()] for name in LISTED}
Version = tuple[tuple[Any, ...], int, int | None]
"""The values of a row, and the nights that began and ended it."""


def insert(contacts: ChangingListing, random: Random) -> None:
    """A new contact comes, anywhere."""
    contacts.grow(random.randint(0, len(contacts.ids())))


def edit(contacts: ChangingListing, random: Random) -> None:
    """A contact changes."""
    amend(contacts, some_id(contacts, random), city=random.choice(["Hoboken", "", None]), address2="2nd floor")


def note(contacts: ChangingListing, random: Random) -> None:
    """A contact has another field that is not documented, or a value that does not fit."""
    amend(
        contacts, some_id(contacts, random), nickname=random.choice(["Al", 7]), isVerified=random.choice([True, "yes"])
    )


def relabel(contacts: ChangingListing, random: Random) -> None:
    """A contact has other labels."""
    amend(contacts, some_id(contacts, random), ContactLabels=random.choices(LABELS, k=random.randint(0, 3)))


def delete(contacts: ChangingListing, random: Random) -> None:
    """A contact goes."""
    contacts.delete(some_id(contacts, random))


def reject(contacts: ChangingListing, random: Random) -> None:
    """A row without an id comes, or one that came goes."""
    if "None" in contacts.ids():
        contacts.delete("None")
    else:
        contacts.insert({"firstName": "Nobody"}, random.randint(0, 3))


def rewrite(contacts: ChangingListing, random: Random) -> None:
    """The service writes a row's fields in another order, with spaces between them."""
    place = contacts.ids().index(some_id(contacts, random))
    row = contacts.delete(place)
    fields = turned(row.document)
    contacts.insert(replace(row, wire=json.dumps(fields, indent=random.randint(0, 2)).encode()), place)


def turned(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields in another order, those within them too."""
    return {name: turned(value) if isinstance(value, dict) else value for name, value in reversed(fields.items())}


def rewrite_all(contacts: ChangingListing, random: Random) -> None:
    """The service writes every row anew, without a change."""
    for place, row in enumerate(contacts.rows()):
        contacts.delete(place)
        contacts.insert(replace(row, wire=json.dumps(row.document, indent=random.randint(0, 2)).encode()), place)


CHANGES: tuple[Callable[[ChangingListing, Random], None], ...] = (
    *(insert, edit, note, relabel, delete, reject, rewrite, rewrite_all),
    *(edit, relabel, relabel, delete),
)


def retitle(templates: ChangingListing, random: Random) -> None:
    """A template changes, and its creator."""
    amend(templates, some_id(templates, random), title=str(random.random()), creator={"id": "7", "fullName": "Ada"})


def some_id(contacts: ChangingListing, random: Random) -> str:
    """The id of any contact that has one."""
    return random.choice([row_id for row_id in contacts.ids() if row_id != "None"])


@dataclass
class Story:
    """A world, and what its nights are to have left."""

    world: World
    mode: str
    random: Random
    gone: list[Row] = field(default_factory=list)
    versions: dict[str, dict[tuple[Any, ...], list[Version]]] = field(default_factory=lambda: {n: {} for n in LISTED})
    nights: dict[datetime, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=lambda: {"pii": "keep", "pii_key": KEYS_OF_HASHES[0]})

    def night(self, number: int) -> None:
        """Change rows, load, and compare."""
        contacts = self.world.emulator.contacts
        before = {row.id: row for row in contacts.rows()}
        for change in self.random.choices(CHANGES, k=self.random.randint(0, 6)):
            change(contacts, self.random)
        self.gone += [row for row_id, row in before.items() if row_id not in contacts.ids()]
        if self.gone and self.random.random() < 0.5:
            contacts.insert(self.gone.pop(), 0)
        templates = self.world.emulator.templates
        product = {"id": str(number), "meta": {"folds": number, "colors": ["black", "blue"]}}
        amend(templates, templates.ids()[number % 3], product=self.random.choice([None, product]))
        self.random.choice((rewrite, rewrite_all, retitle))(templates, self.random)
        if self.mode == "sync" and self.random.random() < 0.5:
            self.settings = {"pii": self.random.choice(POLICIES), "pii_key": self.random.choice(KEYS_OF_HASHES)}
        self.world.load(**{self.mode: True}, **self.settings)
        expected = self.world.read("templates", "contacts", **self.settings)
        if self.mode == "sync":
            assert {name: self.rows(name) for name in LISTED} == {name: shown(expected[name]) for name in LISTED}
        else:
            self.extend(expected, number)
            assert {name: self.found(name, number) for name in LISTED} == self.versions

    def extend(self, expected: dict[str, Rows], night: int) -> None:
        """Add a night to the versions that are expected."""
        for name, versions in self.versions.items():
            now = {key_of(name, row): values_of(row) for row in expected[name]}
            for key, known in versions.items():
                values, began, ended = known[-1]
                if ended is None and now.get(key) != values:
                    known[-1] = (values, began, night)
            for key, values in now.items():
                known = versions.setdefault(key, [])
                if not known or known[-1][2] is not None:
                    known.append((values, night, None))

    def found(self, name: str, night: int) -> dict[tuple[Any, ...], list[Version]]:
        """The versions of a table, in their order."""
        found: dict[tuple[Any, ...], list[Version]] = {}
        for row in self.rows(name, "_dlt_valid_from", "_dlt_valid_to"):
            began, ended = (time and self.nights.setdefault(time, night) for time in list(row.values())[-2:])
            found.setdefault(key_of(name, row), []).append((values_of(row), began, ended))
        return {key: sorted(versions, key=lambda version: version[1]) for key, versions in found.items()}

    def rows(self, name: str, *others: str) -> Rows:
        """The rows of a table, without how they were written."""
        place = place_of(self.world.pipeline)
        columns = [*COLUMNS_OF[name], *others]
        with place.kind.open_sql(place, "") as client:
            found = fetch_rows(client, f"SELECT {', '.join(columns)} FROM {client.make_qualified_table_name(name)}")
        return shown([dict(zip(columns, row, strict=True)) for row in found])


def shown(rows: Rows) -> Rows:
    """Rows with their JSON as values and their moments in UTC, in any but the same order."""
    return sorted((utc(with_values(row)) for row in rows), key=lambda row: str(list(row.values())))


def with_values(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its JSON as values; PostgreSQL returns it as values."""
    return parsed({name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()})


def key_of(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    """A row's key."""
    return tuple(row[column] for column in KEYS[name])


def values_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """The values that history compares."""
    compared = (name for name in row if name != "undocumented" and not name.startswith("_dlt"))
    return tuple(json.dumps(utc(row)[name], sort_keys=True, default=str) for name in compared)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server, which is in dlt's environment too."""
    with serve_postgres() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESTINATION__POSTGRES__CREDENTIALS", url)
        yield url


@pytest.mark.slow
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("duckdb", "sync"), ("duckdb", "history"), ("postgres", "sync"), ("postgres", "history"), ("delta", "sync")],
)
def test_every_night_leaves_what_the_service_holds(begin: Begin, kind: Kind, mode: str, seed: int) -> None:
    """After each of several nights with changes of every kind, the tables are as they should be."""
    world = begin(Emulator(12, 3), kind if kind != "postgres" else "duckdb")
    if kind == "postgres":
        world = replace(world, pipeline=make_pipeline("postgres", dataset=f"nights_{mode}_{seed}"))
    story = Story(world, mode, Random(seed))
    for number in range(NIGHTS[kind]):
        story.night(number)
