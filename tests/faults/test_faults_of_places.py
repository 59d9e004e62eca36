"""Unusable destinations are refused before the first request, or keep their rows if they fail later."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from threading import Event, Timer
from typing import Any

import duckdb
import pytest
from commands import PROGRAM, Command, start_command
from holdings import LISTED, read_tables
from refusals import contents
from terminals import Outcome, open_process, run_command
from worlds import Begin, World

from letters_source import DestinationError, DestinationInUse, make_pipeline, run, unite_account
from letters_source.config.settings import Kind
from letters_source.destination import duckdb as duckdb_kind
from letters_source.destination.kinds import place_of
from letters_source.destination.local_files import LEAST_ROOM, check_space
from letters_source.destination.publish import publish_copy
from programmable_emulator import Behavior, Emulator, When
from recording_server import answer, record

WAIT_SECONDS = 120
NEXT = "; load again, and see the cause if that fails too (--debug shows it).\n"
HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def variables(world: World) -> dict[str, str]:
    """The environment of a command that loads what the world loads, into the same working folder."""
    return {**os.environ, **world.variables()}


@contextmanager
def held(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A notebook that has a file open, until its stdin is closed or the block ends."""
    with open_process(sys.executable, "-c", HOLD, str(file), stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.stdin.close()


@dataclass(frozen=True)
class Loading:
    """A load by the command that waits for its first page until `go` is set."""

    process: Command
    go: Event


def pause(emulator: Emulator) -> tuple[Event, Event]:
    """Make its first response wait; return an event that is set by the request, and the one that it waits for."""
    started, go = Event(), Event()

    def wait(emulator: Emulator, _: int) -> None:
        """Answer when the test allows it."""
        started.set()
        go.wait(WAIT_SECONDS)
        emulator.before_answer = None

    emulator.before_answer = wait
    return started, go


@contextmanager
def loading(world: World) -> Iterator[Loading]:
    """A load that continues when `go` is set or the block ends, and then succeeds."""
    started, go = pause(world.emulator)
    options = ["load", "--to", str(world.place), "--quiet"]
    kind = ["--destination", "parquet"] if world.place.suffix != ".duckdb" else []
    with start_command(*options, *kind, env=variables(world)) as process:
        assert started.wait(WAIT_SECONDS)
        try:
            yield Loading(process, go)
        finally:
            go.set()
            _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def test_f73_a_second_run_is_refused_or_waits(world: World) -> None:
    """A second run is refused with the number of the first, unless it is set to wait and the first ends in time."""
    name = str(world.pipeline.pipeline_name)
    asked = len(world.emulator.hits)
    with loading(world) as first:
        for seconds in (0, 0.1):
            with pytest.raises(DestinationInUse) as caught:
                world.load(lock_wait=seconds)
            assert str(caught.value) == (
                f"A load of dlt's pipeline {name} is already running, pid {first.process.pid}; load again when it has "
                "ended, or set sources.letters.lock_wait to the seconds to wait."
            )
            assert caught.value.exit_code == 6
        assert world.emulator.hits[asked:] == []
        Timer(0.5, first.go.set).start()
        result = world.load(lock_wait=WAIT_SECONDS)
    assert result.tables["contacts"] == 40
    assert world.is_exact()


def test_f73_loads_into_three_files_run_at_the_same_time(world: World, tmp_path: Path) -> None:
    """While a load runs, others load other files without any setting, by the command and from Python."""
    files = [tmp_path / f"{name}.duckdb" for name in ("first", "second", "third")]
    commands = [("load", "--quiet", "--to", str(file)) for file in files]
    with world.emulator.hold(When("templates")) as [hold]:
        first = start_command(*commands[0], env=variables(world))
        assert hold.arrived.wait(WAIT_SECONDS)
        assert run_command(*commands[0], env=variables(world)).code == 6
        assert run_command(*commands[1], env=variables(world)) == Outcome(0, "", "")
        run(make_pipeline("duckdb", files[2]), **world.settings)
    with first:
        assert first.communicate() == ("", "")
    assert [len(read_tables(file)["contacts"]) for file in files] == [40, 40, 40]


def test_f73_two_pipelines_do_not_load_into_one_folder_at_once(begin: Begin, tmp_path: Path) -> None:
    """A load into a folder is refused while another pipeline loads into it, because their files would mix."""
    world = begin(Emulator(30, 3), "parquet")
    world.load()
    with loading(world):
        other = make_pipeline("parquet", world.place, name="other")
        with pytest.raises(DestinationInUse) as caught:
            run(other, **world.settings)
    assert str(caught.value) == (
        f"A load into {world.place} is already running; load again when it has ended, or set "
        "sources.letters.lock_wait to the seconds to wait."
    )
    assert world.is_exact()


def test_f74_a_notebook_that_holds_the_file_is_named_or_waited_for(world: World) -> None:
    """A load is refused before any request while a notebook has the file open, or waits for it if it is set to."""
    before, asked = contents(world.place), len(world.emulator.hits)
    with held(world.place) as holder:
        with pytest.raises(DestinationInUse) as caught:
            world.load()
        assert str(caught.value).startswith(f"{world.place} cannot be opened for writing: Could not set lock on file")
        assert f"(PID {holder.pid})" in str(caught.value)
        assert "sources.letters.lock_wait" in str(caught.value)
        assert world.emulator.hits[asked:] == []
        assert contents(world.place) == before
        assert holder.stdin is not None
        Timer(0.5, holder.stdin.close).start()
        world.load(lock_wait=WAIT_SECONDS)
    assert world.is_exact()


def test_f74_a_connection_of_the_same_process_blocks_no_load(world: World) -> None:
    """A notebook that loads while it has the file open itself sees the new rows."""
    with duckdb.connect(str(world.place)) as connection:
        world.load()
        assert connection.sql("select count(*) from letters_data.contacts").fetchall() == [(40,)]


def test_f72_a_place_that_cannot_be_loaded_into_is_refused_before_the_first_request(
    begin: Begin, tmp_path: Path
) -> None:
    """A missing folder, a file of another kind and a folder in place of a file are refused with their plain cause."""
    world = begin(Emulator(1, 1))
    (tmp_path / "notes.txt").write_text("These are notes.\n" * 1000)
    (tmp_path / "folder.duckdb").mkdir()
    places: tuple[tuple[Kind, str, str], ...] = (
        ("duckdb", "missing/letters.duckdb", "does not exist"),
        ("duckdb", "notes.txt", "not a valid DuckDB database file"),
        ("duckdb", "folder.duckdb", "cannot be opened"),
        ("parquet", "notes.txt", "is a file, not a folder"),
    )
    for kind, place, cause in places:
        with pytest.raises(DestinationError, match=cause):
            run(make_pipeline(kind, tmp_path / place), **world.settings)
    assert world.emulator.hits == []


def test_f70_a_disk_without_room_is_refused_before_the_first_request(tmp_path: Path) -> None:
    """The error for a full disk says how much is free and how much a load needs; a disk with room is accepted."""
    check_space(tmp_path)
    with pytest.raises(DestinationError) as caught:
        check_space(Path("/proc"))
    assert str(caught.value) == (
        f"/proc has 0 MiB of free disk space, but a load needs at least {LEAST_ROOM // 2**20} MiB; free some space."
    )


LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""


def load_limited(world: World, size: int, *arguments: str) -> Outcome:
    """The command, in a process whose files may be only so large: beyond, a write is refused as on a full disk."""
    options = ["load", "--to", str(world.place), "--quiet", *arguments]
    environment = {**variables(world), "LOAD__RAISE_ON_MAX_RETRIES": "1", "RUNTIME__LOG_LEVEL": "CRITICAL"}
    return run_command(*options, env=environment, code=LIMITED.format(size=size) + PROGRAM)


def test_f70_a_destination_that_is_full_keeps_its_old_rows(begin: Begin) -> None:
    """A load that finds no room in its file after reading fails with the cause and keeps the old rows."""
    world = begin(Emulator(40, 7))
    world.load(sync=True)
    before = world.tables()
    # more than the file may grow by, and less than its maximum size
    for _ in range(8000):
        world.emulator.contacts.grow()
    done = load_limited(world, world.place.stat().st_size + 2**20, "--page-size", "10000", "--sync")
    assert (done.code, done.err) == (
        1,
        f'letters: load: Failed to commit: Could not write file "{world.place}.wal": File too large{NEXT}',
    )
    tables = world.tables()
    assert {name: tables[name] for name in LISTED} == {name: before[name] for name in LISTED}
    assert world.load(page_size=10_000, sync=True).tables["contacts"] == 8040


def test_f71_a_working_folder_that_is_full_leaves_the_destination_untouched(world: World) -> None:
    """A load whose rows do not fit where they wait for the verdict fails and leaves every byte of its place."""
    before = contents(world.place)
    for _ in range(1500):
        world.emulator.contacts.grow()
    done = load_limited(world, 2**17, "--page-size", "1000")
    assert (done.code, done.err) == (1, f"letters: extract: [Errno 27] File too large{NEXT}")
    assert contents(world.place) == before


def test_f72_a_file_that_was_taken_since_the_preflight_is_waited_for(world: World) -> None:
    """A file that another process took is waited for before it is loaded, and before it is copied for readers."""
    readers = world.place.with_name("readers.duckdb")
    with held(world.place) as holder:
        with (
            pytest.raises(DestinationInUse, match=rf"^Could not set lock .*PID {holder.pid}"),
            duckdb_kind.lock(place_of(world.pipeline), 0),
        ):
            pass
        with pytest.raises(DestinationInUse, match=r"readers.duckdb was not published, .+: Could not set lock"):
            publish_copy(place_of(world.pipeline), readers, 0)
        assert holder.stdin is not None
        Timer(0.3, holder.stdin.close).start()
        with duckdb_kind.lock(place_of(world.pipeline), WAIT_SECONDS):
            pass
    publish_copy(place_of(world.pipeline), readers, 0)
    assert readers.exists()


def test_f72_an_account_s_file_that_is_taken_stops_its_copy(world: World, tmp_path: Path) -> None:
    """An account's file that another process has open is not copied into the combined one, and the error says so."""
    copyfile(world.place, own := tmp_path / "all_501.duckdb")
    with held(own), pytest.raises(DestinationInUse, match=r"^501 could not be copied into .+: Could not set lock"):
        unite_account(tmp_path / "all.duckdb", "501", ["501", "502"])


def test_f72_loads_in_threads_of_one_process_wait_for_one_another(begin: Begin) -> None:
    """A load waits for another in a thread of its process, because both would change dlt's configuration."""
    first, second = begin(Emulator(30, 3)), begin(Emulator(30, 3))
    started, go = pause(first.emulator)
    with ThreadPoolExecutor(2) as pool:
        loads = [pool.submit(first.load)]
        assert started.wait(WAIT_SECONDS)
        loads.append(pool.submit(second.load, allow_other_service=True))
        # long enough for a load that does not wait
        assert not wait_for(loads, timeout=2).done
        assert not second.emulator.hits
        go.set()
        assert [load.result().tables["contacts"] for load in loads] == [30, 30]
    assert first.is_exact()
    assert second.is_exact()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_f69_a_load_that_gets_a_signal_leaves_the_old_tables(world: World, how: signal.Signals) -> None:
    """A load that gets a signal in the middle of its pages leaves every byte of its place, and the next is exact."""
    before = contents(world.place)
    started = Event()
    world.emulator.contacts.delete(0)
    world.emulator.before_answer = lambda *_: started.set()
    world.emulator.behavior = Behavior(latency_ms=200)
    options = ["load", "--to", str(world.place), "--quiet", "--page-size", "1"]
    with start_command(*options, env=variables(world)) as process:
        assert started.wait(WAIT_SECONDS)
        process.send_signal(how)
        process.communicate()
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGTERM)
    world.emulator.behavior = Behavior()
    assert contents(world.place) == before
    world.load()
    assert world.is_exact()


