"""The command: what it does and prints, and its exit codes."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import jwt
import pytest
from commands import PROGRAM, start_command
from holdings import COLUMNS, LISTED, change, held_tables, query, read_tables
from starlette.requests import Request
from starlette.responses import Response
from terminals import COMMAND, Letters, Outcome, open_process, run_at_terminal, run_command, run_process, run_python
from worlds import ACCESS, Begin, World

from letters_source import Result, emulator, make_pipeline, run
from letters_source.cli.process import tell_unexpected
from letters_source.errors import INTERRUPTED
from letters_source.service.listings import NOBODY
from letters_source.tables import TABLES
from programmable_emulator import Behavior, Drift, Emulator, Reply, When

OPTIONS = {
    "demo": {"--contacts", "--to", "--quiet", "--debug", "-h, --help"},
    "load": {
        "--destination", "--to", "--publish", "--dataset", "--only", "--account-id", "--facets", "--history", "--sync",
        "--mailings", "--mailings-since", "--pii", "--search", "--address-status", "--last-mailed-status",
        "--last-mailed-from", "--last-mailed-to", "--tag", "--with-property-addresses", "--return-addresses",
        "--product-type", "--creator", "--shared", "--page-size", "--max-workers", "--requests-per-second",
        "--environment", "--allow-empty", "--allow-failed-mailings", "--allow-shared-ids", "--allow-other-service",
        "--max-shrink", "--lock-wait", "--resume", "--json", "--on-failure", "--quiet", "--debug", "-h, --help",
    },
    "runs": {"--to", "--dataset", "--last", "--json", "--debug", "-h, --help"},
    "check": {
        "--account-id", "--probe", "--json", "--page-size", "--max-workers", "--requests-per-second", "--environment",
        "--quiet", "--debug", "-h, --help",
    },
    "init": {"--base-url", "--access-token", "--refresh-token", "--debug", "-h, --help"},
    "query": {"--from", "--dataset", "--format", "--debug", "-h, --help"},
    "schema": {"--format", "--debug", "-h, --help"},
    "serve": {"--port", "--contacts", "--latency-ms", "--debug", "-h, --help"},
}  # fmt: skip


def rows_shown(out: str) -> list[list[str]]:
    """The cells of the table on the terminal, without its frame."""
    lines = [line for line in out.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]


def is_complete(world: World, place: Path) -> bool:
    """Whether a place holds what the emulator holds."""
    tables = read_tables(place)
    return {name: tables[name] for name in LISTED} == held_tables(world.emulator)


def test_load_fills_a_duckdb_file_and_shows_its_tables(letters: Letters, world: World) -> None:
    """The output has a table of tables, the place, and a query to try; stderr has a line per listing and phase."""
    done = letters("load", "--page-size", 10)
    assert done.code == 0
    assert is_complete(world, Path("letters.duckdb"))
    head, *rows = rows_shown(done.out)
    assert head == ["table", "rows", "verdict", "seconds", "requests"]
    counts = {name: len(rows) for name, rows in read_tables(Path("letters.duckdb")).items()}
    assert {row[0]: int(row[1]) for row in rows} == counts
    assert {row[0]: (row[2], row[4]) for row in rows if row[2]} == {
        "templates": ("exact", "1"),
        "contacts": ("stable", "7"),
    }
    place = Path("letters.duckdb").absolute()
    assert re.search(
        rf"\nLoaded and verified in \d+\.\d s: {place}, dataset letters_data\nTry: \S*python\S* -c ", done.out
    )
    lines = done.err.splitlines()
    assert [re.sub(r"seconds: \d+\.\d$", "seconds: 0.0", line) for line in lines] == [
        "INFO templates: 7 rows, exact; requests: 1, seconds: 0.0",
        "INFO contacts: 45 rows, stable; requests: 7, seconds: 0.0",
        "INFO writing the tables",
        "INFO verifying the load",
    ]


def test_load_fills_a_parquet_folder(letters: Letters, world: World, tmp_path: Path) -> None:
    """`--to` names the Parquet folder."""
    done = letters("load", "--destination", "parquet", "--to", tmp_path / "some/folder")
    assert done.code == 0
    assert is_complete(world, tmp_path / "some/folder")
    assert f": {tmp_path / 'some/folder'}, dataset letters_data\n" in done.out


@pytest.mark.parametrize("destination", ["duckdb", "parquet"])
def test_the_query_to_try_can_be_pasted_into_a_shell(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch, destination: str
) -> None:
    """The printed query shows contacts by state."""
    monkeypatch.delenv("UV", raising=False)
    done = letters("load", "--destination", destination, "--only", "contacts")
    [line] = [line.removeprefix("Try: ") for line in done.out.splitlines() if line.startswith("Try: ")]
    program, *arguments = shlex.split(line)
    shown = run_python(*arguments)
    assert Path(str(shutil.which(program))).samefile(sys.executable)
    assert re.search(r"\bstate\b.*\bcontacts\b", shown.out)
    assert any(row["state"] in shown.out for row in held_tables(world.emulator)["contacts"])


def test_the_query_to_try_is_about_present_rows(letters: Letters, world: World) -> None:
    """With history, the printed query reads the view of current rows."""
    assert " from letters_data.contacts_current " in letters("load", "--history").out.replace('"', " ")


def test_a_facet_whose_filter_is_ignored_is_shown_as_such(letters: Letters, world: World) -> None:
    """The table of a facet whose filter is ignored is marked as ignored."""
    rows = [row.document for row in world.emulator.templates.rows()]
    everything = Reply.of({"data": {"count": len(rows), "rows": rows}})
    world.emulator.canned.always(When("templates"), everything)
    shown = rows_shown(letters("load", "--only", "templates", "--facets").out)
    assert {row[0]: row[1:3] for row in shown if "__shared" in row[0]} == {"templates__shared": ["0", "ignored"]}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--only", "contacts", "--shared"), "templates"),
        (("--only", "templates", "--search", "a"), "contacts"),
        (("--only", "templates,", "--tag", "7", "--creator", "a"), "contacts"),
        (("--only", "contacts", "--mailings"), "mailings"),
        (("--only", "mailings", "--facets"), "contacts"),
    ],
)
def test_options_about_what_is_left_out_end_with_2(
    letters: Letters, world: World, arguments: tuple[str, ...], part: str
) -> None:
    """Options about a listing that `--only` leaves out are an error, and nothing is requested."""
    done = letters("load", *arguments)
    assert (done.code, world.emulator.hits) == (2, [])
    message = f"letters: --only leaves out {part}, but other options are about them. See letters load --help.\n"
    assert done.err == message


@pytest.mark.parametrize(
    ("option", "reason"), [("--account-id", "option --account-id is empty."), ("--only", "--only is empty")]
)
def test_an_empty_option_ends_with_2(letters: Letters, world: World, option: str, reason: str) -> None:
    """A blank option, as from an unset shell variable, is an error."""
    done = letters("load", option, " ")
    assert (done.code, world.emulator.hits) == (2, [])
    assert reason in done.err


@pytest.mark.parametrize("command", ["load", "check"])
def test_a_file_of_settings_that_is_no_toml_ends_with_2(project: Path, command: str) -> None:
    """The error for a settings file that is not TOML is one line with the file, the line and the column."""
    (project / ".dlt/config.toml").write_text("[sources.letters\nbase_url = 1\n")
    done = run_command(command)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert re.search(r"config\.toml .*at line 1 col 16", done.err)
    assert "Traceback" in run_command(command, "--debug").err


def test_only_loads_the_listings_named(letters: Letters, world: World) -> None:
    """`--only` accepts extra blanks and commas."""
    done = letters("load", "--only", " contacts ,")
    assert done.code == 0
    assert {hit.path.rpartition("/")[2] for hit in world.emulator.hits} == {"contacts"}
    assert {row[0] for row in rows_shown(done.out)[1:]} == {
        "contacts",
        "contacts__contact_labels",
        "rejected_rows",
        "listing_audit",
    }


def test_options_go_before_the_environment(letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options outrank the environment, in requests and in the audit."""
    monkeypatch.setenv("SOURCES__LETTERS__PAGE_SIZE", "20")
    monkeypatch.setenv("SOURCES__LETTERS__DEMO__ACCOUNT_ID", "502")
    options = ("--page-size", 15, "--max-workers", 2, "--requests-per-second", 500, "--environment", "demo")
    assert letters("load", *options).code == 0
    audits = read_tables(Path("letters.duckdb"))["listing_audit"]
    assert {(row["page_size_asked"], row["environment"], row["account_id"]) for row in audits} == {(15, "demo", "502")}


