"""Windows are saved as they are read; a later load reads the others, or all of them again and says why."""

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from letters_source.errors import ListingShrank
from letters_source.extract.listing import read_listing
from letters_source.extract.saved import FRAME, Origin, digest_of, saved_file, state_of, why_unusable
from letters_source.extract.task import ListingRows, TableRows
from letters_source.pagination.readings import Window
from letters_source.pagination.resumption import sample
from letters_source.results import Audit
from letters_source.service.listings import ContactFilters
from letters_source.transform.privacy import Privacy
from rows_in_memory import RowsInMemory
from tasks import audit_with, task_from

ROWS, SIZE = 305, 30
CHANGING = audit_with(rows_yielded=ROWS, verdict="continuous")
"""The audit of a load whose listing changed, after which pages of 30 rows overlap."""
STOPPED_AT = 12
"""The request that is not answered: pages 0 and 10, and nine windows, have been read before it."""
KEY = b"sixteen bytes or more"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Stopped(Exception):
    """The load was stopped."""


@dataclass(slots=True)
class Loads:
    """Loads of one listing, which share a working folder."""

    folder: Path
    rows: list[str | dict[str, Any]] = field(default_factory=lambda: [f"id{row:03}" for row in range(ROWS)])
    settings: dict[str, Any] = field(default_factory=lambda: {"page_size": SIZE, "resume": True})
    audits: list[Audit] = field(default_factory=lambda: [CHANGING])
    windows: list[Window] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """The file with the saved windows."""
        return saved_file(self.folder, "contacts")

    def load(self, before_answer: Callable[[int], None] | None = None) -> tuple[list[str], dict[str, Any]]:
        """Load the listing; return the ids and the audit, and keep the windows that were requested."""
        service = RowsInMemory({"": self.rows}, before_answer=before_answer)
        try:
            items = list(read_listing(task_from(service, **self.settings), self.folder, self.audits))
        finally:
            self.windows = [Window(*window) for window in service.windows]
        ids = [id_ for item in items if isinstance(item, ListingRows) for id_ in item.rows["id"].to_pylist()]
        [audit] = [row for item in items if isinstance(item, TableRows) for row in item.rows.to_pylist()]
        return ids, audit

    def stop(self) -> list[Window]:
        """Load until a request is not answered, and return the windows that were read before."""
        with pytest.raises(Stopped):
            self.load(stop)
        return self.windows[2:-1]


def stop(request: int) -> None:
    """Stop the load at a request."""
    if request == STOPPED_AT:
        raise Stopped


def start_over(folder: Path) -> Loads:
    """Start over in a working folder, without a file of saved windows."""
    loads = Loads(folder)
    loads.file.unlink(missing_ok=True)
    return loads


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder, which loads leave empty."""
    folder = tmp_path_factory.mktemp("loads") / "pipeline"
    folder.mkdir()
    return folder


@pytest.fixture
def loads(folder: Path) -> Loads:
    """Loads of 305 contacts, without a file of saved windows."""
    return start_over(folder)


@pytest.fixture(scope="module")
def stopped(folder: Path) -> bytes:
    """The file of a load that was stopped."""
    loads = start_over(folder)
    assert loads.stop() == saved_windows()
    return loads.file.read_bytes()


@pytest.fixture
def continued(folder: Path, stopped: bytes) -> Loads:
    """Loads that find the file of a load that was stopped."""
    loads = start_over(folder)
    loads.file.write_bytes(stopped)
    return loads


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why saved windows were not used."""
    return [line.rpartition(" using saved ones: ")[2] for line in caplog.messages if "using saved ones" in line]


@cache
def whole(rows: int = ROWS, size: int = SIZE) -> tuple[Window, ...]:
    """The windows that a load requests which saves nothing, by the number of rows and the page size."""
    service = RowsInMemory({"": [str(row) for row in range(rows)]})
    list(read_listing(task_from(service, page_size=size), None, [CHANGING]))
    return tuple(Window(*window) for window in service.windows)


def saved_windows() -> list[Window]:
    """The windows that a load saves until it is stopped."""
    return list(whole()[2 : STOPPED_AT - 1])