def test_f76_a_lost_working_folder_changes_nothing(world: World) -> None:
    """A load without the working folder of the load before it, as in a new container, is exact."""
    world.emulator.contacts.delete(0)
    world.pipeline.drop()
    world.load()
    assert world.is_exact()


def test_f78_telemetry_is_off_in_the_command(begin: Begin) -> None:
    """A load by the command sends nothing to dlt's endpoint, though no variable turns telemetry off."""
    world = begin(Emulator(3, 1))
    with record(answer(b"{}")) as endpoint:
        environment = {**variables(world), "RUNTIME__DLTHUB_TELEMETRY_ENDPOINT": endpoint.base_url}
        del environment["RUNTIME__DLTHUB_TELEMETRY"]
        done = run_command("load", "--to", str(world.place), "--quiet", env=environment)
    assert (done.code, endpoint.sent) == (0, [])


def others_may(folder: Path) -> set[str]:
    """Return the contents of a folder that others than the owner may read, write or enter."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077}


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_f79_only_the_owner_can_read_the_files(begin: Begin, tmp_path: Path, kind: Kind) -> None:
    """Only the owner may enter or read what a load writes, while it runs and afterwards."""
    before = os.umask(0o022)
    world = begin(Emulator(30, 3), kind)
    seen: set[str] = set()

    def look(*_: Any) -> None:
        """Record what others may read now."""
        seen.update(others_may(tmp_path))

    world.emulator.before_answer = look
    world.load()
    look()
    assert os.umask(before) == 0o022
    folders = {"dlt", "dlt/letters", str(Path(world.pipeline.pipelines_dir).relative_to(tmp_path))}
    assert seen <= {*folders, "dlt/pipelines", "home", ".dlt", ".cache"}
    assert world.is_exact()