def test_quiet_writes_nothing(letters: Letters, world: World) -> None:
    """With `--quiet`, commands that succeed write nothing to stdout or stderr."""
    assert letters("load", "--quiet") == Outcome(0, "", "")
    assert letters("check", "--quiet") == Outcome(0, "", "")
    assert is_complete(world, Path("letters.duckdb"))


def test_quiet_still_warns(letters: Letters, world: World) -> None:
    """Warnings about new fields are written even with `--quiet`."""
    world.emulator.behavior = Behavior(extra_fields={"x": 1})
    done = letters("load", "--quiet", "--only", "templates")
    assert done == Outcome(0, "", "WARNING templates: new field x in 7 rows, kept in the column undocumented\n")


def test_quiet_warns_of_a_new_field_once(letters: Letters, world: World) -> None:
    """A load warns only of fields that the dataset's audits do not have yet."""
    world.emulator.behavior = Behavior(extra_fields={"x": 1})
    world.emulator.templates.insert({"id": "odd", "name": 7})
    letters("load", "--quiet", "--only", "templates")
    assert letters("load", "--quiet", "--only", "templates") == Outcome(0, "", "")
    world.emulator.behavior = Behavior(extra_fields={"x": 1, "y": 2})
    done = letters("load", "--quiet", "--only", "templates")
    assert done == Outcome(0, "", "WARNING templates: new field y in 8 rows, kept in the column undocumented\n")


def test_debug_logs_every_page(letters: Letters, world: World) -> None:
    """`--debug` logs a line per response, including pages that are read again."""
    done = letters("load", "--debug", "--page-size", 10, "--only", "contacts")
    assert done.code == 0
    pages = re.findall(r"DEBUG .*page (\d) of pass 1: +(\d+) rows, count 45", done.err)
    assert sorted(pages) == [("0", "10"), ("0", "10"), *((page, "10") for page in "123"), ("4", "5"), ("4", "5")]


FILTER_CELLS = [
    ["filter of templates", "effect"],
    ["search", "no difference"],
    ["product_types", "honored"],
    ["creator", "honored"],
    ["is_shared", "honored"],
    ["filter of contacts", "effect"],
    ["search", "honored"],
    ["address_status", "honored"],
    ["last_mailed_status", "honored"],
    ["last_mailed_date", "honored"],
    ["tags", "honored"],
    ["with_property_addresses", "honored"],
    ["is_return_address", "honored"],
]


def test_check_says_what_a_load_would_find(letters: Letters, world: World) -> None:
    """The check shows a row per listing and per filter, and loads nothing."""
    done = letters("check", "--page-size", 10)
    assert (done.code, done.err) == (0, "")
    head, *rows = rows_shown(done.out)
    assert head == ["listing", "rows", "estimate", "rows per page", "requests", "latency"]
    found = [[*row[:2], *row[3:5]] for row in rows[:2]]
    assert found == [["templates", "7", "one page", "1"], ["contacts", "45", "10", "7"]]
    assert all(re.fullmatch(r"\d+\.\d s", row[2]) and re.fullmatch(r"\d+ ms", row[5]) for row in rows[:2])
    assert rows[2:] == FILTER_CELLS
    assert done.out.splitlines()[-1] == (
        "The service is reachable and accepts the tokens; the access token does not say when it expires."
    )
    requested = [(hit.path.rpartition("/")[2], hit.query) for hit in world.emulator.hits]
    pages = {(listing, query) for listing, query in requested if not query.startswith("page=0&pageSize=1&")}
    # the last page shows whether the count is right
    expected = ("templates", 0), ("contacts", 0), ("contacts", 4)
    assert pages == {(listing, f"page={page}&pageSize=10") for listing, page in expected}
    assert not list(Path.cwd().glob("letters*"))


def refuse_filters(world: World) -> None:
    """Make the service fail at one filter of contacts, and refuse another."""
    world.emulator.canned.always(When("contacts", query="tags="), Reply(500))
    refusal = Reply.of({"message": "unknown filter"}, 400)
    world.emulator.canned.always(When("contacts", query="isReturnAddress="), refusal)


