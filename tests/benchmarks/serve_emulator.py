"""Serve the emulator to the benchmarks, controlled over stdin and stdout, until stdin ends.

    python tests/benchmarks/serve_emulator.py --contacts 100000 --templates 500

The first lines of output are the settings to reach it and the rows it holds. Each line of input is a new behavior, as
JSON; the line that answers it has the requests since the previous line.
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
    """Generate the rows, serve them, and answer each line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contacts", type=int, default=100_000)
    parser.add_argument("--templates", type=int, default=500)
    arguments = parser.parse_args()
    emulator = Emulator(arguments.contacts, arguments.templates)
    with emulator.serve() as base_url:
        tokens = {"access_token": emulator.access_token, "refresh_token": emulator.refresh_token}
        say({"base_url": base_url, **tokens})
        say(count_rows(emulator))
        for line in sys.stdin:
            emulator.behavior = msgspec.json.decode(line, type=Behavior)
            hits, emulator.hits = emulator.hits, []
            say(traffic(hits))


def say(message: dict[str, Any]) -> None:
    """Print a line of JSON."""
    print(json.dumps(message), flush=True)


def count_rows(emulator: Emulator) -> dict[str, int]:
    """The number of rows of a complete load."""
    labels = sum(len(orjson.loads(row.wire)["ContactLabels"]) for row in emulator.contacts.rows())
    return {"contacts": emulator.contacts.count, "labels": labels, "templates": emulator.templates.count}


def traffic(hits: list[Hit]) -> dict[str, int]:
    """The number of requests for each listing, and of responses with each status."""
    paths = Counter(hit.path.rpartition("/")[2] for hit in hits)
    statuses = Counter(str(hit.status) for hit in hits)
    return {"requests": len(hits), **paths, **statuses}


if __name__ == "__main__":
    main()
