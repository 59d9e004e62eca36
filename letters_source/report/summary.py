"""Says in words what was loaded, from where, and how complete it is."""

from collections.abc import Mapping
from typing import Any

import duckdb

from letters_source.report.queries import FIGURES, NEWEST, READ_FROM, UNFINISHED, Rows, read
from letters_source.tables import weakest

# the last two of each are the names in version 0.1.0
VERDICTS = {
    "continuous": "Complete, changing",
    "stable": "Complete, unchanged",
    "exact": "Complete, proven",
    "fenced": "Complete, unchanged",
    "certified": "Complete, proven",
}
PROOFS = {
    "continuous": " The listing changed during the load; no row that stayed was missed.",
    "stable": " No change was seen during the load.",
    "exact": " It is proven that nothing is missing.",
    "fenced": " No change was seen during the load.",
    "certified": " It is proven that nothing is missing.",
}


def summarize(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return what was loaded: where from, when, the figures, and a headline and a sentence on how complete it is."""
    newest, figures = read(connection, NEWEST), read(connection, FIGURES)[0]
    headline, text = judge(newest, figures, is_finished=not read(connection, UNFINISHED))
    listings = {row["listing"] for row in newest}
    needed = {"contacts": "contacts", "templates": "templates", "labels": "contacts"}
    return {
        "read_from": [part for part in read(connection, READ_FROM)[0].values() if part],
        "headline": headline,
        "text": text,
        "loaded": loaded_at(newest),
        "figures": {name: figures[name] if listing in listings else None for name, listing in needed.items()},
    }


def judge(newest: Rows, figures: Mapping[str, int], *, is_finished: bool) -> tuple[str, str]:
    """Compare the last audits with the rows there are now; return a headline and a sentence."""
    missing = " and ".join(
        f"{figures[row['listing']]:,} of {row['rows']:,} {row['listing']}"
        for row in newest
        if figures[row["listing"]] < row["rows"]
    )
    if not is_finished:
        return "Not complete", "A load did not finish and left some of its rows. Run the load again."
    if not newest:
        return "Nothing loaded yet", "This dataset has no loads of contacts or templates."
    if missing:
        return "Not complete", f"Only {missing} are in the dataset. Run the load again."
    return "Complete", found_all(newest)


def found_all(newest: Rows) -> str:
    """Return what a complete dataset holds, how that is known, and what was rejected."""
    counts = " and ".join(number_of(row["rows"], row["listing"]) for row in newest)
    scope = "Everything that matches the filters" if any(row["filters"] for row in newest) else "Everything"
    rejected = sum(row["rejected"] for row in newest)
    text = f"{scope} is here: {counts}." if any(row["rows"] for row in newest) else f"The service has {counts}."
    proof = PROOFS.get(weakest(row["verdict"] for row in newest) or "", "")
    return f"{text}{proof}" + (f" {rejected:,} more without an ID were rejected." if rejected else "")


def loaded_at(newest: Rows) -> str:
    """Return when the listings were loaded, as one time if they were loaded together."""
    if len({row["at"] for row in newest}) == 1:
        return f"Loaded {newest[0]['at']} UTC"
    text = "; ".join(f"{row['listing']} loaded {row['at']} UTC" for row in newest)
    return text[:1].upper() + text[1:]


def number_of(number: int, names: str) -> str:
    """Return a number of things in words: 1 contact, 2,000 contacts."""
    return f"{number:,} {names.removesuffix('s') if number == 1 else names}"
