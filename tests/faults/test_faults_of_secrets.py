"""Tokens and rows appear only in the destination, however a load ends and however much is logged."""

import os
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import jwt
import pytest
from commands import start_command
from dlt.common.versioned_state import decompress_state
from faulty_proxy import HEAD, LENGTH, faulty_proxy
from holdings import DATASET, change, query
from refusals import CONTACTS
from row_changes import clear
from terminals import Outcome, run_command
from worlds import ACCESS, REFRESH, Begin, World

from forward_proxy import forward_proxy, tls_front
from private_ca import Authority
from programmable_emulator import Emulator, Reply, When

ROW = "canary-row-93f0"
CANARIES = [text.encode() for text in (ACCESS, REFRESH, ROW)]
LOUD = "import logging; logging.basicConfig(level=1); from letters_source.cli.process import main; main()"
Break = Callable[[Emulator], None]


def answer_with(status: int, body: str) -> Break:
    """Make the service answer contacts with this response, which repeats the request."""
    reply = Reply(status, body.encode(), {"Retry-After": "0", "Location": f"https://elsewhere.example.org/?t={ACCESS}"})
    return lambda emulator: emulator.canned.always(CONTACTS, reply)


ECHO = f'{{"message": "{ACCESS} {REFRESH} {ROW}"}}'
ENDINGS: dict[str, tuple[int, Break]] = {
    "refused": (3, lambda emulator: emulator.canned.always(When("contacts"), Reply(401, ECHO.encode()))),
    "limited": (5, answer_with(401, ECHO)),
    "redirected": (5, answer_with(302, ECHO)),
    "failing": (5, answer_with(500, ECHO)),
    "no_json": (5, answer_with(200, f"<html>{ECHO}")),
    "incomplete": (
        4,
        lambda emulator: emulator.canned.always(When("contacts", 1), Reply.of({"data": {"count": 40, "rows": []}})),
    ),
}


def mark(emulator: Emulator) -> None:
    """Add rows with a canary in every value: typed, misfit, undocumented, rejected."""
    marked = {"firstName": ROW, "isVerified": ROW, "createdAt": ROW, "ContactLabels": [{"id": ROW, "title": ROW}]}
    emulator.contacts.insert({"id": ROW, **marked, "unknown": ROW}, at=0)
    emulator.contacts.insert({"id": None, **marked}, at=0)


def load(world: World, **changes: str) -> Outcome:
    """The command, with temporary files next to the destination, and all logs of all libraries on stderr."""
    return run_command(*options_of(world), env=environment_of(world, **changes), code=LOUD)


def options_of(world: World) -> list[str]:
    """The arguments of the command."""
    return ["load", "--to", str(world.place), "--debug", "--page-size", "10"]


def environment_of(world: World, **changes: str) -> dict[str, str]:
    """The settings as variables, some of them changed."""
    variables = world.variables(retry_budget=1, **changes)
    temporary = world.place.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, **variables, "RUNTIME__LOG_LEVEL": "DEBUG", "TMPDIR": str(temporary)}


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
    """No file, no log of any library and no traceback of a load that fails holds a token or a row."""
    code, break_service = ENDINGS[name]
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    break_service(world.emulator)
    done = load(world)
    assert done.code == code
    assert "|[DEBUG]|" in done.err
    assert "DEBUG:urllib3.connectionpool:" in done.err
    assert is_silent(done)
    assert list(hits(tmp_path, world.place)) == []


def test_f77_a_successful_load_writes_rows_only_into_the_destination_and_tokens_nowhere(
    begin: Begin, tmp_path: Path
) -> None:
    """Tokens are neither in a table nor in the state of dlt, and rows are in no other file."""
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    done = load(world)
    assert done.code == 0
    assert is_silent(done)
    assert list(hits(tmp_path, world.place)) == []
    tables = query(world.place, "select schema_name, table_name from duckdb_tables()")
    rows = [query(world.place, f'from "{schema}"."{table}"') for schema, table in tables]
    [state] = [
        decompress_state(state) for (state,) in query(world.place, f"select state from {DATASET}._dlt_pipeline_state")
    ]
    assert [canary for canary in (ACCESS, REFRESH, ROW) if canary in str((rows, state))] == [ROW]


