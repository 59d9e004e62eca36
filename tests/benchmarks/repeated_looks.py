"""Reads a published file without pause until stdin ends; then prints what it saw, and the errors, as a line of JSON.

python repeated_looks.py PUBLISHED
"""

import json
import select
import sys
from collections import Counter
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))

from fingerprints import state_of


def main() -> None:
    """Read the file repeatedly."""
    file = Path(sys.argv[1])
    seen, errors = Counter[str](), Counter[str]()
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            seen[json.dumps(state_of(file))] += 1
        except (duckdb.Error, OSError) as error:
            errors[str(error)] += 1
    print(json.dumps({"states": seen, "errors": errors}))


if __name__ == "__main__":
    main()