def test_check_shows_filters_that_fail_as_results(letters: Letters, world: World) -> None:
    """Filters that fail do not fail the check; the service's messages follow the table."""
    refuse_filters(world)
    done = letters("check", "--debug")
    assert done.code == 0
    changed = {"tags": ["tags", "failed 500"], "is_return_address": ["is_return_address", "refused 400"]}
    assert rows_shown(done.out)[3:] == [changed.get(row[0], row) for row in FILTER_CELLS]
    assert [line for line in done.out.splitlines() if line.startswith("contacts page")] == [
        (
            f"contacts page 0, probe of tags ({world.settings['base_url']}/contacts): the service answered 500. "
            "Check base_url."
        ),
        (
            f"contacts page 0, probe of is_return_address ({world.settings['base_url']}/contacts): the service refused "
            "the request (400): unknown filter. It may need a smaller sources.letters.page_size, or another "
            "sources.letters.date_format or sources.letters.filter_encoding."
        ),
    ]
    where = f"contacts page 0, probe of tags ({world.settings['base_url']}/contacts)"
    assert f"{where}: the service answered 500; trying again" in done.err


def test_check_writes_json_for_programs(letters: Letters, world: World) -> None:
    """`--json` writes exactly one object to stdout, even with `--quiet`."""
    refuse_filters(world)
    done = letters("check", "--json", "--quiet", "--page-size", 10)
    found = json.loads(done.out)
    templates, contacts = found["listings"]
    assert (done.code, set(found), found["token_expires"]) == (0, {"token_expires", "listings"}, None)
    assert set(contacts) == {
        "listing", "count", "page_size", "requests", "latency", "seconds", "filters", "largest_page", "has_more"
    }  # fmt: skip
    assert [(each["listing"], each["count"], each["page_size"], each["requests"]) for each in found["listings"]] == [
        ("templates", 7, None, 1),
        ("contacts", 45, 10, 7),
    ]
    assert templates["filters"]["search"] == {"verdict": "no difference", "status": None, "message": ""}
    failed = {"verdict": "failed", "status": 500}
    where = f"contacts page 0, probe of tags ({world.settings['base_url']}/contacts)"
    advice = "Check base_url."
    assert contacts["filters"]["tags"] == {**failed, "message": f"{where}: the service answered 500. {advice}"}


def test_check_fails_where_a_load_would(letters: Letters, world: World) -> None:
    """The check fails if page 0 is refused, and then writes nothing to stdout."""
    world.emulator.canned.always(When("contacts"), Reply(404))
    done = letters("check", "--json")
    assert (done.code, done.out) == (5, "")
    where = f"contacts page 0 ({world.settings['base_url']}/contacts)"
    assert done.err.startswith(f"letters: {where}: the service refused the request (404)")


class Together(Emulator):
    """Answers the first probes once a number of them have arrived, and records how many requests it has at once."""

    def __init__(self, most: int) -> None:
        super().__init__(45, 7)
        self.arrived, self.in_flight, self.seen = asyncio.Barrier(most), 0, list[int]()

    async def answer(self, name: str, request: Request) -> Response:
        """Answer a request."""
        self.in_flight += 1
        self.seen.append(self.in_flight)
        # the first two are the pages
        if 2 < len(self.seen) <= 2 + self.arrived.parties:
            await self.arrived.wait()
        self.in_flight -= 1
        return await super().answer(name, request)


@pytest.mark.parametrize(("workers", "most"), [(8, 4), (2, 2)])
def test_probes_run_in_parallel(
    letters: Letters, begin: Begin, monkeypatch: pytest.MonkeyPatch, workers: int, most: int
) -> None:
    """The check runs as many probes at once as the throttle allows, at most `max_workers`."""
    emulator = Together(most)
    begin(emulator).configure(monkeypatch)
    done = letters("check", "--max-workers", workers)
    assert (done.code, max(emulator.seen)) == (0, most)
    assert rows_shown(done.out)[3:] == FILTER_CELLS


def test_check_shows_its_progress_at_a_terminal(world: World) -> None:
    """stderr shows a progress bar per listing; stdout has only the tables."""
    done = run_at_terminal("check")
    assert done.code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.err)
    for listing, probes in (("templates", 4), ("contacts", 7)):
        assert re.search(rf"{listing} [^\n]*0/{probes} +probes", plain)
        assert re.search(rf"{listing} [^\n]*{probes}/{probes} +probes", plain)
    assert rows_shown(done.out)[3:] == FILTER_CELLS


def test_check_shows_the_largest_page_with_probe(letters: Letters, world: World) -> None:
    """`--probe` shows the service's largest page, or the listing's size if that is smaller."""
    world.emulator.behavior = Behavior(max_page_size=20)
    done = letters("check", "--probe")
    head, *rows = rows_shown(done.out)[:3]
    assert done.code == 0
    assert {row[0]: row[head.index("largest page")] for row in rows} == {"templates": "7", "contacts": "20"}


