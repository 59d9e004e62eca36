"""A listing read in parts by many tasks loads as if one task had read it, or is refused."""

import random
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from holdings import held_tables
from worlds import ACCESS, REFRESH, Begin, World

from letters_source import (
    ContactFilters,
    IncompleteListing,
    LoadFailed,
    SettingsError,
    UnusableFile,
    plan_parts,
    read_part,
)
from programmable_emulator import Behavior, Drift, Emulator


def read_apart(world: World, number: int, *, seed: int = 1) -> list[int]:
    """Plan that many parts of contacts, read them in a random order, and return the places."""
    places = plan_parts("contacts", number, **world.settings)
    for place in random.Random(seed).sample(places, len(places)):
        read_part("contacts", place, **world.settings)
    return places


def plan_file(world: World) -> str:
    """The file of the plan of contacts."""
    return f"{world.settings['parts']}/contacts.json"


@pytest.fixture
def world(begin: Begin, tmp_path: Path) -> World:
    """A thousand contacts in pages of 50, and a folder for parts."""
    world = begin(Emulator(1_000, 3))
    world.settings.update(page_size=50, parts=str(tmp_path / "parts"))
    return world


def test_parts_are_loaded_as_the_listing_would_be(world: World) -> None:
    """The load of parts equals that of the listing, even if a retried task has read one of them again."""
    assert read_apart(world, 4) == [0, 1, 2, 3]
    assert read_part("contacts", 1, **world.settings) == read_part("contacts", 1, **world.settings)
    assert len(list(Path(world.settings["parts"]).glob("contacts/*/0*.parquet"))) == 4
    world.emulator.hits.clear()
    result = world.load()
    assert world.is_exact()
    [audit] = [audit for audit in result.audits if audit["listing"] == "contacts"]
    assert {name: audit[name] for name in ("verdict", "count_first", "count_last", "rows_yielded", "walks")} == {
        "verdict": "stable", "count_first": 1_000, "count_last": 1_000, "rows_yielded": 1_000, "walks": 1,
    }  # fmt: skip
    assert (audit["pages"], audit["requests"], audit["page_size_given"]) == (28, 29, 50)
    # the front is read again, and no other page, since all parts join; one page past the end shows that nothing follows
    assert [hit.path.rpartition("/")[2] for hit in world.emulator.hits].count("contacts") == 2


def test_a_part_that_is_missing_stops_the_load(world: World) -> None:
    """A load fails if a part is missing, and the error names its file."""
    places = plan_parts("contacts", 3, **world.settings)
    for place in places[1:]:
        read_part("contacts", place, **world.settings)
    [stored] = Path(world.settings["parts"]).glob("contacts/*/0001.parquet")
    with pytest.raises(UnusableFile) as caught:
        world.load()
    missing = stored.with_name("0000.parquet")
    assert caught.value.file == str(missing)
    assert str(caught.value) == f"part 0 of {plan_file(world)} is missing: {missing}; read it first."


def test_parts_of_an_earlier_plan_are_not_taken(world: World) -> None:
    """Parts of an earlier plan do not count as parts of a new one."""
    read_apart(world, 2)
    plan_parts("contacts", 2, **world.settings)
    with pytest.raises(SettingsError, match=r"^part 0 of "):
        world.load()


def test_parts_of_another_selection_are_refused(world: World) -> None:
    """Parts planned for another account, policy or filter are refused, because their rows would differ."""
    read_apart(world, 2)
    changes: list[dict[str, Any]] = [
        {"account_id": "7"}, {"pii": {"email": "drop"}}, {"contact_filters": ContactFilters(search="a")}
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(SettingsError) as caught:
            world.load(**change)
        assert str(caught.value) == (
            f"{plan_file(world)} was planned for another service, account, filters or privacy policies; plan again, or "
            "load with the same settings."
        )


def test_a_part_needs_a_plan_and_a_folder(world: World) -> None:
    """Each error of planning or reading a part names what is missing."""
    with pytest.raises(UnusableFile, match=f"^{re.escape(plan_file(world))} is missing: plan first\\.$") as caught:
        read_part("contacts", 0, **world.settings)
    assert caught.value.file == plan_file(world)
    with pytest.raises(SettingsError, match=r"^sources.letters.parts is not set"):
        plan_parts("contacts", 2, **{**world.settings, "parts": None})
    with pytest.raises(SettingsError, match=r"^listing must be one of templates, contacts, got 'letters'.$"):
        plan_parts("letters", 2, **world.settings)
    with pytest.raises(SettingsError, match=r"^the number of parts must be at least 1, got 0.$"):
        plan_parts("contacts", 0, **world.settings)
    with pytest.raises(SettingsError, match=r"^nope://folder is not a folder for parts: .*nope"):
        plan_parts("contacts", 2, **{**world.settings, "parts": "nope://folder"})


@pytest.mark.parametrize("place", [-1, 3])
def test_a_part_that_was_not_planned_is_refused(world: World, place: int) -> None:
    """The error for an unplanned part lists the parts that the plan has, and nothing is requested or written."""
    plan_parts("contacts", 3, **world.settings)
    world.emulator.hits.clear()
    with pytest.raises(SettingsError, match=rf"/parts/contacts.json has the parts 0 to 2, and no part {place}\.$"):
        read_part("contacts", place, **world.settings)
    assert world.emulator.hits == []
    assert [path.name for path in Path(world.settings["parts"]).rglob("*.*")] == ["contacts.json"]


@pytest.mark.parametrize("name", ["contacts.json", "0001.parquet"])
@pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1}'])
def test_damaged_files_are_named(world: World, name: str, content: bytes) -> None:
    """A load that finds a damaged plan or part names its file."""
    read_apart(world, 2)
    [file] = Path(world.settings["parts"]).rglob(name)
    file.write_bytes(content)
    with pytest.raises(UnusableFile, match=rf"{name} is damaged, or was written by another version") as caught:
        world.load()
    assert caught.value.file == str(file)


