"""Do thirty loads in a row, in one process, lose a row, a reader or memory, whatever the service does meanwhile?

    python tests/benchmarks/soak.py [--loads N] [--contacts N] [--write]

The service's answers break on their way in every manner, rows come and go between loads and while they are read, and
tokens change in the midst of each load. After each load the published file is compared with the emulator's own record,
while a reader looks at it without pause. `--write` puts the table into README.md beside this file.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from fingerprints import State, state_of
from hostile import standing
from measure import child_environment
from records import Record
from weather import SHARES, Weather

from letters_source.pagination.verdicts import VerdictName
from programmable_emulator import Behavior, Drift, Emulator
from report import describe_machine, table_of, write_block

HERE = Path(__file__).parent
SEED = 5
TEMPLATES = 200
PAGE_SIZE = 200
DRIFT = (Drift("insert", "end", 0.04), Drift("delete", "anywhere", 0.01))
# tokens change at one of a load's first requests, of which there are some twenty-five
EARLY = 15
# rows that come, and as many that go, between two loads
CHANGES = {"contacts": 50, "templates": 2}


@dataclass
class Service:
    """The emulator, whose tokens change in the midst of each load; the secrets hold the new ones first."""

    emulator: Emulator
    secrets: Path
    record: Record = field(default_factory=Record)
    dice: Random = field(default_factory=lambda: Random(SEED))
    rotations: int = 0
    rotate_at: int = 0

    def begin_load(self) -> None:
        """Rows come and go; a moment for new tokens is chosen."""
        for name, changes in CHANGES.items():
            shelf = getattr(self.emulator, name)
            for _ in range(changes):
                shelf.delete(self.dice.randrange(shelf.count))
                shelf.grow()
        self.rotate_at = len(self.emulator.hits) + self.dice.randint(2, EARLY)
        self.record.begin(self.emulator)

    def before_answer(self, emulator: Emulator, number: int) -> None:
        """Note what is held, and change the tokens when it is time."""
        self.record.note(emulator)
        if number == self.rotate_at:
            self.rotate()

    def rotate(self) -> None:
        """New tokens, in the secrets and at the service."""
        self.rotations += 1
        access, refresh = f"access-{self.rotations}", f"refresh-{self.rotations}"
        new = self.secrets.with_suffix(".new")
        new.write_text(f'[sources.letters]\naccess_token = "{access}"\nrefresh_token = "{refresh}"\n')
        new.replace(self.secrets)
        self.emulator.access_token, self.emulator.refresh_token = access, refresh


@dataclass(frozen=True, slots=True)
class Load:
    """A load that ended, and how the published file compares with the emulator's record of it."""

    told: dict[str, Any]
    state: State
    lost: int
    extra: int
    is_right: bool


class Child:
    """A script of ours in a process of its own, which answers lines with lines of JSON."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self) -> Any:
        """Return the answer to a line."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


@contextmanager
def child(script: str, *arguments: Path, folder: Path, **settings: str) -> Iterator[Child]:
    """A script that runs while the block does."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    environment = child_environment(folder, settings) | {"RUNTIME__LOG_LEVEL": "CRITICAL"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=folder, env=environment) as process:
        yield Child(process)


def main() -> None:
    """Load, print what was found, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=int, default=30, help="loads that must end well (default %(default)s)")
    parser.add_argument("--contacts", type=int, default=4_000, help="rows of each (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into README.md beside this file")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="letters-benchmark-") as name:
        text = soak(Path(name), asked.loads, asked.contacts)
    print(text)
    if asked.write:
        write_block("soak", text)


def soak(folder: Path, wanted: int, contacts: int) -> str:
    """The tables of so many loads that ended well, and of what happened to them."""
    emulator = Emulator(contacts, TEMPLATES, behavior=Behavior(drift=DRIFT))
    (folder / ".dlt").mkdir()
    service = Service(emulator, folder / ".dlt/secrets.toml")
    service.rotate()
    emulator.before_answer = service.before_answer
    file, published = folder / "letters.duckdb", folder / "readers.duckdb"
    with ExitStack() as stack:
        weather = stack.enter_context(standing(Weather(stack.enter_context(emulator.serve()), [], stays=False)))
        settings = {"base_url": weather.base_url, "page_size": str(PAGE_SIZE)}
        loader = stack.enter_context(child("repeated_loads.py", file, published, folder=folder, **settings))
        loads = [load_once(loader, service, published)]
        reader = stack.enter_context(child("repeated_looks.py", published, folder=folder))
        while sum("error" not in load.told for load in loads) < wanted:
            loads.append(load_once(loader, service, published))
        return section(loads, weather, service, reader.ask())


def load_once(loader: Child, service: Service, published: Path) -> Load:
    """Let rows come and go, load, and compare."""
    service.begin_load()
    told = loader.ask()
    service.record.note(service.emulator)
    lost, extra, is_right = (0, 0, True) if "error" in told else service.record.compare(published)
    print(told, lost, extra, is_right, file=sys.stderr, flush=True)
    return Load(told, state_of(published), lost, extra, is_right)


def section(loads: list[Load], weather: Weather, service: Service, seen: dict[str, Any]) -> str:
    """All figures."""
    whole = {load.state for load in loads}
    states = {tuple(map(tuple, json.loads(text))): looks for text, looks in seen["states"].items()}
    half = sum(looks for state, looks in states.items() if state not in whole)
    well = [load for load in loads if "error" not in load.told]
    errors = Counter(load.told["error"].partition(":")[0] for load in loads if "error" in load.told)
    audits = [audit for load in well for audit in load.told["audits"]]
    verdicts = Counter(audit["verdict"] for audit in audits)
    peaks = [load.told["peak"] for load in well]
    seconds = [load.told["seconds"] for load in well]
    figures = {
        "loads that ended well": len(well),
        "loads that ended in an error, and were run again": len(loads) - len(well),
        "listings stable, continuous, and exact": ", ".join(str(verdicts[name]) for name in get_args(VerdictName)),
        **{f"- {error}": times for error, times in errors.most_common()},
        "requests, without those of loads that ended in an error": sum(audit["requests"] for audit in audits),
        "answers spoiled on their way": sum(weather.met.values()),
        **{f"- {kind}": met for kind, met in weather.met.most_common()},
        "new tokens in the midst of a load": service.rotations - 1,
        "rows lost": sum(load.lost for load in loads),
        "rows too many": sum(load.extra for load in loads),
        "loads with a wrong value": sum(not load.is_right for load in loads),
        "looks of the reader": sum(states.values()),
        "loads that the reader saw": len(states),
        "half states that it saw": half,
        "errors that it met": sum(seen["errors"].values()),
        "seconds of a load": f"{min(seconds):.1f} to {max(seconds):.1f}",
        "peak MB of a load, in order": ", ".join(f"{peak:.0f}" for peak in peaks),
        "the last peak, of the fifth": f"{peaks[-1] / peaks[4]:.3f}" if len(peaks) > 4 else "",
    }
    intro = (
        f"{service.emulator.contacts.count:,} contacts and {service.emulator.templates.count} templates, pages of "
        f"{PAGE_SIZE}; {sum(SHARES):.0%} of the answers spoiled."
    )
    table = table_of("| figure | |", [[name, str(value)] for name, value in figures.items()])
    return f"{describe_machine()}\n\n{intro}\n\n{table}"


if __name__ == "__main__":
    main()
