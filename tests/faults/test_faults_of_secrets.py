"""Is a token or a row found anywhere but in the destination, however a load ends and however much is logged?"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from holdings import change
from refusals import CONTACTS
from terminals import COMMAND, Outcome, run_process
from worlds import ACCESS, REFRESH, Begin, World

from letters_source.emulator import Emulator, Reply, When

ROW = "canary-row-93f0"
CANARIES = [text.encode() for text in (ACCESS, REFRESH, ROW)]
Spoil = Callable[[Emulator], None]


def answer_with(status: int, body: str) -> Spoil:
    """The service answers contacts so, repeating what it was sent."""
    reply = Reply(status, body.encode(), {"Retry-After": "0", "Location": f"https://elsewhere.example.org/?t={ACCESS}"})
    return lambda emulator: emulator.canned.always(CONTACTS, reply)


ECHO = f'{{"message": "{ACCESS} {REFRESH} {ROW}"}}'
ENDINGS: dict[str, tuple[int, Spoil]] = {
    "well": (0, lambda _: None),
    "refused": (3, answer_with(401, ECHO)),
    "rejected": (5, answer_with(404, ECHO)),
    "redirected": (5, answer_with(302, ECHO)),
    "failing": (5, answer_with(500, ECHO)),
    "no_json": (5, answer_with(200, f"<html>{ECHO}")),
    "no_envelope": (5, answer_with(200, ECHO)),
    "wrong_count": (5, answer_with(200, f'{{"data": {{"count": "{ROW}", "rows": []}}}}')),
    "incomplete": (
        4,
        lambda emulator: emulator.canned.always(When("contacts", 1), Reply.of({"data": {"count": 40, "rows": []}})),
    ),
}


def mark(emulator: Emulator) -> None:
    """Rows whose every value can be told: typed, misfit, undocumented, rejected."""
    marked = {"firstName": ROW, "isVerified": ROW, "createdAt": ROW, "ContactLabels": [{"id": ROW, "title": ROW}]}
    emulator.contacts.insert({"id": ROW, **marked, "unknown": ROW}, at=0)
    emulator.contacts.insert({"id": None, **marked}, at=0)


def load(world: World) -> Outcome:
    """The command, all libraries logging all they can."""
    settings = world.variables()
    environment = {**os.environ, **settings, "RUNTIME__LOG_LEVEL": "DEBUG", "SOURCES__LETTERS__RETRY_BUDGET": "1"}
    command = [COMMAND, "load", "--to", str(world.place), "--debug", "--page-size", "10"]
    return run_process(*command, env=environment)


def hits(folder: Path, place: Path) -> Iterator[Path]:
    """The files outside the destination that hold a canary."""
    for path in folder.rglob("*"):
        is_destination = path == place or path.name == f"{place.name}.wal"
        if path.is_file() and not is_destination and any(canary in path.read_bytes() for canary in CANARIES):
            yield path


def is_silent(done: Outcome) -> bool:
    """Whether nothing that was written holds a canary."""
    return not any(canary in (done.out + done.err).encode() for canary in CANARIES)


@pytest.mark.parametrize("name", ENDINGS)
def test_f77_nothing_outside_the_destination_holds_a_token_or_a_row(begin: Begin, tmp_path: Path, name: str) -> None:
    """Neither a file, nor a log of every library, nor a traceback."""
    code, spoil = ENDINGS[name]
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    spoil(world.emulator)
    done = load(world)
    assert done.code == code
    assert "DEBUG" in done.err
    assert is_silent(done)
    assert list(hits(tmp_path, world.place)) == []


def test_f77_a_load_that_failed_on_its_way_leaves_no_rows_behind(begin: Begin, tmp_path: Path) -> None:
    """They are extracted already, and the destination cannot take them: a view stands where their table should."""
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    change(world.place, "create schema letters_data; create view letters_data.contacts as select 'x' as id")
    done = load(world)
    assert done.code == 1
    assert "letters_source.errors.LoadFailed: load: " in done.err
    assert list(hits(tmp_path, world.place)) == []
