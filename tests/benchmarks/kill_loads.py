"""What do a reader and the next load find after loads that SIGKILL ends at any moment?

    python tests/benchmarks/kill_loads.py [--kills N] [--contacts N] [--write]

Each load into a DuckDB file, with `publish=`, is killed at a random moment between its start and the end of an
uninterrupted one. A reader then opens the file that was loaded, and the published one; an uninterrupted load follows,
and both files are compared with the emulator's own rows. `--write` puts the table into the README.md next to this
file.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from fingerprints import State, state_held, state_of
from killer import KILLED, Killer, killing

from programmable_emulator import Emulator
from report import describe_machine, table_of, write_block

SEED = 5
TEMPLATES = 200
LOOKS = ("old in all tables", "new in all tables", "old in some, new in others", "neither")


@dataclass(frozen=True, slots=True)
class Kill:
    """A killed load.

    Args:
        moment: when it was killed, as a share of the previous load's time.
        loaded: what a reader found in the file that was loaded, one of `LOOKS`.
        published: what a reader found in the published file.
        is_exact: whether both files held what the emulator held, after the next load.
        is_clean: whether that one left nothing in the working folder, and nothing of the killed one in the tables.
    """

    moment: float
    loaded: str
    published: str
    is_exact: bool
    is_clean: bool


def main() -> None:
    """Kill loads, print what was found, and write it if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="loads to kill (default %(default)s)")
    parser.add_argument("--contacts", type=int, default=50_000, help="rows of each (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into the README.md next to this file")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="letters-benchmark-") as name:
        text = kill_loads(Path(name), arguments.kills, arguments.contacts)
    print(text)
    if arguments.write:
        write_block("kills", text)


def kill_loads(folder: Path, kills: int, contacts: int) -> str:
    """The table of that many kills."""
    published = folder / "readers.duckdb"
    with killing(folder, Emulator(contacts, TEMPLATES), page_size=1000, publish=str(published)) as killer:
        target = Target(killer, published)
        target.load()
        found: list[Kill] = []
        while len(found) < kills:
            found += target.kill()
            print(f"{len(found)} of {kills}: {found[-1:]}", file=sys.stderr, flush=True)
    return section(found, contacts)


@dataclass
class Target:
    """Loads to kill, and the files to check afterwards.

    Args:
        killer: runs loads.
        published: the file for readers.
        rng: chooses the moments of kills.
        held: what both files hold since the last load.
        seconds: how long that load took.
    """

    killer: Killer
    published: Path
    rng: Random = field(default_factory=lambda: Random(SEED))
    held: State = ()
    seconds: float = 0

    def kill(self) -> Iterator[Kill]:
        """Kill a load, look, and load again; yield nothing if the load ended before it could be killed."""
        old, new = self.held, self.change()
        share = self.rng.random()
        code = self.killer.load(f"@{share * self.seconds}")
        loaded, published = (look(state_of(file), old, new) for file in (self.killer.file, self.published))
        is_exact, clean = self.load(), is_clean(self.killer)
        if code == KILLED:
            yield Kill(share, loaded, published, is_exact, clean)

    def load(self) -> bool:
        """Load without a kill; return whether both files then hold exactly what the emulator holds."""
        self.held = self.change()
        start = perf_counter()
        code = self.killer.load()
        self.seconds = perf_counter() - start
        return code == 0 and state_of(self.killer.file) == state_of(self.published) == self.held

    def change(self) -> State:
        """Add, delete and change rows; return what the emulator holds then."""
        self.killer.change()
        emulator = self.killer.emulator
        return state_held({"contacts": emulator.contacts.rows(), "templates": emulator.templates.rows()})


def look(found: State, old: State, new: State) -> str:
    """Return the name of what a reader finds, compared with the state before the load and the one being loaded."""
    if found in (old, new):
        return LOOKS[found == new]
    each_whole = all(one in pair for one, *pair in zip(found, old, new, strict=True))
    return LOOKS[2 if each_whole else 3]


def is_clean(killer: Killer) -> bool:
    """Whether nothing of a killed load is left."""
    try:
        killer.is_clean()
    except AssertionError:
        return False
    return True


def section(found: list[Kill], contacts: int) -> str:
    """The table and its summary."""
    loaded, published = Counter(kill.loaded for kill in found), Counter(kill.published for kill in found)
    mixed = sorted(kill.moment for kill in found if kill.loaded == LOOKS[2])
    summary = (
        f"{len(found)} loads of {contacts:,} contacts and {TEMPLATES} templates were killed. Of the loads that "
        f"followed, {sum(kill.is_exact for kill in found)} were exact, in both files; after "
        f"{sum(kill.is_clean for kill in found)} nothing of a killed load was left."
    )
    lines = [[what, str(loaded[what]), str(published[what])] for what in LOOKS]
    table = table_of("| a reader finds | in the file that is loaded | in the published file |", lines)
    text = f"{describe_machine()}\n\n{summary}\n\n{table}"
    if not mixed:
        return text
    span = f"between {mixed[0]:.0%} and {mixed[-1]:.0%} of a load's time"
    return f"{text}\n\nA mix of old and new tables was found after {len(mixed)} kills, {span}."


if __name__ == "__main__":
    main()
