"""The nightly recipes load as cron and systemd start them."""

import re
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from holdings import held_tables, read_tables
from terminals import Letters, Outcome, run_process, run_python
from worlds import Begin, World

from programmable_emulator import Emulator

ROOT = Path(__file__).parents[2]
PIPELINES = ROOT / "pipelines"
HOME = "/srv/letters"


@pytest.fixture
def world(begin: Begin) -> World:
    """A few rows."""
    return begin(Emulator(20, 5))


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    """The folder of the recipes: with the command, and with settings that reach the emulator."""
    home = tmp_path / "letters"
    (home / ".venv").mkdir(parents=True)
    (home / ".venv/bin").symlink_to(Path(sys.executable).parent)
    (home / ".dlt").mkdir()
    base_url = world.settings["base_url"]
    tokens = (f'{name} = "{world.settings[name]}"' for name in ("access_token", "refresh_token"))
    (home / ".dlt/config.toml").write_text(f'[sources.letters]\nbase_url = "{base_url}"\n')
    (home / ".dlt/secrets.toml").write_text("\n".join(["[sources.letters]", *tokens]))
    return home


def start(command: str, home: Path, **options: str | Path) -> Outcome:
    """A command as a service of the system starts it: with next to nothing in the environment."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    return run_process("/bin/sh", "-c", command.replace(HOME, str(home)), env=environment, **options)


def loaded(home: Path, world: World) -> bool:
    """Whether both files hold what the emulator holds."""
    held = held_tables(world.emulator).items()
    return all(held <= read_tables(home / name).items() for name in ("letters.duckdb", "readers.duckdb"))


def unit(name: str) -> ConfigParser:
    """A unit of systemd's."""
    parser = ConfigParser(interpolation=None)
    parser.read(PIPELINES / "systemd" / name)
    return parser


def test_cron_s_line_loads(home: Path, world: World) -> None:
    """Cron's line loads and publishes without printing anything, so that cron has nothing to mail."""
    [line] = re.findall(r"```crontab\n(.*)\n```", (PIPELINES / "README.md").read_text())
    command = line.split(maxsplit=5)[5]
    assert start(command, home) == Outcome(0, "", "")
    assert loaded(home, world)


def test_cron_s_line_says_what_is_wrong(home: Path, world: World) -> None:
    """Cron's line prints one line when the load fails."""
    world.emulator.access_token = "another"
    [line] = re.findall(r"```crontab\n(.*)\n```", (PIPELINES / "README.md").read_text())
    outcome = start(line.split(maxsplit=5)[5], home)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (3, "", 1)


def test_systemd_s_service_loads(home: Path, world: World) -> None:
    """The command of systemd's service loads and publishes in its working directory."""
    service = unit("letters.service")["Service"]
    folder = service["WorkingDirectory"].replace(HOME, str(home))
    assert start(service["ExecStart"], home, cwd=folder) == Outcome(0, "", "")
    assert loaded(home, world)


@pytest.mark.parametrize("name", ["letters.service", "letters.timer"])
def test_systemd_finds_nothing_wrong_with_its_units(home: Path, tmp_path: Path, name: str) -> None:
    """systemd's own check finds nothing wrong with the units."""
    for path in (PIPELINES / "systemd").iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(HOME, str(home)))
    assert run_process("systemd-analyze", "verify", "--man=no", str(tmp_path / name)) == Outcome(0, "", "")


def test_the_first_queries_answer_after_the_demo(letters: Letters, begin: Begin, tmp_path: Path) -> None:
    """Each of README's first queries shows a table of the demo when pasted into Python."""
    begin(Emulator(0, 0))
    assert letters("demo", "--quiet").code == 0
    [queries] = re.findall(r"```python\n(import duckdb\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    pasted = tmp_path / "pasted"
    pasted.write_text(queries)
    with pasted.open() as stdin:
        done = run_python("-q", "-i", stdin=stdin)
    assert (done.code, set(done.err) - set(">. \n")) == (0, set())
    answers = [re.split(r"\W*\n", answer)[1] for answer in done.out.split("┌")[1:]]
    columns = [re.findall(r"\w+", answer) for answer in answers]
    assert columns == [
        ["title", "contacts"], ["field", "rows"], ["title", "paper_type", "creator"],
        ["started_at", "listing", "rows_yielded", "verdict"], ["mailed_on", "full_name", "city"],
    ]  # fmt: skip
    empty = [bool(re.search(r"\b0 rows", answer)) for answer in done.out.split("┌")[1:]]
    assert empty == [False, True, False, False, False]
