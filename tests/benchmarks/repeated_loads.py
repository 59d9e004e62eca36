"""Loads repeatedly in one process, and prints what each load cost and how it ended, as a line of JSON.

    python repeated_loads.py FILE PUBLISHED

Loads once for each line on stdin. The service and the tokens come from dlt's configuration.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from letters_source import LettersError, make_pipeline, run


def main() -> None:
    """Load once for each line."""
    file, published = map(Path, sys.argv[1:])
    for _ in sys.stdin:
        # Linux resets its count of the peak
        Path("/proc/self/clear_refs").write_text("5")
        start = perf_counter()
        figures = load(file, published)
        seconds = perf_counter() - start
        print(json.dumps({**figures, "seconds": seconds, "peak": peak_megabytes()}), flush=True)


def load(file: Path, published: Path) -> dict[str, Any]:
    """The error that a load ended with, if it did, and how its listings were read."""
    try:
        result = run(make_pipeline("duckdb", file), publish=published)
    except LettersError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    kept = ("verdict", "walks", "requests", "retries")
    return {"audits": [{name: value for name, value in audit.items() if name in kept} for audit in result.audits]}


def peak_megabytes() -> float:
    """The largest resident size of this process since the last reset."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
