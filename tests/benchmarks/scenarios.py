"""The loads that are compared, their conditions, and the notes on their figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from measure import Entry, Run

LATENCY_MS = 50
# the default of max_workers
WORKERS = 8
CLAMP = 37
FAULT_EVERY = 20
RATE = 20
LISTINGS = ("contacts", "templates")


@dataclass(frozen=True, slots=True)
class Line:
    """An entry and its runs; incomplete loads count only for `troubles`."""

    entry: Entry
    runs: tuple[Run, ...]

    @property
    def complete(self) -> list[Run]:
        """The runs that loaded everything."""
        return [run for run in self.runs if not run.trouble]

    @property
    def troubles(self) -> list[str]:
        """What was wrong with the others."""
        return sorted({run.trouble for run in self.runs if run.trouble})

    def middle(self, figure: Callable[[Run], float]) -> float:
        """The median of a figure; not a number where no load was complete."""
        return median(map(figure, self.complete)) if self.complete else float("nan")

    @property
    def wall(self) -> float:
        """The median of the seconds from start to end."""
        return self.middle(lambda run: run.wall)

    def requested(self, what: str) -> float:
        """The median number of requests: in all, to a listing, or answered with a status."""
        return self.middle(lambda run: run.traffic.get(what, 0))


Lines = Mapping[str, Line]
Rows = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Loads to compare over the same rows; `remark` says what their figures mean."""

    name: str
    title: str
    contacts: int
    entries: tuple[Entry, ...]
    remark: Callable[[Lines, Rows], str]
    templates: int = 500


