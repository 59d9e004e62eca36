"""What do programs get about a load that the command ran?"""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from holdings import read_tables
from terminals import Letters, Outcome, run_command, run_python
from worlds import ACCESS, REFRESH, Begin, World

from letters_source.errors import INTERRUPTED, INTERRUPTION
from letters_source.tables import LISTING_AUDIT
from programmable_emulator import Behavior, Emulator, Reply, When

KEYS = {"load_id", "destination", "place", "dataset", "tables", "listings", "seconds"}
REFUSED = (
    "templates page 0: the service refused the tokens (401): Access token missing or invalid; "
    "set new sources.letters.access_token and refresh_token. They are SOURCES__LETTERS__ACCESS_TOKEN "
    "in the environment and SOURCES__LETTERS__REFRESH_TOKEN in the environment."
)


@pytest.fixture
def schema(letters: Letters) -> Any:
    """The JSON Schema that the command prints."""
    printed = json.loads(letters("schema", "--format", "result").out)
    jsonschema.Draft202012Validator.check_schema(printed)
    return printed


def read(out: str, schema: Any) -> dict[str, Any]:
    """The one object on stdout, which must be as the schema says."""
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    assert list(checker.iter_errors(found)) == []
    return found


def failure(kind: str, message: str, exit_code: int) -> dict[str, Any]:
    """An error as programs read it."""
    return {"kind": kind, "message": message, "exit_code": exit_code}


@pytest.mark.parametrize("destination", ["duckdb", "parquet"])
def test_a_verified_load_is_one_object(letters: Letters, world: World, schema: Any, destination: str) -> None:
    """`letters load --json` prints one object: destination, rows of each table and audits; messages go to stderr."""
    done = letters("load", "--json", "--destination", destination)
    place = Path(f"letters{'.duckdb' if destination == 'duckdb' else '_parquet'}").absolute()
    tables = read_tables(place)
    found = read(done.out, schema)
    assert done.code == 0
    assert set(found) == KEYS
    assert (found["destination"], found["place"], found["dataset"]) == (destination, str(place), "letters_data")
    assert found["tables"] == {name: len(rows) for name, rows in tables.items()}
    assert [set(listing) for listing in found["listings"]] == [set(LISTING_AUDIT.schema.names)] * 2
    audits = {(row["listing"], row["verdict"], row["requests"]) for row in tables["listing_audit"]}
    assert {(row["listing"], row["verdict"], row["requests"]) for row in found["listings"]} == audits
    assert [line.split(":")[0] for line in done.err.splitlines()] == [
        "INFO templates", "INFO contacts", "INFO writing the tables", "INFO verifying the load"
    ]  # fmt: skip


def test_filters_and_undocumented_fields_are_objects(letters: Letters, world: World, schema: Any) -> None:
    """Filters and privacy policies in the result are objects, not text that holds JSON."""
    found = read(letters("load", "--json", "--only", "contacts", "--tag", "4", "--pii", "mask").out, schema)
    [audit] = found["listings"]
    assert audit["filters"] == {"tags": "***"}
    assert set(audit["pii"].values()) == {"mask"}


def test_a_failed_load_has_an_error(letters: Letters, world: World, schema: Any) -> None:
    """The result of a failed load has the error's class, message and exit code; stderr has its one line."""
    world.emulator.access_token = "another"
    done = letters("load", "--json", "--quiet")
    found = read(done.out, schema)
    assert set(found) == KEYS | {"error"}
    assert (done.code, done.err) == (3, f"letters: {REFUSED}\n")
    assert found["error"] == failure("NotAuthorized", REFUSED, 3)
    assert (found["load_id"], found["tables"], found["listings"]) == (None, {}, [])
    assert (found["place"], found["dataset"]) == (str(world.place), "letters_data")


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (("--dataset", "Spring"), "DestinationError: option --dataset must start with a letter and contain only"),
        (("--only", "nothing"), "SettingsError: option --only must name templates, contacts, mailings, got nothing."),
        (("--only", "contacts", "--shared"), "UsageError: --only leaves out templates"),
        (("--to", "absent/letters.duckdb"), "DestinationError: "),
    ],
)
def test_wrong_settings_are_an_object_too(
    letters: Letters, world: World, schema: Any, options: tuple[str, ...], begins: str
) -> None:
    """The result has an error object for wrong settings, options and places too."""
    done = letters("load", "--json", *options)
    error = read(done.out, schema)["error"]
    assert (done.code, error["exit_code"], world.emulator.hits) == (2, 2, [])
    assert f"{error['kind']}: {error['message']}".startswith(begins)
    assert done.err.startswith(f"letters: {error['message']}")


def test_an_interrupted_load_is_an_object_too(letters: Letters, world: World, schema: Any) -> None:
    """The result of a load that Ctrl-C ended has an error, and the command of `--on-failure` does not run."""

    def interrupt(_: Emulator, number: int) -> None:
        """Ctrl-C, as the second request comes in."""
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)

    world.emulator.behavior = Behavior(latency_ms=20)
    world.emulator.before_answer = interrupt
    done = letters("load", "--json", "--quiet", "--on-failure", "cat > failure.json")
    assert done.code == INTERRUPTED
    assert read(done.out, schema)["error"] == failure("KeyboardInterrupt", INTERRUPTION, INTERRUPTED)
    assert not Path("failure.json").exists()


