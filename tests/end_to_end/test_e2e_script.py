"""The script that users copy works."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from holdings import LISTED, held_tables, read_tables
from terminals import run_command, run_python
from worlds import ACCESS, World

SCRIPT = str(Path(__file__).parents[2] / "pipelines/letters_pipeline.py")


def run_script(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The script's exit code, run as `python letters_pipeline.py` runs it."""
    monkeypatch.setattr(sys, "argv", [SCRIPT, *arguments])
    try:
        runpy.run_path(SCRIPT, run_name="__main__")
    except SystemExit as end:
        return int(str(end.code))
    return 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [((), "letters.duckdb"), (("parquet",), "letters_parquet"), (("duckdb", "here.duckdb"), "here.duckdb")],
)
def test_the_script_loads_into_the_given_place(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    place: str,
) -> None:
    """The script loads into DuckDB, Parquet or a given file, and prints the number of rows of each table."""
    assert run_script(monkeypatch, *arguments) == 0
    tables = read_tables(Path(place))
    assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
    printed = re.findall(r"^(\w+): (\d+) rows$", capsys.readouterr().out, re.MULTILINE)
    assert {name: int(rows) for name, rows in printed} == {name: len(rows) for name, rows in tables.items()}


def test_the_script_ends_with_the_error_s_exit_code(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script prints one line on stderr and exits with the error's code."""
    world.emulator.access_token = "another"
    assert run_script(monkeypatch) == 3
    line = (
        "templates page 0: the service refused the tokens (401): Access token missing or invalid; "
        "set new sources.letters.access_token and refresh_token. They are SOURCES__LETTERS__ACCESS_TOKEN "
        "in the environment and SOURCES__LETTERS__REFRESH_TOKEN in the environment.\n"
    )
    assert capsys.readouterr() == ("", line)
    assert not Path("letters.duckdb").exists() or "contacts" not in read_tables(Path("letters.duckdb"))


def test_a_good_load_has_nothing_to_warn_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two successful loads in a row print nothing on stderr at dlt's default log level."""
    monkeypatch.setenv("RUNTIME__LOG_LEVEL", "WARNING")
    as_a_fork = f"import runpy; runpy.run_path({SCRIPT!r}, run_name='__main__')"
    for done in (run_command(code=as_a_fork), run_python(SCRIPT)):
        assert (done.code, done.err) == (0, "")


def test_the_script_is_a_process_like_any_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script without a required setting exits with code 2 and one line, without a traceback."""
    monkeypatch.delenv("SOURCES__LETTERS__BASE_URL")
    done = run_python(SCRIPT, "parquet")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "sources.letters.base_url is not set; set SOURCES__LETTERS__BASE_URL in the environment, "
        "or base_url under [sources.letters] in .dlt/config.toml. "
        f"Searched {Path.cwd() / '.dlt/config.toml'} (not found).\n"
    )
    assert ACCESS not in done.err
