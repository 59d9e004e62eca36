"""A load that was stopped continues with the pages that it had saved, or reads all again and says why."""

import logging
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import parse_qs

import pytest
from commands import start_command
from row_changes import amend
from worlds import ACCESS, REFRESH, Begin, World

from letters_source.errors import NotAuthorized
from letters_source.pagination.readings import Window
from letters_source.pagination.resumption import sample
from programmable_emulator import Emulator

CONTACTS = 6_000
SETTINGS = {"page_size": 500, "max_workers": 1, "resume": True}
STOPPED_AT = 14
"""Of 16 requests: pages 0 and 11, 13 windows, and the first of these again."""


@pytest.fixture
def world(begin: Begin) -> World:
    """Contacts on 12 pages, which overlap from the start."""
    world = begin(Emulator(CONTACTS, 1))
    world.settings.update(SETTINGS)
    return world


def requested(world: World, after: int = 0) -> list[Window]:
    """The pages of contacts that were requested since the last call, by requests with greater numbers than `after`."""
    hits = [hit for hit in world.emulator.hits if hit.number > after]
    queries = [parse_qs(hit.query) for hit in hits if hit.path.endswith("/contacts")]
    world.emulator.hits.clear()
    return [Window(int(query["page"][0]), int(query["pageSize"][0])) for query in queries]


def at_request(world: World, act: Callable[[], None]) -> None:
    """Act before a request is answered, once."""
    first = len(world.emulator.hits)
    answered = iter(range(first + 1, first + STOPPED_AT))

    def watch(emulator: Emulator, number: int) -> None:
        if next(answered, None) is None:
            emulator.before_answer = None
            act()

    world.emulator.before_answer = watch


def stop(world: World) -> None:
    """Load until the service refuses the token, which it accepts again afterwards."""

    def refuse() -> None:
        world.emulator.access_token = "another"

    at_request(world, refuse)
    with pytest.raises(NotAuthorized):
        world.load(only=["contacts"])
    world.emulator.access_token = ACCESS


def saved_file(world: World) -> Path:
    """Return the file with the saved windows of contacts."""
    return Path(f"{world.pipeline.working_dir}.contacts.pages")


def load_again(world: World, caplog: pytest.LogCaptureFixture) -> str:
    """Load all contacts once more, exactly, and return why saved pages were not used; nothing stays saved."""
    requested(world)
    with caplog.at_level(logging.INFO, "letters_source"):
        world.load()
    assert world.is_exact()
    assert not saved_file(world).exists()
    messages = [record.getMessage() for record in caplog.records]
    return "".join(line.rpartition(": ")[2] for line in messages if "instead of using saved ones" in line)


def test_a_killed_load_continues_with_what_is_missing(world: World) -> None:
    """After SIGKILL only a sample, both ends, and the windows that were not saved are requested; the rows are exact."""
    pids: SimpleQueue[int] = SimpleQueue()
    at_request(world, lambda: os.kill(pids.get(), 9))
    arguments = ["load", "--quiet", "--resume", "--only", "contacts", "--to", str(world.place)]
    with start_command(*arguments, env={**os.environ, **world.variables()}) as command:
        pids.put(command.pid)
        command.communicate()
    world.load()
    # the emulator may note the request at which it killed the load only after the process has ended
    continued = requested(world, after=STOPPED_AT)
    assert world.is_exact()
    assert not saved_file(world).exists()
    # only now, because saved pages are not used if another load started in the second before them
    world.load(only=["contacts"], resume=False)
    first, last, *windows, front = requested(world)
    saved, missing = windows[: STOPPED_AT - 3], windows[STOPPED_AT - 3 :]
    assert continued == [*sample(saved), first, last, *missing, front]


def test_a_continued_listing_is_continuous_since_its_first_page(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The audit says when reading began, in the load that was stopped, and never calls such a listing stable."""
    stop(world)
    written = saved_file(world).stat().st_mtime
    assert load_again(world, caplog) == ""
    [audit] = [row for row in world.tables()["listing_audit"] if row["listing"] == "contacts"]
    assert audit["verdict"] == "continuous"
    assert audit["started_at"].timestamp() < written
    assert audit["rows_yielded"] == CONTACTS


def test_saved_pages_are_private(world: World) -> None:
    """Saved pages are readable only by their owner, and hold no tokens and no values that a policy drops."""
    name = world.emulator.contacts.rows()[0].document["lastName"].encode()
    world.settings["pii"] = "drop"
    stop(world)
    content = saved_file(world).read_bytes()
    assert stat.S_IMODE(saved_file(world).stat().st_mode) == 0o600
    assert [text in content for text in (ACCESS.encode(), REFRESH.encode(), name)] == [False] * 3


def change_row(world: World) -> None:
    """A contact of a page in the sample gets another city."""
    amend(world.emulator.contacts, world.emulator.contacts.ids()[3], city="Newtown")


def set_page_size(world: World) -> None:
    """Set another page size."""
    world.settings["page_size"] = 501


def expire(world: World) -> None:
    """Set a time limit that has passed."""
    world.settings["resume_for"] = 1e-9


def damage_start(world: World) -> None:
    """Damage the first record of the saved file."""
    content = bytearray(saved_file(world).read_bytes())
    content[40] ^= 1
    saved_file(world).write_bytes(content)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_row, "the listing changed since"),
        (set_page_size, "they are of another version, or of other settings"),
        (expire, "they are older than 1e-09 hours"),
        (damage_start, ""),
    ],
)
def test_all_is_read_again_if_saved_pages_may_be_wrong(
    world: World, caplog: pytest.LogCaptureFixture, change: Callable[[World], None], reason: str
) -> None:
    """Saved pages are not used after a change of listing, settings or file, or after `resume_for`.

    The audit's reading then begins with the load that reads all.
    """
    stop(world)
    change(world)
    began = datetime.now(UTC)
    assert load_again(world, caplog) == reason
    [audit] = [row for row in world.tables()["listing_audit"] if row["listing"] == "contacts"]
    assert audit["started_at"] >= began


def test_values_that_were_saved_masked_are_not_used_without_a_policy(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Saved pages hold what the privacy policies left, so a load with other policies reads all again."""
    world.settings["pii"] = "mask"
    stop(world)
    del world.settings["pii"]
    assert load_again(world, caplog) == "they are of another version, or of other settings"


def test_a_load_that_succeeded_is_not_continued(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Pages that a killed load left behind after it had written its tables are not used."""
    stop(world)
    content = saved_file(world).read_bytes()
    load_again(world, caplog)
    saved_file(world).write_bytes(content)
    assert load_again(world, caplog) == "a load has finished since"


def test_half_a_record_at_the_end_is_cut_off(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A load that was killed while it saved a page continues with the pages before it."""
    stop(world)
    os.truncate(saved_file(world), saved_file(world).stat().st_size - 100)
    assert load_again(world, caplog) == ""


def test_a_load_without_resume_saves_nothing(world: World) -> None:
    """Without the setting there is no file, however the load ends."""
    world.settings["resume"] = False
    stop(world)
    assert not saved_file(world).exists()