def test_a_stopped_load_continues_with_what_is_missing(loads: Loads, caplog: pytest.LogCaptureFixture) -> None:
    """A sample of the saved windows, both ends, the missing windows and the front are read; every row is loaded."""
    first, last, *windows, front = whole()
    began = datetime.now(UTC)
    saved = loads.stop()
    stopped = datetime.now(UTC)
    assert saved == saved_windows()
    with caplog.at_level("INFO"):
        ids, audit = loads.load()
    assert loads.windows == [*sample(saved), first, last, *windows[len(saved) :], front]
    assert sorted(ids) == loads.rows
    assert audit["verdict"] == "continuous"
    assert began <= audit["started_at"] <= stopped
    assert caplog.messages[0] == "contacts: continued with 9 pages saved by an earlier load"


def test_windows_of_a_listing_that_was_refused_are_used(loads: Loads, caplog: pytest.LogCaptureFixture) -> None:
    """A load that is repeated after `ListingShrank`, with another setting, reads the sample, the ends and the front."""
    first, last, *windows, front = whole()
    loads.audits = [audit_with(rows_yielded=1_000, verdict="continuous")]
    with pytest.raises(ListingShrank):
        loads.load()
    loads.settings["max_shrink"] = 1.0
    with caplog.at_level("INFO"):
        ids, _ = loads.load()
    assert loads.windows == [*sample(windows), first, last, front]
    assert sorted(ids) == loads.rows
    assert reasons(caplog) == []


def change_row(loads: Loads) -> None:
    """A row of a sampled window gets a value."""
    loads.rows[3] = {"id": "id003", "city": "Bend"}


def add_row(loads: Loads) -> None:
    """A row is added at the end, which was not saved."""
    loads.rows.append("new")


def set_page_size(loads: Loads) -> None:
    """Pages get another size."""
    loads.settings["page_size"] = SIZE + 1


def finish(loads: Loads) -> None:
    """Another load begins later, and finishes."""
    loads.audits.insert(0, audit_with(rows_yielded=ROWS, verdict="continuous", started_at=datetime.now(UTC)))


def damage_start(loads: Loads) -> None:
    """The first record is damaged."""
    content = bytearray(loads.file.read_bytes())
    content[FRAME.size] ^= 1
    loads.file.write_bytes(content)


