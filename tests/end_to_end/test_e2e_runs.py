"""What does the ledger of runs keep, and who may read it?"""

import json
import re
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dlt
import pytest
from dlt.common.pipeline import get_dlt_pipelines_dir
from terminals import Letters, Outcome, run_command
from worlds import ACCESS, REFRESH, World

from letters_source import DestinationError, LettersError, make_pipeline, run
from letters_source.destination.ledger import LEDGER, read_runs
from letters_source.results import RunError
from programmable_emulator import Emulator, Reply, When

CANARY = "Canary O'Malley"


def ledger() -> Path:
    """The file of the ledger."""
    return Path(get_dlt_pipelines_dir()) / LEDGER


def listed(letters: Letters, *options: object) -> list[Any]:
    """What `letters runs --json` prints."""
    done = letters("runs", "--json", *options)
    assert (done.code, done.err) == (0, "")
    found: list[Any] = json.loads(done.out)
    return found


def ending(run: Any) -> Any:
    """The verdicts of a run, or its error's kind and exit code."""
    return (run["error"]["kind"], run["error"]["exit_code"]) if "error" in run else run["verdicts"]


def test_the_ledger_lists_good_and_failed_runs(letters: Letters, world: World) -> None:
    """The ledger lists good and failed runs, newest first, with place, verdicts or error, rows and duration."""
    started = datetime.now(UTC)
    for number in range(2):
        world.emulator.access_token = ACCESS
        assert letters("load", "--quiet").code == 0
        world.emulator.access_token = f"another {number}"
        assert letters("load", "--quiet").code == 3
    found = listed(letters)
    good, failed = {"templates": ["exact"], "contacts": ["exact"]}, ("NotAuthorized", 3)
    assert [ending(each) for each in found] == [failed, good] * 2
    assert {(each["destination"], each["place"], each["dataset"]) for each in found} == {
        ("duckdb", str(world.place), "letters_data")
    }
    assert [each["tables"].get("contacts") for each in found] == [None, 45] * 2
    assert [bool(each["load_id"]) for each in found] == [False, True] * 2
    times = [datetime.fromisoformat(each["started_at"]) for each in found]
    assert times == sorted(times, reverse=True)
    assert started < times[-1]
    assert all(each["seconds"] > 0 for each in found)


def test_the_table_shows_a_line_for_each_run(world: World) -> None:
    """`letters runs` shows a line for each run, with its rows and verdict, or its error."""
    run_command("load", "--quiet")
    world.emulator.access_token = "another"
    run_command("load", "--quiet", "--dataset", "spring")
    lines = run_command("runs").out.splitlines()
    place = str(Path("letters.duckdb").absolute())
    head, *rows = [re.split(" *[│┃] *", line)[1:-1] for line in lines if line.startswith(("│", "┃"))]
    assert head == ["started (UTC)", "outcome", "rows", "seconds", "dataset", "where"]
    assert [(*row[1:3], *row[4:]) for row in rows] == [
        ("NotAuthorized (exit code 3)", "", "spring", place),
        ("exact", "52", "letters_data", place),
    ]


def test_runs_can_be_selected(letters: Letters, world: World) -> None:
    """`letters runs` can select runs by place, by dataset, and by number."""
    letters("load", "--quiet", "--only", "templates")
    letters("load", "--quiet", "--only", "templates", "--dataset", "spring")
    letters("load", "--quiet", "--only", "templates", "--destination", "parquet", "--to", "folder")
    assert [each["destination"] for each in listed(letters, "--last", 2)] == ["parquet", "duckdb"]
    assert [each["dataset"] for each in listed(letters, "--to", "letters.duckdb")] == ["spring", "letters_data"]
    assert [each["dataset"] for each in listed(letters, "--dataset", "spring")] == ["spring"]
    assert [each["place"] for each in listed(letters, "--to", "folder")] == [str(Path("folder").absolute())]
    assert listed(letters, "--to", "s3://bucket/folder") == []


@pytest.mark.usefixtures("project")
def test_before_the_first_run_there_are_none(letters: Letters) -> None:
    """`letters runs --json` prints an empty list before the first run."""
    assert letters("runs", "--json") == Outcome(0, "[]\n", "")