def test_check_says_when_the_access_token_expires(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check shows the expiry time of a JWT."""
    token = jwt.encode({"exp": 4_102_444_800}, "not checked, but 32 bytes or more")
    world.emulator.access_token = token
    monkeypatch.setenv("SOURCES__LETTERS__ACCESS_TOKEN", token)
    assert letters("check").out.splitlines()[-1] == (
        "The service is reachable and accepts the tokens; the access token expires at 2100-01-01 00:00 UTC."
    )


def test_check_requests_an_account(letters: Letters, world: World) -> None:
    """The check tries filters within the given account, and compares it with an account that does not exist."""
    done = letters("check", "--account-id", "502")
    assert (done.code, done.err) == (0, "")
    accounts = Counter(hit.query.rpartition("meta.account_id=")[2] for hit in world.emulator.hits)
    assert accounts.keys() == {"502", NOBODY}
    assert accounts[NOBODY] == 2
    assert rows_shown(done.out).count(["account_id", "honored"]) == 2


def test_check_compares_accounts(letters: Letters, world: World) -> None:
    """The check requests one page per listing of each account, and tries filters within the first account."""
    done = letters("check", "--account-id", "501", "--account-id", "502")
    assert (done.code, done.err) == (0, "")
    accounts = Counter(hit.query.rpartition("meta.account_id=")[2] for hit in world.emulator.hits)
    assert accounts.keys() == {"501", "502"}
    assert accounts["502"] == 2
    assert rows_shown(done.out).count(["account_id", "honored"]) == 2


@pytest.mark.parametrize("accounts", [("501",), ("501", "502")])
def test_check_reports_that_accounts_make_no_difference(
    letters: Letters, world: World, accounts: tuple[str, ...]
) -> None:
    """The check reports a service that returns the same rows for every account."""
    world.emulator.behavior = Behavior(ignore_account=True)
    done = letters("check", *(word for account in accounts for word in ("--account-id", account)))
    assert (done.code, done.err) == (0, "")
    assert rows_shown(done.out).count(["account_id", "no difference"]) == 2
    assert done.out.count(", and a load is refused.") == (2 if len(accounts) > 1 else 0)


def test_check_estimates_from_the_page_size_that_is_given(letters: Letters, world: World) -> None:
    """The estimate uses the page size that the service returns, which may be smaller than requested."""
    world.emulator.behavior = Behavior(max_page_size=4)
    rows = rows_shown(letters("check").out)[1:3]
    assert [[*row[:2], *row[3:5]] for row in rows] == [["templates", "7", "4", "4"], ["contacts", "45", "4", "14"]]


def test_check_knows_that_proof_exact_takes_two_passes(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With proof exact, the estimate has as many requests as a load sends."""
    monkeypatch.setenv("SOURCES__LETTERS__PROOF", "exact")
    rows = rows_shown(letters("check", "--page-size", 10).out)[1:3]
    found = [[*row[:2], *row[3:5]] for row in rows]
    assert found == [["templates", "7", "one page", "1"], ["contacts", "45", "10", "12"]]
    sent = len(world.emulator.hits)
    letters("load", "--quiet", "--page-size", 10)
    assert len(world.emulator.hits) - sent == 1 + 12


def test_demo_loads_from_the_emulator(letters: Letters, begin: Begin) -> None:
    """The demo needs no setting, and its tables hold what today's emulator holds, facets and mailings included."""
    begin(Emulator(0, 0))
    held = emulator.Emulator(120)
    done = letters("demo", "--contacts", 120)
    file = Path("letters_demo.duckdb")
    assert done.code == 0
    tables = read_tables(file)
    assert {name: tables[name] for name in LISTED} == held_tables(held)
    assert [row[0] for row in rows_shown(done.out)[1:]] == [table.name for table in TABLES]
    [since] = query(file, "select min((filters ->> 'last_mailed_from')::date) from letters_data.listing_audit")[0]
    mailed = {row.id for row in held.contacts.rows() if (row.traits.last_mailed_date or date.min) >= since}
    assert {row[0] for row in query(file, "select contact_id from letters_data.mailings")} == mailed
    assert f": {file.absolute()}, dataset letters_data\n" in done.out


def test_the_query_to_try_after_the_demo_can_be_pasted_into_a_shell(letters: Letters) -> None:
    """The last line of the demo is a command that shows how many contacts have each label."""
    line = letters("demo", "--contacts", 120).out.splitlines()[-1].removeprefix("Or: ")
    program, *arguments = shlex.split(line)
    shown = run_process(str(shutil.which(program)), *arguments)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"\btitle\b.*\bcontacts\b", shown.out)


def test_the_demo_does_not_wait_at_a_pipe(letters: Letters, tmp_path: Path) -> None:
    """The demo refuses a named pipe without waiting for a writer."""
    pipe = tmp_path / "pipe.duckdb"
    os.mkfifo(pipe)
    done = letters("demo", "--to", pipe)
    assert (done.code, done.err) == (
        2, f"letters: {pipe} cannot be opened for writing: it is not a regular file; choose another --to.\n"
    )  # fmt: skip


def test_the_demo_does_not_take_the_place_of_other_rows(letters: Letters, world: World) -> None:
    """The demo replaces only rows of an earlier demo."""
    world.start_loaded()
    done = letters("demo", "--to", "letters.duckdb")
    assert (done.code, done.err) == (
        2, "letters: letters.duckdb contains data that the demo would replace; choose another --to.\n"
    )  # fmt: skip
    assert is_complete(world, Path("letters.duckdb"))


def test_demo_takes_a_file(letters: Letters, begin: Begin, tmp_path: Path) -> None:
    """`letters demo` can load into a given file, with tables of others, again and again; `--quiet` writes nothing."""
    begin(Emulator(0, 0))
    change(tmp_path / "here.duckdb", "create table something (a int)")
    for contacts in (5, 3):
        done = letters("demo", "--quiet", "--contacts", contacts, "--to", tmp_path / "here.duckdb")
        assert done == Outcome(0, "", "")
    assert query(tmp_path / "here.duckdb", "select count(*) from letters_data.contacts") == [(3,)]


MISSING = {
    "base_url": ("BASE_URL", "config.toml"),
    "access_token": ("ACCESS_TOKEN", "secrets.toml"),
    "refresh_token": ("REFRESH_TOKEN", "secrets.toml"),
}


@pytest.mark.parametrize("command", ["load", "check"])
@pytest.mark.parametrize("key", MISSING)
def test_a_missing_setting_ends_with_2(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch, command: str, key: str
) -> None:
    """The error for a missing setting is one line with the key, its environment variable and its file."""
    variable, file = MISSING[key]
    monkeypatch.delenv(f"SOURCES__LETTERS__{variable}")
    assert letters(command) == Outcome(
        2,
        "",
        f"letters: sources.letters.{key} is not set; set SOURCES__LETTERS__{variable} in the environment, "
        f"or {key} under [sources.letters] in .dlt/{file}. Searched {Path.cwd() / '.dlt' / file} (not found).\n",
    )
    assert world.emulator.hits == []
    assert not Path("letters.duckdb").exists()


