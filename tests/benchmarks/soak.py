"""Do thirty loads in a row, in one process, lose rows, break a reader or leak memory, while the service misbehaves?

    python tests/benchmarks/soak.py [--loads N] [--contacts N] [--write]

The service's responses fail in every way, rows come and go between loads and while they are read, and the tokens
change during each load. After each load the published file is compared with the emulator's own record,
while a reader opens it without pause. `--write` puts the table into the README.md next to this file.
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

from faulty_proxy import serve_proxy
from fingerprints import State, state_of
from measure import child_environment
from random_faults import SHARES, RandomFaults
from records import Record

from letters_source.pagination.verdicts import VerdictName
from programmable_emulator import Behavior, Drift, Emulator
from report import describe_machine, table_of, write_block

HERE = Path(__file__).parent
SEED = 5
TEMPLATES = 200
PAGE_SIZE = 200
DRIFT = (Drift("insert", "end", 0.04), Drift("delete", "anywhere", 0.01))
# tokens change at one of a load's first requests, of about twenty-five
EARLY = 15
# rows that are added, and as many that are deleted, between two loads
CHANGES = {"contacts": 50, "templates": 2}


@dataclass
class Service:
    """The emulator, whose tokens change during each load; the secrets hold the new ones first."""

    emulator: Emulator
    secrets: Path
    record: Record = field(default_factory=Record)
    rng: Random = field(default_factory=lambda: Random(SEED))
    rotations: int = 0
    rotate_at: int = 0

    def begin_load(self) -> None:
        """Change rows, and choose the request at which tokens change."""
        for name, changes in CHANGES.items():
            listing = getattr(self.emulator, name)
            for _ in range(changes):
                listing.delete(self.rng.randrange(listing.count))
                listing.grow()
        self.rotate_at = len(self.emulator.hits) + self.rng.randint(2, EARLY)
        self.record.begin(self.emulator)

    def before_answer(self, emulator: Emulator, number: int) -> None:
        """Record the rows, and change the tokens at the chosen request."""
        self.record.note(emulator)
        if number == self.rotate_at:
            self.rotate()

    def rotate(self) -> None:
        """Change the tokens, in the secrets and of the service."""
        self.rotations += 1
        access, refresh = f"access-{self.rotations}", f"refresh-{self.rotations}"
        new = self.secrets.with_suffix(".new")
        new.write_text(f'[sources.letters]\naccess_token = "{access}"\nrefresh_token = "{refresh}"\n')
        new.replace(self.secrets)
        self.emulator.access_token, self.emulator.refresh_token = access, refresh


@dataclass(frozen=True, slots=True)
class Load:
    """A load that ended, and how the published file compares with the emulator's record of it."""

    report: dict[str, Any]
    state: State
    lost: int
    extra: int
    is_right: bool


class Child:
    """A script in its own process, which answers each line with a line of JSON."""

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
    """Load, print the figures, and write them if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=int, default=30, help="loads that must succeed (default %(default)s)")
    parser.add_argument("--contacts", type=int, default=4_000, help="rows of each (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into the README.md next to this file")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="letters-benchmark-") as name:
        text = soak(Path(name), arguments.loads, arguments.contacts)
    print(text)
    if arguments.write:
        write_block("soak", text)


def soak(folder: Path, wanted: int, contacts: int) -> str:
    """The table of figures of that many successful loads."""
    emulator = Emulator(contacts, TEMPLATES, behavior=Behavior(drift=DRIFT))
    (folder / ".dlt").mkdir()
    service = Service(emulator, folder / ".dlt/secrets.toml")
    service.rotate()
    emulator.before_answer = service.before_answer
    file, published = folder / "letters.duckdb", folder / "readers.duckdb"
    with ExitStack() as stack:
        faults = stack.enter_context(serve_proxy(RandomFaults(stack.enter_context(emulator.serve()), [], stays=False)))
        settings = {"base_url": faults.base_url, "page_size": str(PAGE_SIZE)}
        loader = stack.enter_context(child("repeated_loads.py", file, published, folder=folder, **settings))
        loads = [load_once(loader, service, published)]
        reader = stack.enter_context(child("repeated_looks.py", published, folder=folder))
        while sum("error" not in load.report for load in loads) < wanted:
            loads.append(load_once(loader, service, published))
        return section(loads, faults, service, reader.ask())


def load_once(loader: Child, service: Service, published: Path) -> Load:
    """Change rows, load, and compare."""
    service.begin_load()
    report = loader.ask()
    service.record.note(service.emulator)
    lost, extra, is_right = (0, 0, True) if "error" in report else service.record.compare(published)
    print(report, lost, extra, is_right, file=sys.stderr, flush=True)
    return Load(report, state_of(published), lost, extra, is_right)


def section(loads: list[Load], faults: RandomFaults, service: Service, seen: dict[str, Any]) -> str:
    """The text of the section."""
    whole = {load.state for load in loads}
    states = {tuple(map(tuple, json.loads(text))): looks for text, looks in seen["states"].items()}
    partial = sum(looks for state, looks in states.items() if state not in whole)
    succeeded = [load for load in loads if "error" not in load.report]
    errors = Counter(load.report["error"].partition(":")[0] for load in loads if "error" in load.report)
    audits = [audit for load in succeeded for audit in load.report["audits"]]
    verdicts = Counter(audit["verdict"] for audit in audits)
    peaks = [load.report["peak"] for load in succeeded]
    seconds = [load.report["seconds"] for load in succeeded]
    figures = {
        "successful loads": len(succeeded),
        "loads that failed and were run again": len(loads) - len(succeeded),
        "listings stable, continuous, and exact": ", ".join(str(verdicts[name]) for name in get_args(VerdictName)),
        **{f"- {error}": times for error, times in errors.most_common()},
        "requests, without those of failed loads": sum(audit["requests"] for audit in audits),
        "injected faults": sum(faults.injected.values()),
        **{f"- {kind}": times for kind, times in faults.injected.most_common()},
        "new tokens during a load": service.rotations - 1,
        "rows lost": sum(load.lost for load in loads),
        "extra rows": sum(load.extra for load in loads),
        "loads with a wrong value": sum(not load.is_right for load in loads),
        "reads by the reader": sum(states.values()),
        "loads that the reader saw": len(states),
        "partial states that it saw": partial,
        "errors that it got": sum(seen["errors"].values()),
        "seconds of a load": f"{min(seconds):.1f} to {max(seconds):.1f}",
        "peak MB of a load, in order": ", ".join(f"{peak:.0f}" for peak in peaks),
        "last peak / fifth peak": f"{peaks[-1] / peaks[4]:.3f}" if len(peaks) > 4 else "",
    }
    intro = (
        f"{service.emulator.contacts.count:,} contacts and {service.emulator.templates.count} templates, pages of "
        f"{PAGE_SIZE}; {sum(SHARES):.0%} of the responses had an injected fault."
    )
    table = table_of("| figure | |", [[name, str(value)] for name, value in figures.items()])
    return f"{describe_machine()}\n\n{intro}\n\n{table}"


if __name__ == "__main__":
    main()
