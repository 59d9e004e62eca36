"""Verification notices a destination that does not hold what was read."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from holdings import change
from worlds import World, serve_world, verify

from letters_source import DestinationError, LoadFailed, Result
from letters_source.destination.kinds import place_of
from letters_source.destination.verify import Finding, find_repeated
from letters_source.tables import MAILINGS, tables_of
from programmable_emulator import Emulator

CONTACTS = tables_of("contacts")
BOTH = (*tables_of("templates"), *CONTACTS)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Result]]:
    """30 contacts, two rejected ones and 7 templates, loaded once."""
    emulator = Emulator(30, 7)
    for name in ("Ada", "Wren"):
        emulator.contacts.insert({"firstName": name})
    with serve_world(tmp_path_factory.mktemp("loaded"), emulator=emulator) as world:
        yield world, world.load()


def refused(loaded: tuple[World, Result], *statements: str) -> LoadFailed:
    """Return the error of verification after the statements, which are then undone."""
    world, result = loaded
    kept = world.place.read_bytes()
    try:
        for statement in statements:
            change(world.place, statement)
        with pytest.raises(LoadFailed) as caught:
            verify(world.pipeline, result.load_id, BOTH)
    finally:
        world.place.write_bytes(kept)
    return caught.value


def complaint(loaded: tuple[World, Result], *statements: str) -> str:
    """Return the message of `refused`."""
    return str(refused(loaded, *statements))


def test_a_complete_load_is_verified(loaded: tuple[World, Result]) -> None:
    """Verification of a complete load returns its audits."""
    world, result = loaded
    assert verify(world.pipeline, result.load_id, BOTH) == result.audits
    assert [(audit["listing"], audit["_dlt_load_id"]) for audit in result.audits] == [
        ("templates", result.load_id),
        ("contacts", result.load_id),
    ]


def test_a_load_without_an_audit_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if audits are missing, and says which were expected and found."""
    expected = "listing_audit: expected a row for ['contacts', 'templates'], got {}; load again."
    assert complaint(loaded, "delete from letters_data.listing_audit") == expected.format("[]")
    one = "delete from letters_data.listing_audit where listing = 'contacts'"
    assert complaint(loaded, one) == expected.format("['templates']")


def test_the_audit_of_another_load_does_not_count(loaded: tuple[World, Result]) -> None:
    """Verification fails unless the audit has exactly the load's listings under the load's id."""
    world, result = loaded
    with pytest.raises(LoadFailed) as caught:
        verify(world.pipeline, "1.5", BOTH)
    assert str(caught.value) == ("listing_audit: expected a row for ['contacts', 'templates'], got []; load again.")
    with pytest.raises(LoadFailed) as caught:
        verify(world.pipeline, result.load_id, CONTACTS)
    assert str(caught.value) == (
        "listing_audit: expected a row for ['contacts'], got ['contacts', 'templates']; load again."
    )


def test_a_lost_row_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if a row is missing, and gives both numbers."""
    assert complaint(loaded, "delete from letters_data.contacts where id = '7'") == (
        "contacts: read 30 rows, but the destination holds 29 with 29 ids; load again."
    )


def test_the_error_carries_the_table_and_its_figures(loaded: tuple[World, Result]) -> None:
    """Programs can read the table and its figures from the error's attributes."""
    lost = refused(loaded, "delete from letters_data.contacts where id = '7'")
    assert (lost.table, lost.counts) == ("contacts", {"rows_expected": 30, "rows": 29, "distinct_ids": 29})
    undone = refused(loaded, "delete from letters_data.rejected_rows")
    assert (undone.table, undone.counts) == ("rejected_rows", {"rejected_expected": 2, "rejected": 0})


def test_a_duplicate_row_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if a row is there twice."""
    assert complaint(loaded, "insert into letters_data.templates from letters_data.templates where id = '3'") == (
        "templates: read 7 rows, but the destination holds 8 with 7 ids; load again."
    )


def test_a_replaced_row_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if an id is there twice and another is missing, although the number of rows is right."""
    double = "update letters_data.contacts set id = '1' where id = '2'"
    assert complaint(loaded, "delete from letters_data.contacts__contact_labels", double) == (
        "contacts: read 30 rows, but the destination holds 30 with 29 ids; load again."
    )


