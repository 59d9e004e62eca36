"""Serve the emulator to the benchmarks, steered over stdin and stdout, until stdin ends.

    python tests/benchmarks/serve_emulator.py --contacts 100000 --templates 500

The first lines out are the settings that reach it and the rows it holds. Each line in is a behavior to take on, as
JSON; the line out that answers it tells what was asked for since the line before.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import orjson

sys.path.insert(0, str(Path(__file__).parents[1]))

from programmable_emulator import Behavior, Emulator, Hit


def main() -> None:
    """Invent the rows, serve them, and answer each line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contacts", type=int, default=100_000)
    parser.add_argument("--templates", type=int, default=500)
    asked = parser.parse_args()
    emulator = Emulator(asked.contacts, asked.templates)
    with emulator.serve() as base_url:
        tokens = {"access_token": emulator.access_token, "refresh_token": emulator.refresh_token}
        say({"base_url": base_url, **tokens})
        say(count_rows(emulator))
        for line in sys.stdin:
            emulator.behavior = msgspec.json.decode(line, type=Behavior)
            hits, emulator.hits = emulator.hits, []
            say(traffic(hits))


def say(message: dict[str, Any]) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(message), flush=True)


def count_rows(emulator: Emulator) -> dict[str, int]:
    """What a complete load holds."""
    labels = sum(len(orjson.loads(row.wire)["ContactLabels"]) for row in emulator.contacts.rows())
    return {"contacts": emulator.contacts.count, "labels": labels, "templates": emulator.templates.count}


def traffic(hits: list[Hit]) -> dict[str, int]:
    """How often each listing was asked for, and how often which status was the answer."""
    paths = Counter(hit.path.rpartition("/")[2] for hit in hits)
    statuses = Counter(str(hit.status) for hit in hits)
    return {"requests": len(hits), **paths, **statuses}


if __name__ == "__main__":
    main()
