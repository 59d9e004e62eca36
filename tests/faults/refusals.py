"""Runs loads that must fail, and makes the service's pages malformed."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from worlds import World

from letters_source import LettersError
from programmable_emulator import Emulator, Reply, When

PAGE_SIZE = 10
CONTACTS = When("contacts")


def refused(world: World, error: type[LettersError], **changes: Any) -> LettersError:
    """The error of a load, which left every byte of the destination as it was and nothing pending."""
    before = contents(world.place)
    with pytest.raises(error) as caught:
        world.load(**{"page_size": PAGE_SIZE, **changes})
    assert type(caught.value) is error
    assert contents(world.place) == before
    assert not world.pipeline.has_pending_data
    return caught.value


def contents(place: Path) -> dict[Path, str]:
    """A digest of a file and its write-ahead log, or of each file of a folder."""
    paths = place.rglob("*") if place.is_dir() else place.parent.glob(f"{place.name}*")
    return {path: sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}


def page(emulator: Emulator, number: int, count: int, rows: int = PAGE_SIZE, size: int = PAGE_SIZE) -> Reply:
    """A page of contacts under a given count, with fewer rows than it should have if requested."""
    shown = emulator.contacts.rows()[number * size :][:size][:rows]
    data = {"count": count, "rows": [row.document for row in shown]}
    return Reply.of({"message": "Success", "data": data})


def miscount(emulator: Emulator, count: int, size: int = PAGE_SIZE) -> None:
    """Answer every page of contacts under a wrong count."""
    for number in range(6):
        emulator.canned.always(When("contacts", number), page(emulator, number, count, size, size))