def test_a_part_damaged_in_its_middle_is_named(world: World) -> None:
    """A load that cannot read the rows of a part names its file and what to do."""
    read_apart(world, 2)
    [file] = Path(world.settings["parts"]).rglob("0001.parquet")
    content = bytearray(file.read_bytes())
    content[200:1_200] = b"\xff" * 1_000
    file.write_bytes(content)
    with pytest.raises(LoadFailed, match=rf"{file} cannot be read: .+; load again, or read this part again if it is"):
        world.load()


@pytest.mark.parametrize("folder", ["prats", "empty", "file"])
def test_a_folder_without_a_plan_is_refused(world: World, tmp_path: Path, folder: str) -> None:
    """A load from a folder in which nothing was planned, or from a file, is refused before the first request."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}")
    wrong = tmp_path / folder
    with pytest.raises(SettingsError) as caught:
        world.load(parts=str(wrong))
    assert str(caught.value) == (
        f"file://{wrong} has no plan of any listing; plan one first, "
        "or set sources.letters.parts to the folder with it."
    )
    assert caught.value.key == "sources.letters.parts"
    assert world.emulator.hits == []


def test_parquet_of_another_program_is_no_part(world: World) -> None:
    """A file without the evidence of its range is not taken for a part."""
    read_apart(world, 2)
    [file] = Path(world.settings["parts"]).rglob("0001.parquet")
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    with pytest.raises(UnusableFile, match=r"0001\.parquet is damaged, or was written by another version"):
        world.load()


def test_parts_are_never_taken_for_exact(world: World) -> None:
    """Neither a plan nor a load accepts proof `exact`, which parts cannot give."""
    refusal = "contacts: parts cannot be proven exact; set sources.letters.proof to continuous, or load it as a whole."
    with pytest.raises(SettingsError, match=f"^{re.escape(refusal)}$"):
        plan_parts("contacts", 2, **{**world.settings, "proof": "exact"})
    read_apart(world, 2)
    with pytest.raises(SettingsError, match=f"^{re.escape(refusal)}$"):
        world.load(only=("contacts",), proof="exact")


def test_pages_too_small_to_overlap_are_not_planned(world: World) -> None:
    """Pages too small to overlap are refused, because their parts could not be joined."""
    refusal = r"^contacts: pages of 10 rows are too small for ranges; load it as a whole"
    with pytest.raises(SettingsError, match=refusal) as caught:
        plan_parts("contacts", 2, **{**world.settings, "page_size": 10})
    assert caught.value.key == "sources.letters.page_size"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_listing_that_changes_between_its_parts_is_loaded_whole(begin: Begin, tmp_path: Path, seed: int) -> None:
    """Every contact that was there throughout is loaded once, and no contact that never was."""
    drift = [Drift("insert", "front", 0.1), Drift("delete", "anywhere", 0.1)]
    emulator = Emulator(1_500, 1, seed=seed, behavior=Behavior(drift=drift))
    held: list[set[str]] = []
    emulator.before_answer = lambda served, _: held.append(set(served.contacts.ids()))
    world = begin(emulator)
    world.settings.update(page_size=50, parts=str(tmp_path / "parts"))
    read_apart(world, 5, seed=seed)
    tables = world.read("contacts")
    [audit] = tables["listing_audit"]
    held.append(set(emulator.contacts.ids()))
    ids = [row["id"] for row in tables["contacts"]]
    assert audit["verdict"] == "continuous"
    assert len(ids) == len(set(ids)) == audit["rows_yielded"]
    assert set.intersection(*held) <= set(ids) <= set.union(*held)


def test_parts_that_miss_rows_are_refused(world: World) -> None:
    """Contacts that move into a part already read are missed, and the count shows it."""
    places = plan_parts("contacts", 4, **world.settings)
    for place in places:
        read_part("contacts", place, **world.settings)
        if place == 0:
            contacts = world.emulator.contacts
            for number in range(900, 910):
                contacts.insert(contacts.delete(str(number)).document, at=100)
    with pytest.raises(IncompleteListing, match=r"^contacts: it counts 10 rows that no page returned"):
        world.load()
    assert "contacts" not in world.tables()


def test_parts_hold_no_token_and_treated_rows(world: World) -> None:
    """Parts hold no token, and privacy policies apply before they are written."""
    world.settings["pii"] = {"email": "drop"}
    read_apart(world, 2)
    files = [path for path in Path(world.settings["parts"]).rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not any(token.encode() in path.read_bytes() for path in files for token in (ACCESS, REFRESH))
    [emails] = {tuple(set(pq.read_table(path)["email"].to_pylist())) for path in files if path.suffix == ".parquet"}
    assert emails == (None,)
    assert held_tables(world.emulator)["contacts"][0]["email"]
