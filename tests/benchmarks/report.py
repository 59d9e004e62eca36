"""Formats figures as Markdown, and writes them into documents."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from scenarios import SCENARIOS, Line, Rows, Scenario

START, END = "<!-- compare -->", "<!-- /compare -->"
HEAD = "| load | wall s | runs | fastest to slowest | first line = 1 | CPU s | peak MB | requests | refused | rows |"
DECODE_HEAD = "| page of 1,000 contacts | ms | clean = 1 |"
ORDER = (*(scenario.name for scenario in SCENARIOS), "decode")
PACKAGES = ("dlt", "duckdb", "pyarrow")


def section_of(scenario: Scenario, lines: Mapping[str, Line], rows: Rows) -> str:
    """A scenario's heading, table and remark."""
    first = next(iter(lines.values())).wall
    table = table_of(HEAD, [cells(line, first) for line in lines.values()])
    return f"### {scenario.title.format(**rows)}\n\n{table}\n\n{scenario.remark(lines, rows)}"


def cells(line: Line, first: float) -> list[str]:
    """The cells of one line."""
    walls = sorted(run.wall for run in line.complete)
    requests = line.requested("requests")
    return [
        line.entry.name,
        f"{line.wall:.2f}",
        str(len(walls)),
        f"{walls[0]:.2f} to {walls[-1]:.2f}" if walls else "",
        f"{line.wall / first:.2f}",
        f"{line.middle(lambda run: run.cpu):.2f}",
        f"{line.middle(lambda run: run.peak):.0f}",
        f"{requests:.0f}",
        f"{requests - line.requested('200'):.0f}",
        "; ".join(line.troubles) or "all",
    ]


def decode_section(taken: Mapping[str, float]) -> str:
    """The heading and table of decoding alone."""
    lines = [[name, f"{one / 1000:.2f}", f"{one / taken['clean']:.2f}"] for name, one in taken.items()]
    return f"### Decoding alone, in process\n\n{table_of(DECODE_HEAD, lines)}"


def table_of(head: str, lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rule = re.sub(r"[^|]+", "---", head)
    return "\n".join([head, rule, *(f"| {' | '.join(line)} |" for line in lines)])


def describe_machine() -> str:
    """The machine and the versions with which figures were measured."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    processor = model.group(1).strip() if model else platform.machine()
    cores = len(os.sched_getaffinity(0))
    return f"Measured on {cores} cores of {processor}, {memory:.0f} GB; Python {platform.python_version()}, {packages}."


def write_sections(file: Path, machine: str, sections: Mapping[str, str]) -> bool:
    """Put sections between a file's markers, and keep those from the same machine.

    Returns whether the file has markers.
    """
    before, start, rest = file.read_text().partition(START)
    old, end, after = rest.partition(END)
    if not (start and end):
        return False
    kept = read_sections(old) if machine in old else {}
    found = {**kept, **sections}
    blocks = [f"<!-- {name} -->\n{found[name]}\n" for name in sorted(found, key=ORDER.index)]
    file.write_text(f"{before}{START}\n{machine}\n\n" + "\n".join(blocks) + f"{END}{after}")
    return True


def read_sections(text: str) -> dict[str, str]:
    """The sections between the markers, by the name that stands before each."""
    parts = re.split(r"^<!-- (\w+) -->$", text, flags=re.MULTILINE)
    return {name: part.strip() for name, part in zip(parts[1::2], parts[2::2], strict=True)}


def show_blocks(texts: Mapping[str, str], *, write: bool) -> None:
    """Print texts, and put each between the markers of its name if requested."""
    for name, text in texts.items():
        print(text)
        if write:
            write_block(name, text)


def write_block(name: str, text: str) -> None:
    """Put a text between the markers of its name in the README.md next to this file."""
    file = Path(__file__).with_name("README.md")
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = file.read_text().split(f"{start}\n")
    file.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}")
