"""How often is a walk over HTTP accepted, refused, or wrong, while the emulator's rows come and go?

    python tests/benchmarks/walk_over_http.py [--walks N] [--processes N] [--write]

Each accepted walk is compared with the emulator's own record of its rows: at the moment that it is proven for, or,
if it is continuous, throughout the walk. `--write` puts the table between the markers of the README.md in this folder.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from drifting_walks import Case, Kind, Place, Walked, walk_over_http
from report import write_block

RATES = (0.01, 0.05, 0.1)
# rows swapped anywhere under an unchanged count are what `stable` cannot see, so exact is requested
WEATHERS: tuple[tuple[Kind, Place, Any], ...] = (
    ("insert", "end", "continuous"),
    ("insert", "front", "continuous"),
    ("insert", "anywhere", "continuous"),
    ("delete", "anywhere", "continuous"),
    ("swap", "end", "continuous"),
    ("swap", "anywhere", "exact"),
)
HEAD = (
    "| kind | place | requested proof | rate | walks | stable | continuous | exact | refused | wrong "
    "| mean requests |\n" + "|---" * 11 + "|"
)
ROWS, PAGE_SIZE = 1_600, 50


def plan_cases() -> list[Case]:
    """Every line of the table: 1,600 contacts on 32 pages, large enough to overlap."""
    return [Case(kind, place, rate, proof, ROWS, PAGE_SIZE) for (kind, place, proof), rate in product(WEATHERS, RATES)]


def walk_case(case: Case, walks: int) -> list[Walked]:
    """The walks of one line, each with a seed of its own."""
    return [walk_over_http(case, seed) for seed in range(1, walks + 1)]


def line(case: Case, walked: list[Walked]) -> str:
    """The line of one case."""
    endings: Counter[str] = Counter(one.ending for one in walked)
    wrong = sum(one.wrong for one in walked)
    requests = round(sum(one.requests for one in walked) / len(walked))
    counts = [endings[ending] for ending in ("stable", "continuous", "exact", "refused")]
    words = [case.kind, case.place, case.proof, f"{case.rate:g}", len(walked), *counts, wrong, requests]
    return "| " + " | ".join(map(str, words)) + " |"


def summary(walked: list[Walked]) -> str:
    """All walks in a sentence."""
    accepted = [one for one in walked if one.ending != "refused"]
    return (
        f"{len(walked)} walks of {ROWS:,} contacts on {ROWS // PAGE_SIZE} pages over HTTP, by four workers: "
        f"{len(accepted)} accepted, wrong {sum(one.wrong for one in accepted)}, refused {len(walked) - len(accepted)}."
    )


def main() -> None:
    """Walk, print the table, and write it if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", type=int, default=360, help="walks in all (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="processes to walk in (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into the README.md next to this file")
    arguments = parser.parse_args()
    cases = plan_cases()
    each = -(-arguments.walks // len(cases))
    with ProcessPoolExecutor(arguments.processes) as pool:
        walked = list(pool.map(walk_case, cases, [each] * len(cases)))
    lines = [line(case, walks) for case, walks in zip(cases, walked, strict=True)]
    text = "\n".join([summary([one for walks in walked for one in walks]), "", HEAD, *lines])
    print(text)
    if arguments.write:
        write_block("http walks", text)


if __name__ == "__main__":
    main()