def test_wrong_settings_end_with_2(letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a wrong setting names the option or variable, the expected value, and the given value."""
    where = "set SOURCES__LETTERS__{} in the environment, or {} under [sources.letters] in .dlt/config.toml.\n"
    assert letters("load", "--page-size", 0).err == (
        "letters: option --page-size must be a whole number from 1 to 1000000 or auto (got 0). "
        "See letters load --help.\n"
    )
    monkeypatch.setenv("SOURCES__LETTERS__PAGE_SIZE", "0")
    assert letters("load", "--quiet") == Outcome(
        2,
        "",
        "letters: SOURCES__LETTERS__PAGE_SIZE in the environment must be a whole number from 1 to 1000000 or auto, "
        "got '0'.\n",
    )
    monkeypatch.delenv("SOURCES__LETTERS__PAGE_SIZE")
    monkeypatch.setenv("SOURCES__LETTERS__BASE_URL", "http://letters.example.org/api/v1")
    for accounts in ((), ("--account-id", "501", "--account-id", "502")):
        assert letters("load", "--only", "contact", *accounts).err == (
            "letters: option --only must name templates, contacts, mailings, got contact (did you mean contacts?).\n"
        )
    assert letters("load") == Outcome(
        2,
        "",
        "letters: sources.letters.base_url must begin with https://, since tokens are sent there; "
        + where.format("BASE_URL", "base_url"),
    )
    assert world.emulator.hits == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-shrink", "2"), "option --max-shrink must be a number from 0 to 1 (got 2). See letters load --help."),
        (
            ("--max-workers", "x"),
            "option --max-workers must be a whole number from 1 to 1000 (got x). See letters load --help.",
        ),
        (
            ("--mailings-since", "2024"),
            "option --mailings-since must be a day such as 2024-01-31 (got 2024). See letters load --help.",
        ),
        (
            ("--environment", "test"),
            "option --environment must be demo or production (got test). See letters load --help.",
        ),
        (("--pii", "blur"), "option --pii must be keep or hash or mask or drop, got 'blur'."),
        (
            ("--destination", "parquet", "--sync"),
            "templates: sync is not supported for plain files; turn off --sync, or choose another --destination.",
        ),
        (
            ("--address-status", "verified"),
            "option --address-status must be Failed or Verified, got 'verified' (did you mean Verified?).",
        ),
        (
            ("--only", "mailings"),
            (
                "sources.letters.mailings_since is not set; give --mailings-since, or set "
                "SOURCES__LETTERS__MAILINGS_SINCE in the environment, or mailings_since under [sources.letters] in "
                ".dlt/config.toml."
            ),
        ),
    ],
)
def test_errors_name_the_option(letters: Letters, world: World, arguments: tuple[str, ...], message: str) -> None:
    """The error for a wrong or missing option names it, and nothing is requested."""
    done = letters("load", *arguments)
    assert (done.code, done.out, done.err) == (2, "", f"letters: {message}\n")
    assert world.emulator.hits == []


@pytest.mark.parametrize("command", ["load --account-id 7", "check --account-id 8"])
def test_an_account_is_named_once(letters: Letters, world: World, command: str) -> None:
    """An account named twice is a usage error, and nothing is requested."""
    name, *options = command.split()
    done = letters(name, *options, *options)
    line = f"option --account-id names {options[1]} more than once. See letters {name} --help."
    assert (done.code, done.out, done.err, world.emulator.hits) == (2, "", f"letters: {line}\n", [])


def test_a_listing_that_shrank_names_the_options_that_accept_it(letters: Letters, world: World) -> None:
    """The error for a listing that shrank names the option and value that accept it."""
    world.start_loaded()
    for _ in range(36):
        world.emulator.contacts.delete(0)
    refused = "letters: contacts: the service lists {} with an id, and the last load had 45; nothing was loaded. "
    remedy = "If the others are really gone, {} for one load.\n"
    line = refused.format("9 rows") + remedy.format("set --max-shrink, now 0.5, to 0.8")
    assert letters("load", "--quiet") == Outcome(4, "", line)
    for _ in range(9):
        world.emulator.contacts.delete(0)
    line = refused.format("0 rows") + remedy.format("turn on --allow-empty")
    assert letters("load", "--quiet") == Outcome(4, "", line)


def test_a_status_in_another_spelling_is_reported(letters: Letters, world: World) -> None:
    """The warning about an unknown status names the documented spelling."""
    done = letters("load", "--only", "contacts", "--last-mailed-status", "mailed", "--quiet")
    assert "mailed is not one of the documented In Transit, Mailed, Scheduled (did you mean Mailed?)" in done.err


def test_a_token_that_cannot_be_sent_ends_with_2(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error about an invalid token does not contain the token."""
    monkeypatch.setenv("SOURCES__LETTERS__ACCESS_TOKEN", f"Bearer {ACCESS}")
    assert letters("load") == Outcome(
        2,
        "",
        "letters: sources.letters.access_token contains spaces, line breaks or non-ASCII characters; "
        "paste the token again, without quotes or 'Bearer'.\n",
    )
    assert world.emulator.hits == []


def test_a_value_in_place_of_a_section_ends_with_2(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error about a value where a section should be names the section and its keys."""
    monkeypatch.setenv("SOURCES__LETTERS__CONTACTS", "portland")
    assert letters("load") == Outcome(
        2,
        "",
        "letters: sources.letters.contacts must be a section with keys of its own: search, address_status, "
        "last_mailed_status, last_mailed_from, last_mailed_to, tags, with_property_addresses, is_return_address, "
        "account_id.\n",
    )
    assert world.emulator.hits == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("load", "--destination", "mysql"), r"Invalid value for '--destination': .* See letters load --help\."),
        (("load", "--bogus"), r"No such option '?--bogus'?.* See letters load --help\."),
        (("bogus",), r"No such command 'bogus'.* See letters --help\."),
    ],
)
def test_wrong_usage_ends_with_2(letters: Letters, arguments: tuple[str, ...], message: str) -> None:
    """The error for an unknown option, command or destination is one line with the problem and the help command."""
    done = letters(*arguments)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(f"letters: {message}\n", done.err)


def test_without_a_command_there_is_help(letters: Letters) -> None:
    """Without a command, help is written to stderr."""
    done = letters()
    assert (done.code, done.out) == (2, "")
    assert re.match(r"Usage: .*\bletters ", done.err)


def test_a_wrong_place_ends_with_2(letters: Letters, world: World, tmp_path: Path) -> None:
    """The error for an unusable place is one line with the cause, and nothing is requested."""
    (tmp_path / "notes.txt").write_text("notes" * 1000)
    place = tmp_path / "missing/letters.duckdb"
    assert letters("load", "--to", place) == Outcome(
        2,
        "",
        f"letters: {place}: the folder {place.parent} does not exist or is not accessible; "
        "create it, or choose another --to.\n",
    )
    assert letters("load", "--destination", "parquet", "--to", tmp_path / "notes.txt") == Outcome(
        2, "", f"letters: {tmp_path / 'notes.txt'} is a file, not a folder; choose another --to.\n"
    )
    no_duckdb = letters("load", "--to", tmp_path / "notes.txt")
    assert (no_duckdb.code, no_duckdb.out, no_duckdb.err.count("\n")) == (2, "", 1)
    assert no_duckdb.err.startswith(f"letters: {tmp_path / 'notes.txt'} cannot be opened for writing: ")
    assert letters("load", "--to", tmp_path / "letters_data.duckdb") == Outcome(
        2,
        "",
        "letters: A DuckDB file named letters_data.duckdb cannot hold the dataset letters_data: rename one.\n",
    )
    assert world.emulator.hits == []


def test_refused_tokens_end_with_3(letters: Letters, world: World) -> None:
    """The error for refused tokens names their settings, and earlier data stays."""
    world.start_loaded()
    before = read_tables(Path("letters.duckdb"))
    world.emulator.access_token = "another"
    line = (
        "letters: templates page 0: the service refused the tokens (401): Access token missing or invalid; "
        "set new sources.letters.access_token and refresh_token. They are SOURCES__LETTERS__ACCESS_TOKEN "
        "in the environment and SOURCES__LETTERS__REFRESH_TOKEN in the environment.\n"
    )
    assert letters("load") == Outcome(3, "", line)
    assert letters("check") == Outcome(3, "", line)
    assert read_tables(Path("letters.duckdb")) == before


def test_an_incomplete_listing_ends_with_4(letters: Letters, world: World) -> None:
    """The error for an incomplete listing has the count, the received and the missing rows, and earlier data stays."""
    world.start_loaded()
    before = read_tables(Path("letters.duckdb"))
    world.emulator.canned.always(When("contacts", 1), Reply.of({"data": {"count": 45, "rows": []}}))
    assert letters("load", "--quiet", "--page-size", 10) == Outcome(
        4,
        "",
        "letters: contacts: it counts 45 rows and lists 35, the same in two passes: count 45, received 35, missing 10, "
        "passes 2; nothing was loaded. Report it to the service, or select rows that it counts correctly with "
        "filters.\n",
    )
    world.emulator.canned.clear()
    world.emulator.behavior = Behavior(drift=[Drift("swap")])
    assert letters("load", "--quiet", "--page-size", 5).code == 4
    assert read_tables(Path("letters.duckdb")) == before


def test_a_service_that_cannot_be_reached_ends_with_5(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for an unreachable service names the address and the settings to change."""
    with Emulator(0, 0).serve() as gone:
        monkeypatch.setenv("SOURCES__LETTERS__BASE_URL", gone)
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "1e-9")
    line = f"letters: templates page 0 ({gone}/templates): no connection to the service: connection refused; "
    advice = "gave up within 0 s. Check base_url. To let loads retry longer, raise sources.letters.retry_budget.\n"
    assert letters("load") == Outcome(5, "", line + advice)
    assert letters("check") == Outcome(5, "", line + advice)


def test_a_service_that_refuses_ends_with_5(letters: Letters, world: World) -> None:
    """The error for a refused request has the service's own message and advice."""
    world.emulator.canned.always(When("templates"), Reply.of({"message": "pageSize is too large"}, 400))
    assert letters("load") == Outcome(
        5,
        "",
        f"letters: templates page 0 ({world.settings['base_url']}/templates): the service refused the request (400): "
        "pageSize is too large. It may require --account-id, --product-type, --shared, or search under "
        "[sources.letters.templates], or need a smaller --page-size.\n",
    )


def test_a_service_that_answers_something_else_ends_with_5(
    letters: Letters, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response with status 200 and an error text is an error, once the retry budget is spent."""
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "0.2")
    world.emulator.canned.always(When("contacts"), Reply.of({"message": "token expired"}))
    outcome = letters("load", "--quiet")
    expected = (
        f"letters: contacts page 0 ({world.settings['base_url']}/contacts): the service answered 200 without data: "
        "token expired; gave up within 0.2 s. Check base_url. "
        "To let loads retry longer, raise sources.letters.retry_budget."
    )
    # before it, there is a warning if a random wait was short enough for another try
    assert (outcome.code, outcome.out, outcome.err.splitlines()[-1]) == (5, "", expected)


def test_a_destination_that_fails_ends_with_1(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a failing destination is one line that names the failed step."""
    monkeypatch.delenv("RUNTIME__LOG_LEVEL", raising=False)
    world.configure(monkeypatch)
    world.start_loaded()
    change(Path("letters.duckdb"), "drop table letters_data.contacts")
    change(Path("letters.duckdb"), "create view letters_data.contacts as select 1 as id")
    done = run_command("load", "--quiet")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert re.match("letters: (load|sync): ", done.err)


def test_debug_shows_where_an_error_came_from(letters: Letters, world: World) -> None:
    """`--debug` adds a traceback and does not change the exit code."""
    world.emulator.access_token = "another"
    done = letters("load", "--debug")
    assert (done.code, done.out) == (3, "")
    assert "Traceback (most recent call last):" in done.err
    assert done.err.rstrip().splitlines()[-1].startswith("letters_source.errors.NotAuthorized: templates page 0: ")


def test_an_interrupted_load_ends_with_130(letters: Letters, world: World) -> None:
    """Ctrl-C ends a load with one line, and earlier data stays."""
    world.start_loaded()
    before = read_tables(Path("letters.duckdb"))
    last = len(world.emulator.hits)

    def interrupt(_: Emulator, number: int) -> None:
        """Ctrl-C, as the second request of the load comes in."""
        if number == last + 2:
            os.kill(os.getpid(), signal.SIGINT)

    world.emulator.behavior = Behavior(latency_ms=20)
    world.emulator.before_answer = interrupt
    # background jobs of a shell ignore Ctrl-C
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = letters("load", "--quiet", "--page-size", 5)
    signal.signal(signal.SIGINT, previous)
    assert read_tables(Path("letters.duckdb")) == before
    assert done == Outcome(
        INTERRUPTED, "", "\nletters: interrupted; if tables were being written, run the load again\n"
    )


def test_an_unexpected_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected error is one line with its type, its message's first line, and advice to use `--debug`."""
    tell_unexpected(ZeroDivisionError, ZeroDivisionError("by zero\nand more"), None)
    assert capsys.readouterr() == (
        "",
        "letters: unexpected ZeroDivisionError: by zero; run again with --debug for the traceback.\n",
    )


@pytest.mark.parametrize("command", OPTIONS)
def test_help_names_the_options(letters: Letters, command: str) -> None:
    """Help lists exactly the expected options."""
    done = letters(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert set(re.findall(r"^  (-h, --help|-[^ ]+)", done.out, re.MULTILINE)) == OPTIONS[command]


def test_the_version_is_printed(letters: Letters) -> None:
    """`--version` prints the version of the distribution."""
    done = letters("--version")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r".*\bletters, version \d+\.\d+\.\d+(\.dev\d+)?\n", done.out)


def imported_by(*arguments: str) -> str:
    """The exit code of a command, and the large libraries that it imported."""
    code = (
        f"import sys; sys.argv = ['letters', *{arguments}]\n"
        "from letters_source.cli.process import main\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = {'dlt', 'requests', 'pyarrow', 'duckdb', 'rich', 'starlette', 'uvicorn', 'numpy'}\n"
        "print(code, *sorted(heavy & sys.modules.keys()))"
    )
    return run_python("-c", code).out.splitlines()[-1]


def test_help_imports_nothing_heavy() -> None:
    """Printing help imports no large library, so that it is fast."""
    assert imported_by("--help") == "0"


def test_a_check_imports_no_dlt(world: World) -> None:
    """A check imports neither dlt nor DuckDB, which would take most of its time, unless a container has secrets."""
    code, *imported = imported_by("check", "--quiet").split()
    assert code == "0"
    assert ("dlt" in imported or "duckdb" in imported) == Path("/run/secrets").exists()


def test_numpy_starts_no_threads() -> None:
    """The command starts no threads of NumPy, which would waste CPU time on servers with many cores."""
    code = (
        "import os; from letters_source.cli.process import set_up; set_up(debug=False)\n"
        "import numpy; print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    assert run_python("-c", code, env=environment) == Outcome(0, "1\n", "")


def test_the_installed_command_loads(world: World) -> None:
    """The installed command loads all rows and writes no warning."""
    done = run_process(COMMAND, "load", "--quiet")
    assert done == Outcome(0, "", "")
    assert is_complete(world, Path("letters.duckdb"))


@pytest.mark.parametrize("debug", [False, True])
def test_an_unexpected_error_ends_with_1(begin: Begin, monkeypatch: pytest.MonkeyPatch, *, debug: bool) -> None:
    """An unexpected error, here an invalid log level of dlt, is one line, or a traceback with `--debug`."""
    begin(Emulator(0, 0))
    monkeypatch.setenv("RUNTIME__LOG_LEVEL", "NONSENSE")
    done = run_command("demo", *(["--debug"] if debug else []))
    assert (done.code, done.out) == (1, "")
    assert ("Traceback" in done.err) == debug
    assert debug or re.fullmatch(r"letters: unexpected \w+: .+; run again with --debug for the traceback\.\n", done.err)


@pytest.mark.parametrize(
    "option",
    [
        "--to", "--dataset", "--environment", "--account-id", "--pii", "--search", "--tag", "--address-status",
        "--last-mailed-status", "--product-type", "--creator",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("world")
def test_an_option_that_a_shell_left_empty_is_refused(letters: Letters, option: str) -> None:
    """An empty option, as from an unset shell variable, is an error."""
    done = letters("load", option, "")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"letters: option {option} is empty. See letters load --help.\n"


@pytest.mark.usefixtures("world")
def test_an_account_that_a_shell_left_empty_is_refused(letters: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty account is an error in `load` and `check`, as an option and as a variable."""
    assert (
        letters("check", "--account-id", "").err == "letters: option --account-id is empty. See letters check --help.\n"
    )
    monkeypatch.setenv("SOURCES__LETTERS__ACCOUNT_ID", "")
    assert letters("load") == Outcome(
        2,
        "",
        "letters: sources.letters.account_id is empty; give --account-id, or set SOURCES__LETTERS__ACCOUNT_ID in the "
        "environment, or account_id under [sources.letters] in .dlt/config.toml, or leave it out.\n",
    )


def test_bars_at_a_terminal_have_real_totals(world: World) -> None:
    """Progress bars show rows read and the service's count; stdout has only the table."""
    done = run_at_terminal("load", "--page-size", "10")
    assert done.code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.err)
    for listing, rows in (("templates", 7), ("contacts", 45)):
        assert re.search(rf"{listing} [^\n]*{rows}/{rows} +rows", plain)
    assert not re.search(r"INFO|WARNING|Traceback", plain)
    assert len(rows_shown(done.out)) == 1 + len(COLUMNS)


@pytest.mark.parametrize(
    ("width", "head", "rows"),
    [
        (100, ["table", "rows", "verdict", "seconds", "requests"], 7),
        (60, ["table", "rows", "verdict", "seconds"], 7),
        (40, ["table", "rows"], 7),
    ],
)
def test_narrow_terminals_drop_columns_and_cut_no_figure(world: World, width: int, head: list[str], rows: int) -> None:
    """A narrow terminal drops whole columns; numbers in bars and tables are never cut."""
    done = run_at_terminal("load", "--page-size", "10", columns=width, wholly=True)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.err).replace("\r", "\n")
    shown = rows_shown(plain)
    assert shown[0] == head
    counts = {name: len(found) for name, found in read_tables(Path("letters.duckdb")).items()}
    assert {row[0]: int(row[1]) for row in shown[1:]} == counts
    assert len(shown) == rows + 1
    assert re.search(r"^ *.? *contacts[^\n]* 45/45 rows", plain, re.MULTILINE)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("width", "head"),
    [
        (100, ["listing", "rows", "estimate", "largest page", "rows per page", "requests", "latency"]),
        (60, ["listing", "rows", "estimate", "largest page"]),
        (40, ["listing", "rows", "estimate"]),
    ],
)
def test_check_on_narrow_terminals_keeps_rows_and_filters(width: int, head: list[str]) -> None:
    """A narrow terminal drops the less important figures of a check; each filter of both listings keeps its effect."""
    done = run_at_terminal("check", "--probe", columns=width, wholly=True)
    shown = rows_shown(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.err).replace("\r", "\n"))
    assert shown[0] == head
    assert [row[:2] for row in shown[1:3]] == [["templates", "7"], ["contacts", "45"]]
    assert shown[3:] == FILTER_CELLS


def test_runs_on_narrow_terminals_keep_their_times_whole(world: World) -> None:
    """The list of runs leaves out places on a narrow terminal; times and numbers are never broken."""
    world.load()
    columns = ["started (UTC)", "outcome", "rows", "seconds", "dataset", "where"]
    for width, head in ((120, columns), (72, columns[:5])):
        done = run_at_terminal("runs", columns=width, wholly=True)
        shown = rows_shown(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.err).replace("\r", "\n"))
        assert shown[0] == head
        first = dict(zip(head, shown[1], strict=True))
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", first["started (UTC)"])
        assert first["outcome"] == "exact"
        assert first["rows"] == "52"


def test_runs_on_very_narrow_terminals_take_two_lines_each(letters: Letters, world: World) -> None:
    """Where the table does not fit, each run keeps its outcome, rows, duration and dataset in two lines."""
    world.load()
    assert letters("load", "--to", "letters.txt").code == 2
    done = run_at_terminal("runs", columns=54, wholly=True)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  DestinationError \(exit code 2\)\n  \d\.\d s, letters_data\n"
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  exact\n  52 rows, \d+\.\d s, letters_data\n",
        done.err.replace("\r", ""),
    )