ANSWER = f"{ACCESS} {REFRESH} {ROW}".encode()
BROKEN: dict[str, bytes] = {
    "cut": HEAD + LENGTH + ANSWER,
    "no_header": HEAD + ANSWER + b"\r\n" + LENGTH + ANSWER,
}


@pytest.mark.parametrize("name", BROKEN)
def test_f77_a_broken_response_that_repeats_the_request_is_not_repeated(
    begin: Begin, tmp_path: Path, name: str
) -> None:
    """No library logs what a broken response holds; tests/service/test_client.py has other ways to break."""
    world = begin(Emulator(4, 1))
    with faulty_proxy(world.settings["base_url"], lambda _: iter([BROKEN[name]]), stays=True) as proxy:
        done = load(world, base_url=proxy.base_url)
    assert done.code == 5
    assert is_silent(done)
    assert list(hits(tmp_path, world.place)) == []


@pytest.mark.parametrize(("asked", "code"), [(f"user:{ROW}", 0), ("user:other", 5)])
def test_f77_only_the_proxy_gets_its_password(begin: Begin, tmp_path: Path, asked: str, code: int) -> None:
    """A proxy that takes or refuses the password is all that sees it, and the proxy sees no token."""
    world, authority = begin(Emulator(4, 1)), Authority(tmp_path)
    plain = urlsplit(world.settings["base_url"]).port or 0
    with tls_front(plain, authority.server("service")) as port, forward_proxy(port, credentials=asked) as proxy:
        given = {"proxy": proxy.url_for(f"user:{ROW}"), "ca_bundle": str(authority.bundle)}
        done = load(world, base_url=f"https://127.0.0.1:{port}/api/v1", **given)
    assert done.code == code
    assert (f"the proxy {proxy.url} refused the user and password (407)" in done.err) == (code == 5)
    assert is_silent(done)
    assert b64encode(f"user:{ROW}".encode()).decode() not in done.err
    assert list(hits(tmp_path, world.place)) == []
    assert not any(token.encode() in proxy.seen for token in (ACCESS, REFRESH))


UNFIT = {
    "expired": (3, jwt.encode({"exp": 1, "sub": ROW}, "a key that signs nothing but this")),
    "two_words": (2, f"{ACCESS} {ROW}"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_f77_a_token_that_is_not_sent_is_not_logged(begin: Begin, tmp_path: Path, name: str) -> None:
    """No part of a token that is refused before it is sent is written anywhere."""
    code, token = UNFIT[name]
    world = begin(Emulator(4, 1))
    done = load(world, access_token=token)
    assert done.code == code
    assert is_silent(done)
    assert not any(part in done.out + done.err for part in token.split("."))
    assert list(hits(tmp_path, world.place)) == []


def test_f77_the_error_of_a_listing_that_shrank_quotes_no_row(begin: Begin, tmp_path: Path) -> None:
    """The error of a listing that shrank quotes neither rows that are gone nor rows that are left."""
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    world.load()
    clear(world.emulator.contacts)
    mark(world.emulator)
    done = load(world)
    assert done.code == 4
    assert is_silent(done)
    assert list(hits(tmp_path, world.place)) == []


def test_f77_a_load_that_is_interrupted_leaves_no_rows_behind(begin: Begin, tmp_path: Path) -> None:
    """The rows that an interrupted load has read lie in temporary files, which are gone with it."""
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    with start_command(*options_of(world), env=environment_of(world), code=LOUD) as process:
        world.emulator.before_answer = lambda _, number: process.send_signal(signal.SIGINT) if number == 4 else None
        out, err = process.communicate()
    assert process.returncode == 130
    assert is_silent(Outcome(130, out, err))
    assert list(hits(tmp_path, world.place)) == []


def test_f77_a_load_that_failed_after_extracting_leaves_no_rows_behind(begin: Begin, tmp_path: Path) -> None:
    """Rows that were extracted, and that the destination cannot take, are in no file after the load."""
    world = begin(Emulator(40, 3))
    mark(world.emulator)
    change(world.place, "create schema letters_data; create view letters_data.contacts as select 'x' as _dlt_load_id")
    done = load(world)
    assert done.code == 1
    assert "letters_source.errors.LoadFailed: load: " in done.err
    assert list(hits(tmp_path, world.place)) == []