def test_a_child_without_its_parent_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if a row of a child table has no parent, and names both tables."""
    _, result = loaded
    orphan = f"insert into letters_data.contacts__contact_labels values ('none', 0, '1', 'x', null, '{result.load_id}')"
    assert complaint(loaded, orphan) == ("contacts__contact_labels: 1 row without a row in contacts; load again.")


def test_a_lost_row_of_a_child_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if a child table lacks a row, or holds one more than was read, and gives both numbers."""
    _, result = loaded
    labels, products = result.tables["contacts__contact_labels"], result.tables["templates__product"]
    one = "delete from letters_data.contacts__contact_labels where rowid = 0"
    assert complaint(loaded, one) == (
        f"contacts__contact_labels: read {labels} rows, but the destination holds {labels - 1}; load again."
    )
    again = "insert into letters_data.templates__product from letters_data.templates__product where template_id = '3'"
    assert complaint(loaded, again) == (
        f"templates__product: read {products} rows, but the destination holds {products + 1}; load again."
    )


def test_a_lost_rejected_row_is_noticed(loaded: tuple[World, Result]) -> None:
    """Verification fails if a rejected row is missing."""
    assert complaint(loaded, "delete from letters_data.rejected_rows where position = 30") == (
        "rejected_rows: 2 rows of contacts were rejected, but the destination holds 1; load again."
    )


def test_a_destination_that_fails_is_a_failed_load(loaded: tuple[World, Result]) -> None:
    """A load fails with its first cause if a view is in the place of a table."""
    assert failure(loaded, "contacts").startswith(("load: ", "sync: "))


def test_an_audit_with_other_columns_is_named(loaded: tuple[World, Result]) -> None:
    """A load fails before any request if the dataset's audit cannot be read."""
    sent = len(loaded[0].emulator.hits)
    lacking = "the dataset letters_data lacks listing_audit._dlt_load_id, listing_audit.account_id, "
    assert failure(loaded, "listing_audit").startswith(lacking)
    assert loaded[0].emulator.hits[sent:] == []


def failure(loaded: tuple[World, Result], table: str) -> str:
    """Return the message of a load that finds a view in the place of a table; the file is restored."""
    world, _ = loaded
    kept = world.place.read_bytes()
    try:
        change(world.place, f"drop table letters_data.{table}")
        change(world.place, f"create view letters_data.{table} as select 1 as listing")
        with pytest.raises((LoadFailed, DestinationError)) as caught:
            world.load()
    finally:
        world.place.write_bytes(kept)
        world.pipeline.abort_packages()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_child_that_is_there_twice_is_noticed_in_files(tmp_path: Path) -> None:
    """Verification fails if keys are repeated in Parquet files, as by two machines that load at the same time."""
    with serve_world(tmp_path, "parquet", emulator=Emulator(9, 3)) as world:
        result = world.load()
        labels = world.place / "letters_data/contacts__contact_labels"
        [file] = labels.glob("*.parquet")
        copyfile(file, labels / f"other.{file.name}")
        twice = result.tables[labels.name]
        with pytest.raises(LoadFailed, match=rf"^contacts__contact_labels: {twice} keys occur more than once; load"):
            verify(world.pipeline, result.load_id, BOTH)


def test_mailings_that_are_there_twice_are_noticed_whichever_load_brought_them(tmp_path: Path) -> None:
    """Verification finds repeated mailings, even if an earlier load brought them."""
    with serve_world(tmp_path, emulator=Emulator(60, 3)) as world:
        settings: dict[str, Any] = {"mailings": True, "mailings_since": date(2024, 1, 1), "mailings_window": 365}
        world.load(only=("mailings",), **settings)
        audits = world.load(only=("mailings",), **settings).audits
        change(world.place, "insert into letters_data.mailings from letters_data.mailings limit 2")
        place = place_of(world.pipeline)
        with place.kind.open_sql(place, "") as client:
            found = find_repeated(client, MAILINGS, audits)
        assert found == Finding({"repeated_keys": 2}, "mailings: 2 keys occur more than once; load again.")