@pytest.mark.parametrize("name", ["letters.txt", "folder/contacts.CSV", "a.b.parquet", "letters.xls"])
def test_a_new_duckdb_file_has_no_other_ending(letters: Letters, world: World, name: str) -> None:
    """A place that is named like a file of another format is refused before any request."""
    Path("folder").mkdir()
    words = f"{Path(name).absolute()} would be a DuckDB file; end --to in .duckdb, or choose another --destination."
    assert letters("load", "--to", name) == Outcome(2, "", f"letters: {words}\n")
    assert not world.emulator.hits


def test_the_help_of_load_has_sections(letters: Letters) -> None:
    """The options of `letters load` are listed by what they are about."""
    shown = letters("load", "--help").out
    found = re.findall(r"^(\S.*):$", shown, re.MULTILINE)
    assert found == ["What to load", "Where to", "How to write", "When to refuse", "Requests", "Output"]
    output = re.findall(r"^  (?:-h, )?(--[a-z-]+)", shown.partition("\nOutput:\n")[2], re.MULTILINE)
    assert output == ["--json", "--on-failure", "--quiet", "--debug", "--help"]


@pytest.mark.usefixtures("world")
def test_a_log_has_a_line_for_each_phase_and_listing(letters: Letters) -> None:
    """Without a terminal, stderr has a line per listing and phase."""
    done = letters("load")
    assert [re.sub(r"; .*", "", line) for line in done.err.splitlines()] == [
        "INFO templates: 7 rows, exact",
        "INFO contacts: 45 rows, exact",
        "INFO writing the tables",
        "INFO verifying the load",
    ]


