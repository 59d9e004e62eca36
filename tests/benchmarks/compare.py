"""How fast is a load, compared with other ways to write one, and how much do a service's faults slow it down?

    python tests/benchmarks/compare.py [--only NAME ...] [--runs N] [--contacts N] [--write]

`--write` puts the tables between the markers of the README.md next to this file; then `python tests/document.py`
updates the figures in the project's README.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from measure import Entry, Run, child_environment, measure
from scenarios import SCENARIOS, Line, Scenario

from report import decode_section, describe_machine, section_of, write_sections
from service import Service, serve

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
DECODE = "decode"
NAMES = (*(scenario.name for scenario in SCENARIOS), DECODE)


def main() -> None:
    """Run the scenarios, print their tables, and write them if requested."""
    arguments = read_arguments()
    byte_compile()
    machine = describe_machine()
    print(machine)
    sections: dict[str, str] = {}
    for name, text in run_scenarios(arguments.only, arguments.runs, arguments.contacts):
        print(f"\n{text}", flush=True)
        sections[name] = text
    if arguments.write:
        write(machine, sections)


def read_arguments() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--runs", type=int, default=3, help="runs that count, of each contestant (default %(default)s)")
    parser.add_argument("--contacts", type=int, help="another number of contacts, to try things out")
    parser.add_argument("--write", action="store_true", help="put the tables into the README.md next to this file")
    arguments = parser.parse_args()
    if arguments.write and arguments.contacts:
        parser.error("--write is for the full number of contacts")
    return arguments


def byte_compile() -> None:
    """Compile all that children may import, which would otherwise slow down the first run, or each run."""
    places = [place for place in sys.path if place.endswith("site-packages")]
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", *places, str(PROJECT / "letters_source"), str(HERE)]
    # some packages ship files for other versions of Python, which do not compile
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def run_scenarios(names: tuple[str, ...], runs: int, contacts: int | None) -> Iterator[tuple[str, str]]:
    """The name and the text of each requested scenario."""
    for scenario in SCENARIOS:
        if scenario.name in names:
            with serve(contacts or scenario.contacts, scenario.templates) as service:
                yield scenario.name, section_of(scenario, run_scenario(scenario, service, runs), service.rows)
    if DECODE in names:
        yield DECODE, decode_section(time_decoding())


def run_scenario(scenario: Scenario, service: Service, runs: int) -> dict[str, Line]:
    """Run all contestants in turn, repeatedly, so that the machine's variations affect all of them; warm up first."""
    found: dict[Entry, list[Run]] = {entry: [] for entry in scenario.entries}
    for number, entry in product(range(runs + 1), scenario.entries):
        if not is_due(entry, number):
            continue
        run = measure(entry, service)
        print_progress(scenario, entry, number, run)
        if number:
            found[entry].append(run)
    return {entry.name: Line(entry, tuple(made)) for entry, made in found.items()}


def is_due(entry: Entry, number: int) -> bool:
    """Whether an entry takes part in a round; round 0 warms up."""
    if not number:
        return entry.warm_up
    return entry.runs is None or number <= entry.runs


def print_progress(scenario: Scenario, entry: Entry, number: int, run: Run) -> None:
    """A line on stderr for each run."""
    which = f"run {number}" if number else "warm-up"
    print(f"{scenario.name}, {entry.name}, {which}: {run.wall:.2f} s {run.trouble}", file=sys.stderr, flush=True)


def time_decoding() -> dict[str, float]:
    """Microseconds to decode a page of each kind, measured in a process of its own."""
    command = [sys.executable, str(HERE / "decode_pages.py")]
    environment = child_environment(HERE, {})
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def write(machine: str, sections: dict[str, str]) -> None:
    """Put the sections into the README next to this file."""
    if not write_sections(HERE / "README.md", machine, sections):
        print("README.md has no markers to write between", file=sys.stderr)


if __name__ == "__main__":
    main()