def test_an_unexpected_error_is_an_object_too(begin: Begin, monkeypatch: pytest.MonkeyPatch, schema: Any) -> None:
    """The result has an error object for an unexpected error too, here dlt's for an unknown log level."""
    begin(Emulator(0, 0)).configure(monkeypatch)
    monkeypatch.setenv("RUNTIME__LOG_LEVEL", "NONSENSE")
    done = run_command("load", "--json")
    error = read(done.out, schema)["error"]
    assert (done.code, error["exit_code"]) == (1, 1)
    assert done.err.startswith(f"letters: unexpected {error['kind']}: ")


def test_several_accounts_are_one_object(letters: Letters, world: World, schema: Any) -> None:
    """The result of several accounts has one object for each, with its own dataset."""
    found = read(letters("load", "--json", "--quiet", "--account-id", "501", "--account-id", "502").out, schema)
    assert set(found) == {"accounts", "seconds"}
    assert {account: load["dataset"] for account, load in found["accounts"].items()} == {
        "501": "letters_data_501",
        "502": "letters_data_502",
    }
    assert [set(load) for load in found["accounts"].values()] == [KEYS, KEYS]


def test_an_account_that_fails_is_reported_next_to_those_before_it(letters: Letters, world: World, schema: Any) -> None:
    """The result has the loaded account and the failed one, whose error is the command's, and none after it."""
    # the first pages of the three are compared, then the first account is loaded by a request for each listing
    world.emulator.canned.always(When("templates", number=9), Reply.of({"message": "unknown account"}, 404))
    accounts = ("--account-id", "501", "--account-id", "502", "--account-id", "503")
    done = letters("load", "--json", "--quiet", *accounts)
    found = read(done.out, schema)
    assert done.code == found["error"]["exit_code"] == 5
    assert {account: load.get("error") for account, load in found["accounts"].items()} == {
        "501": None,
        "502": found["error"],
    }


def test_on_failure_gets_the_object_once(letters: Letters, world: World, schema: Any) -> None:
    """The command of `--on-failure`, which may be a pipeline, gets on stdin the object that stdout has."""
    world.emulator.access_token = "another"
    done = letters("load", "--json", "--quiet", "--on-failure", "cat | tee -a failures.jsonl >&2")
    received = Path("failures.jsonl").read_text()
    assert received.rstrip("\n") == done.out.rstrip("\n")
    assert read(f"{received}\n", schema)["error"] == failure("NotAuthorized", REFUSED, 3)
    assert (done.code, ACCESS in received, REFRESH in received) == (3, False, False)


def test_on_failure_needs_no_json(letters: Letters, world: World, schema: Any) -> None:
    """The command of `--on-failure` gets the result also without `--json`, when stdout stays empty."""
    world.emulator.access_token = "another"
    assert letters("load", "--quiet", "--on-failure", "cat > failure.json").out == ""
    assert read(Path("failure.json").read_text() + "\n", schema)["error"]["kind"] == "NotAuthorized"


def test_on_failure_is_not_called_after_a_good_load(letters: Letters, world: World) -> None:
    """The command of `--on-failure` does not run after a successful load."""
    assert letters("load", "--quiet", "--on-failure", "cat > failure.json") == Outcome(0, "", "")
    assert not Path("failure.json").exists()


@pytest.mark.parametrize("command", ["exit 7", "no-such-command-7 2>/dev/null || exit 7"])
def test_a_command_for_failures_that_fails_changes_nothing(letters: Letters, world: World, command: str) -> None:
    """A failing command of `--on-failure` adds a line to stderr and does not change the exit code."""
    world.emulator.access_token = "another"
    assert letters("load", "--quiet", "--on-failure", command) == Outcome(
        3, "", f"letters: the --on-failure command ended with exit code 7\nletters: {REFUSED}\n"
    )


def test_what_the_command_for_failures_prints_is_not_in_the_result(world: World, schema: Any) -> None:
    """The stdout of the command of `--on-failure` goes to stderr."""
    world.emulator.access_token = "another"
    done = run_command("load", "--json", "--quiet", "--on-failure", "echo called")
    assert read(done.out, schema)["error"]["exit_code"] == 3
    assert done.err == f"called\nletters: {REFUSED}\n"


def test_a_command_for_failures_has_limited_time() -> None:
    """The command of `--on-failure` is stopped after a time limit, with all processes that it started."""
    code = "from letters_source.cli.outcomes import call; call('sleep 1000 & sleep 1000', b'{}', 0.5)"
    assert run_python("-c", code) == Outcome(0, "", "letters: the --on-failure command was stopped after 0.5 s\n")


def test_the_schema_is_about_the_audit_s_columns(schema: Any) -> None:
    """The schema of results has the columns of the audit with their descriptions."""
    listing = schema["$defs"]["Listing"]
    described = {name: field["description"] for name, field in listing["properties"].items()}
    assert described == {column.name: column.description for column in LISTING_AUDIT.columns}
    assert re.fullmatch(r"https://json-schema\.org/draft/\d{4}-\d\d/schema", schema["$schema"])