def test_serve_prints_exports_for_a_shell_and_ends_by_ctrl_c(begin: Begin, tmp_path: Path) -> None:
    """`letters serve` prints shell exports with which a load reaches the emulator."""
    begin(Emulator(0, 0))
    serving = [COMMAND, "serve", "--port", "0", "--contacts", "12", "--latency-ms", "1"]
    with open_process(*serving, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(4)]
        exports = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines[:3])
        result = run_with_settings(exports)
        server.send_signal(signal.SIGINT)
        rest, errors = server.communicate()
    assert (server.returncode, rest, errors) == (0, "", "")
    assert set(exports) == {f"SOURCES__LETTERS__{name}" for name in ("BASE_URL", "ACCESS_TOKEN", "REFRESH_TOKEN")}
    assert lines[3] == (
        "# 12 contacts and 40 templates until Ctrl-C; set these in another shell, then run: letters load\n"
    )
    assert (result.tables["contacts"], result.tables["templates"]) == (12, 40)


def run_with_settings(exports: dict[str, str]) -> Result:
    """A load with the exported settings."""
    settings: dict[str, Any] = {
        name.removeprefix("SOURCES__LETTERS__").lower(): value for name, value in exports.items()
    }
    return run(make_pipeline(), **settings)


def test_names_with_brackets_are_shown_as_they_are(world: World) -> None:
    """Brackets in file and account names are not taken for markup."""
    ended = run_command("load", "--to", "a[bold][data].duckdb", "--account-id", "501")
    assert (ended.code, "a[bold][data].duckdb, dataset letters_data" in ended.out) == (0, True)
    accounts = run_at_terminal("load", "--to", "b.duckdb", "--account-id", "501", "--account-id", "[/x]")
    assert (accounts.code, "Account [/x]:" in accounts.out) == (0, True)