def test_a_run_that_fails_before_it_starts_is_listed(letters: Letters, world: World) -> None:
    """The ledger has runs that failed because of wrong options, before anything was opened."""
    letters("load", "--quiet", "--dataset", "Spring")
    letters("load", "--quiet", "--only", "contacts", "--shared")
    assert [(ending(each), each["place"], each["dataset"]) for each in listed(letters)] == [
        (("UsageError", 2), str(world.place), "letters_data"),
        (("DestinationError", 2), str(world.place), "Spring"),
    ]


def test_a_destination_in_use_is_listed(letters: Letters, world: World) -> None:
    """The ledger has a run whose destination was in use."""
    world.load()
    with world.pipeline.sql_client():
        assert run_command("load", "--quiet").code == 6
    assert ending(listed(letters)[0]) == ("DestinationInUse", 6)


def test_accounts_are_runs_of_their_own(letters: Letters, world: World) -> None:
    """The ledger has a run for each account, and one more for views that could not be made."""
    accounts = ("--account-id", "501", "--account-id", "502")
    letters("load", "--quiet", *accounts)
    assert [each["dataset"] for each in listed(letters)] == ["letters_data_502", "letters_data_501"]
    Path("copy.duckdb").write_text("no database")
    assert letters("load", "--quiet", "--publish", "copy.duckdb", *accounts).code == 2
    newest = listed(letters)[0]
    assert (ending(newest), newest["dataset"]) == (("DestinationError", 2), "letters_data_all")


def test_run_from_python_is_listed(world: World) -> None:
    """The ledger has the runs of `run` in Python, with the class of their error."""
    run(make_pipeline(), **world.settings)
    with pytest.raises(LettersError):
        run(make_pipeline(), **{**world.settings, "page_size": -1})
    good, failed = read_runs(ledger().parent)
    assert (good.rows, good.error is failed.error) == (52, False)
    assert isinstance(failed.error, RunError)
    assert (failed.error.kind, failed.error.exit_code) == ("SettingsError", 2)


def test_the_ledger_holds_no_secret_and_no_personal_data(letters: Letters, world: World) -> None:
    """The ledger holds no token, filter or message of the service, and only its owner can read it."""
    letters("load", "--quiet", "--only", "contacts", "--search", CANARY)
    assert CANARY in letters("load", "--quiet").err
    world.emulator.canned.always(When("templates"), Reply.of({"message": f"{CANARY} is unknown"}, 404))
    assert CANARY in letters("load", "--quiet", "--dataset", "spring").err
    text = ledger().read_text()
    assert text.count("\n") == 3
    assert not any(secret in text for secret in (ACCESS, REFRESH, CANARY))
    assert ledger().stat().st_mode & 0o777 == 0o600


def test_a_ledger_that_cannot_be_written_fails_no_load(letters: Letters, world: World) -> None:
    """A load succeeds with one warning if the ledger cannot be written."""
    ledger().mkdir(parents=True)
    assert letters("load", "--quiet") == Outcome(
        0, "", f"WARNING The run was not recorded in {ledger()}: [Errno 21] Is a directory: '{ledger()}'\n"
    )
    assert letters("runs").code == 2


def test_an_interrupted_run_is_listed(letters: Letters, world: World) -> None:
    """The ledger has a run that Ctrl-C interrupted, with exit code 130."""

    def interrupt(_: Emulator, number: int) -> None:
        """Ctrl-C, as the second request comes in."""
        if number == 2:
            signal.raise_signal(signal.SIGINT)

    world.emulator.before_answer = interrupt
    letters("load", "--quiet")
    assert ending(listed(letters)[0]) == ("KeyboardInterrupt", 130)


@pytest.mark.usefixtures("project")
def test_settings_that_cannot_be_read_are_one_error() -> None:
    """A malformed settings file ends `letters load` and `letters runs` with one line that names it."""
    Path(".dlt/config.toml").write_text("[sources.letters\nbase_url = 1\n")
    for command in ("load", "runs"):
        done = run_command(command)
        assert (done.code, done.out, done.err.count("\n"), "config.toml" in done.err) == (2, "", 1, True)


def test_a_destination_that_cannot_be_opened_is_listed_without_its_place(letters: Letters, world: World) -> None:
    """The ledger has a run without a place if its destination could not be opened."""
    with pytest.raises(DestinationError):
        run(dlt.pipeline("letters", destination="postgres", dataset_name="spring"), **world.settings)
    [failed] = listed(letters)
    assert (failed["destination"], failed["place"], failed["dataset"]) == ("postgres", None, "spring")