def write_other_version(loads: Loads) -> None:
    """The first record is whole, and of another version."""
    figures = msgspec.msgpack.encode({"since": 1})
    loads.file.write_bytes(FRAME.pack(len(figures), 0, digest_of(figures, b"")) + figures)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (change_row, ["the listing changed since"]),
        (add_row, ["the listing changed since"]),
        (set_page_size, ["they are of another version, or of other settings"]),
        (finish, ["a load has finished since"]),
        (damage_start, []),
        (write_other_version, ["they are of another version"]),
    ],
)
def test_all_is_read_again_where_saved_windows_may_be_wrong(
    continued: Loads, change: Callable[[Loads], None], expected: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    """After a change of the listing, the settings or the file, all windows are read again, and reading starts over."""
    change(continued)
    began = datetime.now(UTC)
    with caplog.at_level("INFO"):
        ids, audit = continued.load()
    # the first window of the sample shows it
    sampled = sample(saved_windows())[:1] if expected == ["the listing changed since"] else []
    assert continued.windows == [*sampled, *whole(len(continued.rows), continued.settings["page_size"])]
    assert len(ids) == len(set(ids)) == len(continued.rows)
    assert reasons(caplog) == expected
    assert audit["started_at"] >= began


def test_a_listing_that_changes_while_the_rest_is_read_is_read_again(
    continued: Loads, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that comes after the sample was read again makes all windows be read again."""

    def grow(request: int) -> None:
        if request == len(sample(saved_windows())) + 3:
            continued.rows.insert(0, "new")

    with caplog.at_level("INFO"):
        ids, _ = continued.load(grow)
    assert sorted(ids) == sorted(str(row) for row in continued.rows)
    assert reasons(caplog) == ["the listing changed while the rest was read"]


def test_windows_that_are_saved_again_replace_those_before(continued: Loads, caplog: pytest.LogCaptureFixture) -> None:
    """A load that reads all windows again, and is stopped as well, is continued without the windows before it."""
    change_row(continued)
    with caplog.at_level("INFO"):
        continued.stop()
        ids, _ = continued.load()
    assert len(ids) == ROWS
    assert reasons(caplog) == ["the listing changed since"]
    assert caplog.messages[1] == "contacts: continued with 8 pages saved by an earlier load"


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_record_at_the_end_is_cut_off(
    continued: Loads, caplog: pytest.LogCaptureFixture, *, cut: bool
) -> None:
    """A load continues with the windows before a record that is cut short or damaged, and saves new ones there."""
    content = continued.file.read_bytes()
    continued.file.write_bytes(content[:-1] if cut else content[:-1] + bytes([content[-1] ^ 1]))
    with caplog.at_level("INFO"):
        ids, _ = continued.load()
        again, _ = continued.load()
    assert sorted(ids) == sorted(again) == continued.rows
    assert [line for line in caplog.messages if "continued" in line] == [
        "contacts: continued with 8 pages saved by an earlier load",
        "contacts: continued with 14 pages saved by an earlier load",
    ]


def test_rows_without_an_id_are_not_saved(loads: Loads, caplog: pytest.LogCaptureFixture) -> None:
    """A window with a row without an id, whose text may be personal, is read again by the load that continues."""
    first, last, *windows, front = whole()
    loads.rows[40] = {"city": "Bend"}
    assert loads.stop() == saved_windows()
    assert b"Bend" not in loads.file.read_bytes()
    with caplog.at_level("INFO"):
        ids, _ = loads.load()
    with_id = [windows[0], *windows[2:9]]
    assert loads.windows == [*sample(with_id), first, last, windows[1], *windows[9:], front]
    assert len(ids) == ROWS
    assert caplog.messages[0] == "contacts: continued with 8 pages saved by an earlier load"


def test_only_the_owner_can_read_the_file(loads: Loads) -> None:
    """A new file is readable and writable by its owner only, and is next to the working folder."""
    loads.stop()
    assert loads.file == loads.folder.parent / "pipeline.contacts.pages"
    assert stat.S_IMODE(loads.file.stat().st_mode) == 0o600


@pytest.mark.parametrize("settings", [{"resume": False}, {"proof": "exact"}])
def test_nothing_is_saved_where_it_would_not_be_used(loads: Loads, settings: dict[str, Any]) -> None:
    """Without the setting, or where two passes have to prove the listing exact, there is no file."""
    loads.settings.update(settings)
    with pytest.raises(Stopped):
        loads.load(stop)
    assert not loads.file.exists()


@pytest.mark.parametrize(
    ("age", "finished", "reason"),
    [
        (timedelta(0), (), ""),
        (timedelta(hours=2), (), ""),
        (timedelta(hours=2, seconds=1), (), "they are older than 2 hours"),
        (timedelta(seconds=-1), (), "they are older than 2 hours"),
        (timedelta(hours=1), (timedelta(seconds=-2),), ""),
        (timedelta(hours=1), (timedelta(seconds=-1),), "a load has finished since"),
        (timedelta(hours=1), (timedelta(seconds=-2), timedelta(seconds=1)), ""),
    ],
)
def test_saved_windows_are_used_for_a_while_and_until_a_load_has_finished(
    age: timedelta, finished: Sequence[timedelta], reason: str
) -> None:
    """Windows are used for `resume_for`, unless the newest finished load began after them, or a second before."""
    task = task_from(RowsInMemory({"": []}), resume_for=2.0)
    saved = Origin(NOW - age, state_of(task))
    audits = [audit_with(started_at=saved.started_at + since) for since in finished]
    assert why_unusable(msgspec.msgpack.encode(saved), Origin(NOW, state_of(task)), task, audits) == reason


@pytest.mark.parametrize(
    "settings",
    [
        {"privacy": Privacy({"email": "hash"}, b"another sixteen b")},
        {"privacy": Privacy({"email": "drop"}, KEY)},
        {"contact_filters": ContactFilters(search="an")},
        {"account_id": "7"},
        {"date_format": "%d-%m-%Y"},
        {"page_size": 700},
    ],
)
def test_windows_of_other_settings_are_not_used(settings: dict[str, Any]) -> None:
    """The digest differs by the policies and their key, the filters, the account, the format and the page size."""
    hashed: dict[str, Any] = {"privacy": Privacy({"email": "hash"}, KEY)}
    state = state_of(task_from(RowsInMemory({}), **hashed))
    assert state_of(task_from(RowsInMemory({}), **hashed, max_workers=3)) == state
    assert state_of(task_from(RowsInMemory({}), **{**hashed, **settings})) != state