@pytest.mark.parametrize("lines", [0, 1])
def test_a_reader_that_ends_early_does_not_fail_the_load(world: World, lines: int) -> None:
    """A load is complete even if the reader of its output ends early."""
    reader, writer = os.pipe()
    with start_command("load", "--only", "contacts", out=writer) as load:
        os.close(writer)
        with os.fdopen(reader) as shown:
            for _ in range(lines):
                shown.readline()
        _, errors = load.communicate()
    assert (load.returncode, re.findall(r"letters: .*|Exception ignored.*|Traceback", errors)) == (0, [])
    assert query(Path("letters.duckdb"), "select count(*) from letters_data.contacts") == [(45,)]


UNWRITABLE = Outcome(1, "", "letters: the output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch, unbuffered: str) -> None:
    """Output that cannot be written ends the command with one line and exit code 1."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    assert run_process("bash", "-c", f"{COMMAND} schema > /dev/full") == UNWRITABLE


@pytest.mark.parametrize("command", [("check", "--json", "--quiet"), ("serve", "--port", "0", "--contacts", "1")])
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.usefixtures("world")
def test_a_command_whose_output_cannot_be_written_is_one_line(command: tuple[str, ...], *, unbuffered: bool) -> None:
    """Output is written to a full disk at once or at the end, with the same line and exit code."""
    code = f"import sys; sys.stdout.reconfigure(write_through={unbuffered}); {PROGRAM}"
    with Path("/dev/full").open("wb") as full:
        assert run_command(*command, code=code, out=full.fileno()) == UNWRITABLE


@pytest.mark.parametrize("arguments", ["", "--json", "--account-id 501 --account-id 502"])
def test_a_verified_load_whose_output_cannot_be_written_has_not_failed(world: World, arguments: str) -> None:
    """A verified load whose output cannot be written says so, and does not run the command of `--on-failure`."""
    options = ["--only", "templates", *arguments.split(), "--on-failure", "touch failed"]
    with Path("/dev/full").open("wb") as full:
        ended = run_command("load", *options, out=full.fileno())
    line = "letters: the load is verified, but its result cannot be written: No space left on device.\n"
    warnings = "".join(line for line in ended.err.splitlines(keepends=True) if not line.startswith("INFO"))
    assert (ended.code, warnings, Path("failed").exists()) == (1, line, False)


@pytest.mark.parametrize(("stream", "number", "options"), [("stderr", 2, []), ("stdout", 1, ["--quiet"])])
def test_a_closed_stream_stops_nothing(world: World, stream: str, number: int, options: list[str]) -> None:
    """A load works with a closed stdout or stderr, as schedulers may start it."""
    as_python_starts = f"import os, sys; os.close({number}); sys.{stream} = sys.__{stream}__ = None"
    ended = run_command("load", *options, code=f"{as_python_starts}; {PROGRAM}")
    assert (ended.code, "Traceback" in ended.err) == (0, False)
    assert is_complete(world, Path("letters.duckdb"))


# whether a reader leaves before all is written is up to the machine
@pytest.mark.parametrize(("output", "codes"), [("| true", {0, 1}), (">&-", {0}), ("2>&-", {0})])
def test_python_ends_quietly_without_a_reader_or_a_stream(output: str, codes: set[int]) -> None:
    """The end of the process adds no line to the output of a command that no process reads."""
    done = run_process("bash", "-c", f"{COMMAND} schema {output}; exit ${{PIPESTATUS[0]}}")
    assert done.code in codes
    assert done.err == ""