def pages(rows: int, page_size: int) -> int:
    """How many pages hold the rows."""
    return max(1, -(-rows // page_size))


def requests_needed(rows: int, page_size: int) -> int:
    """How many requests a quiet listing takes: its pages, and two for the recheck where there is more than one."""
    needed = pages(rows, page_size)
    return needed + 2 if needed > 1 else needed


def compare_with_peers(lines: Lines, rows: Rows) -> str:
    """Our speed compared with each of the others."""
    ours, floor = lines["ours"].wall, lines["floor"].wall
    peers = {name: line.wall for name, line in lines.items() if name not in ("ours", "floor")}
    faster = ", ".join(f"{wall / ours:.1f} times as fast as {name}" for name, wall in peers.items())
    return f"Ours is {faster}, and takes {ours / floor:.2f} times the floor."


def compare_with_ideal(lines: Lines, rows: Rows) -> str:
    """Our speed compared with what latency allows, and with a peer that requests one page after the other."""
    slow, quick, sequential = lines["ours"].wall, lines["ours, no latency"].wall, lines["rest_api parquet"].wall
    number = pages(rows["contacts"], lines["ours"].entry.page_size)
    ideal = number * LATENCY_MS / 1000 / WORKERS + quick
    return (
        f"{number:,} pages x {LATENCY_MS} ms / {WORKERS} workers + {quick:.1f} s without latency = "
        f"{ideal:.1f} s: ours takes {slow / ideal:.2f} times that, and is {sequential / slow:.1f} times as fast as the "
        "sequential peer."
    )


def count_clamped(lines: Lines, rows: Rows) -> str:
    """Whether a clamped page size takes more requests than needed."""
    figures = [
        f"{listing} {lines['ours'].requested(listing):.0f} of {requests_needed(rows[listing], CLAMP)}"
        for listing in LISTINGS
    ]
    return f"Requests made, of those needed (ceil(count / {CLAMP}) + 2): {', '.join(figures)}."


def weigh_faults(lines: Lines, rows: Rows) -> str:
    """How much time faults cost."""
    clean, faulty = lines["clean"], lines[f"one 500 in {FAULT_EVERY}"]
    times = faulty.wall / clean.wall
    return f"With faults it takes {times:.2f} times as long; {faulty.requested('500'):.0f} responses were a 500."


def weigh_limits(lines: Lines, rows: Rows) -> str:
    """How close we come to the rate limit, and how often we exceed it."""
    return " ".join(weigh_limit(line, rows) for line in lines.values())


def weigh_limit(line: Line, rows: Rows) -> str:
    """How close we come to a kind of rate limit; the ideal load gets its first second's requests at once."""
    needed = sum(requests_needed(rows[listing], line.entry.page_size) for listing in LISTINGS)
    best = (needed - RATE) / RATE
    refused = max((run.traffic.get("429", 0) / run.traffic["requests"] for run in line.complete), default=float("nan"))
    return (
        f"{line.entry.name.capitalize()}: {needed} requests at {RATE} a second, {RATE} of them at once, take "
        f"{best:.1f} s; ours takes {line.wall / best:.2f} times that, and at most {refused:.1%} of a run's requests "
        "were answered 429."
    )


def weigh_modes(lines: Lines, rows: Rows) -> str:
    """What each way of writing takes compared with a plain load."""
    first, again = lines["replace"].wall, lines["replace, again"].wall
    figures = [
        f"{name} {line.wall / (again if line.entry.again else first):.2f}"
        for name, line in lines.items()
        if not name.startswith("replace")
    ]
    return f"Times as long as a plain load, into a new file or again: {', '.join(figures)}."


PEERS = ("ours", "rest_api", "rest_api parquet", "hand-tuned", "floor")
LIMIT = {"rate_limit": RATE, "retry_after": 1}

SCENARIOS = (
    Scenario(
        "main",
        "{contacts:,} contacts with {labels:,} labels, {templates} templates, pages of 1,000, no latency",
        100_000,
        tuple(map(Entry, PEERS)),
        compare_with_peers,
    ),
    Scenario(
        "million",
        "{contacts:,} contacts with {labels:,} labels, {templates} templates, pages of 1,000, no latency",
        1_000_000,
        (Entry("ours"), Entry("hand-tuned", warm_up=False), Entry("floor")),
        compare_with_peers,
    ),
    Scenario(
        "latency",
        f"{{contacts:,}} contacts, pages of 100, {LATENCY_MS} ms latency, {WORKERS} workers",
        100_000,
        (
            Entry("ours", page_size=100, behavior={"latency_ms": LATENCY_MS}),
            Entry("ours", "ours, no latency", page_size=100),
            Entry("rest_api parquet", page_size=100, behavior={"latency_ms": LATENCY_MS}, runs=1, warm_up=False),
        ),
        compare_with_ideal,
    ),
    Scenario(
        "clamp",
        f"{{contacts:,}} contacts, pages of 1,000 requested, pages of {CLAMP} returned",
        5_000,
        (Entry("ours", behavior={"max_page_size": CLAMP}),),
        count_clamped,
    ),
    Scenario(
        "faults",
        f"{{contacts:,}} contacts, pages of 100, one request in {FAULT_EVERY} answered 500",
        100_000,
        (
            Entry("ours", "clean", page_size=100),
            Entry("ours", f"one 500 in {FAULT_EVERY}", page_size=100, behavior={"fault_every": FAULT_EVERY}),
        ),
        weigh_faults,
    ),
    Scenario(
        "rate",
        f"{{contacts:,}} contacts, pages of 10, {RATE} requests a second allowed, Retry-After: 1",
        4_000,
        (
            Entry("ours", "bucket", page_size=10, behavior={**LIMIT, "rate_style": "bucket"}, warm_up=False),
            Entry("ours", "windows", page_size=10, behavior={**LIMIT, "rate_style": "windows"}, warm_up=False),
        ),
        weigh_limits,
        templates=10,
    ),
    Scenario(
        "modes",
        "{contacts:,} contacts with {labels:,} labels, pages of 1,000, no latency, loads of other kinds",
        100_000,
        (
            Entry("ours", "replace"),
            Entry("ours", "replace, again", again=True),
            Entry("ours", "hash", options=("--pii", "hash")),
            Entry("ours", "mask", options=("--pii", "mask")),
            Entry("ours", "history", options=("--history",)),
            Entry("ours", "history, again", options=("--history",), again=True),
            Entry("ours", "sync", options=("--sync",)),
            Entry("ours", "sync, again", options=("--sync",), again=True),
            Entry("ours", "facets", options=("--facets",)),
        ),
        weigh_modes,
    ),
)
